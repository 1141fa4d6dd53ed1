"""SequenceDataset: RecBole's SequentialDataset without the padded rows.

What it shares with RecBole: files, filters, ids, the order of the rows, splits. What differs: it
reads with pandas' C engine, counts with arrays, and keeps each interaction once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from recbole.data.dataset import SequentialDataset
from recbole.data.interaction import Interaction
from recbole.utils.enum_type import FeatureSource, FeatureType

from recbole_residual.data import splitting
from recbole_residual.data.filtering import filter_interactions
from recbole_residual.data.header import Column as FileColumn
from recbole_residual.data.intervals import Interval, parse_intervals
from recbole_residual.data.reading import AtomicFileReading
from recbole_residual.data.sequences import (
    HISTORY,
    LENGTH,
    TARGET,
    Column,
    SequenceColumns,
    SequenceInteraction,
    Sequences,
)
from recbole_residual.data.settings import GLOBAL_TEMPORAL
from recbole_residual.data.statistics import DatasetStatistics, count_statistics
from recbole_residual.data.times import check_times
from recbole_residual.errors import AtomicFileError
from recbole_residual.model.objective import trains_at_all_positions
from recbole_residual.model.ratings import wanted_rating_field


class SequenceDataset(AtomicFileReading, SequentialDataset):
    """RecBole's sequential dataset in memory that grows with the interactions.

    Its rows, their order, ids and every split that RecBole knows are RecBole's own. Time orders the
    rows exactly, ties in the order of the file, except where a model trains on RecBole's samples
    (``loss_positions: last``, or a model that knows no other way): there the order is RecBole's,
    by times that it has cut to float32.

    Config keys:
        remove_consecutive_repeats: drop items that repeat the item right before them, in turn with
            ``user_inter_num_interval`` and ``item_inter_num_interval`` until nothing changes.
        eval_args: ``split`` takes RecBole's and ``{GT: [test quantile, validation quantile]}``.
        and those of RecBole's SequentialDataset.

    Attributes:
        statistics: users, items, interactions and so on after preprocessing.
        sequences: the flat arrays, once the dataset is built.
    """

    keeps_categories = True
    inter_feat: Any
    statistics: DatasetStatistics
    sequences: Sequences

    def _get_field_from_config(self) -> None:
        super()._get_field_from_config()
        split = self.config["eval_args"]["split"]
        self.global_temporal = isinstance(split, dict) and GLOBAL_TEMPORAL in split
        self.exact_order = self.global_temporal or trains_at_all_positions(self.config)

    # ---- loading -------------------------------------------------------------------------------

    def _check_wanted(
        self, path: str, source: Any, wanted: Sequence[FileColumn], header: Sequence[FileColumn]
    ) -> None:
        if source == FeatureSource.INTERACTION:
            loaded = [column.field for column in wanted]
            for key in ("USER_ID_FIELD", "ITEM_ID_FIELD", "TIME_FIELD"):
                if self.config[key] not in loaded:
                    raise AtomicFileError(
                        path,
                        f"no column {self.config[key]!r} was loaded, which sequences need ({key}). "
                        f"The file has: {', '.join(column.field for column in header)}. Set {key} "
                        f"to the right name, and see that load_col ({self.config['load_col']}) "
                        "names it.",
                    )
        super()._check_wanted(path, source, wanted, header)

    def _check_loaded(self, path: str, source: Any, feat: pd.DataFrame) -> None:
        if source == FeatureSource.INTERACTION:
            times = feat[self.time_field].to_numpy()
            check_times(path, self.time_field, times, self._table(path))
        super()._check_loaded(path, source, feat)

    def _may_lack(self, field: str) -> bool:
        return field == self.time_field  # what is missing then is told with more words

    def _adds(self, column: FileColumn, source: Any) -> bool:
        return (
            source == FeatureSource.INTERACTION
            and column.field == wanted_rating_field(self.config, self.config.model_class)
            and column.ftype == FeatureType.FLOAT
        )

    # ---- preprocessing -------------------------------------------------------------------------

    def _remove_duplication(self) -> None:
        keep = self.config["rm_dup_inter"]
        if keep is None or not self.exact_order:
            super()._remove_duplication()
            return
        # RecBole's sort is not stable: rows that share a time would change places
        self.inter_feat.sort_values(by=self.time_field, kind="stable", inplace=True)
        self.inter_feat.drop_duplicates(
            subset=[self.uid_field, self.iid_field], keep=keep, inplace=True
        )

    def _filter_by_inter_num(self) -> None:
        user_intervals, item_intervals = (
            parse_intervals(self.config[key], key)
            for key in ("user_inter_num_interval", "item_inter_num_interval")
        )
        without_repeats = bool(self.config["remove_consecutive_repeats"])
        if user_intervals is None and item_intervals is None and not without_repeats:
            return
        users, user_tokens = pd.factorize(self.inter_feat[self.uid_field])
        items, item_tokens = pd.factorize(self.inter_feat[self.iid_field])
        order = None
        if without_repeats:
            order = np.lexsort((self.inter_feat[self.time_field].to_numpy(), users))
        kept = filter_interactions(users, items, user_intervals, item_intervals, order)
        if not kept.rows.all():
            self.inter_feat = self.inter_feat[kept.rows]
        left = (kept.users, kept.dropped_users)
        self.user_feat = _of_those_left(
            self.user_feat, self.uid_field, user_tokens, *left, user_intervals
        )
        left = (kept.items, kept.dropped_items)
        self.item_feat = _of_those_left(
            self.item_feat, self.iid_field, item_tokens, *left, item_intervals
        )

    def _remap(self, remap_list: list[tuple[pd.DataFrame, str, FeatureType]]) -> None:
        columns = [feat[field] for feat, field, _ in remap_list]
        if not columns or not all(isinstance(c.dtype, pd.CategoricalDtype) for c in columns):
            super()._remap(remap_list)
            return
        joined = pd.api.types.union_categoricals(
            [column.array for column in columns], ignore_order=True
        )
        codes = np.asarray(joined.codes)
        ids = np.zeros(len(codes), dtype=np.int64)  # a missing token is padding
        has_token = codes >= 0
        new_ids, first_codes = pd.factorize(codes[has_token])
        ids[has_token] = new_ids + 1
        tokens = np.array(["[PAD]", *joined.categories.take(first_codes)])
        token_id = {token: i for i, token in enumerate(tokens)}
        ends = np.cumsum([len(column) for column in columns])
        for (feat, field, _), new in zip(remap_list, np.split(ids, ends[:-1])):
            if field not in self.field2id_token:
                self.field2id_token[field] = tokens
                self.field2token_id[field] = token_id
            feat[field] = new

    def _normalize(self) -> None:
        # the last moment at which times are exact
        feat = self.inter_feat
        self._time = feat[self.time_field].to_numpy(dtype=np.float64, copy=True)
        self.statistics = count_statistics(
            feat[self.uid_field].to_numpy(), feat[self.iid_field].to_numpy(), self._time
        )
        super()._normalize()

    # ---- sequences -----------------------------------------------------------------------------

    def data_augmentation(self) -> None:
        """Lay the interactions out by user and time and make a row of every one but the first."""
        self._aug_presets()
        self._check_field("uid_field", "time_field")
        feat: Interaction = self.inter_feat
        users = feat[self.uid_field].numpy()
        order = np.lexsort((self._time, users))  # stable: ties keep the order of the file
        if not self.exact_order:
            exact = order
            order = np.lexsort((feat[self.time_field].numpy(), users))
            self._tell_of_other_order(users[order], exact != order)
        users = users[order]
        starts = np.flatnonzero(np.append(True, users[1:] != users[:-1]))
        first = np.repeat(starts, np.diff(np.append(starts, len(users))))
        self.sequences = Sequences(
            {name: feat[name][torch.from_numpy(order)] for name in feat},
            torch.from_numpy(first),
            self.max_item_list_len,
            self._time[order],
        )
        del self._time
        columns = {name: Column(TARGET, name) for name in feat}
        columns[self.item_list_length_field] = Column(LENGTH)
        for name in feat:
            if name != self.uid_field:
                columns[getattr(self, f"{name}_list_field")] = Column(HISTORY, name)
        position = np.arange(len(users))
        targets = torch.from_numpy(position[position != first])
        self.inter_feat = SequenceInteraction(SequenceColumns(self.sequences, targets, columns))

    def _tell_of_other_order(self, users: np.ndarray, moved: np.ndarray) -> None:
        if moved.any():
            self.logger.warning(
                "%s of %s interactions, of %s users, stand in another place than their times say: "
                "RecBole cuts times to float32 before it sorts, and loss_positions: last keeps "
                "RecBole's order.",
                f"{np.count_nonzero(moved):,}",
                f"{len(moved):,}",
                f"{len(np.unique(users[moved])):,}",
            )

    def __getitem__(self, index: Any, join: bool = True) -> Interaction:
        rows = self.inter_feat[index].materialize()
        return self.join(rows) if join else rows

    def counter(self, field: str) -> Counter:
        """How often each id of a token field is a target, as RecBole counts it, without a loop."""
        if isinstance(self.inter_feat, pd.DataFrame):
            return super().counter(field)
        if field not in self.inter_feat or self.field2type[field] != FeatureType.TOKEN:
            return super().counter(field)
        ids, counts = np.unique(self.inter_feat[field].numpy(), return_counts=True)
        return Counter(dict(zip(ids.tolist(), counts.tolist())))

    # ---- splits --------------------------------------------------------------------------------

    def _split(self) -> list[SequenceDataset]:
        if not self.global_temporal:
            return super()._split()
        quantiles = splitting.check_quantiles(self.config["eval_args"]["split"][GLOBAL_TEMPORAL])
        self._change_feat_format()
        split = splitting.temporal_split(
            self.sequences.first.numpy(), self.sequences.time, quantiles
        )
        self._drop_unused_col()
        rows = self.inter_feat.positions.numpy()
        return [
            self.copy(self.inter_feat[np.searchsorted(rows, targets)])
            for targets in (split.train, split.valid, split.test)
        ]

    def _grouped_index(self, group_by_list: np.ndarray) -> list[np.ndarray]:
        return splitting.group_rows(np.asarray(group_by_list))

    def _split_index_by_leave_one_out(
        self, grouped_index: list[np.ndarray], leave_one_num: int
    ) -> list[np.ndarray]:
        return splitting.leave_last_out(grouped_index, leave_one_num)


def _of_those_left(
    feat: pd.DataFrame | None,
    field: str,
    tokens: pd.Index,
    counts: np.ndarray,
    dropped: np.ndarray,
    intervals: list[Interval] | None,
) -> pd.DataFrame | None:
    """The rows of a file of users or items that RecBole's filter would leave.

    Args:
        feat: the table, None if there is none.
        field: its column of ids.
        tokens: the tokens of the interactions before the filter, [n].
        counts: how many interactions of each are left, [n].
        dropped: which of them the filter took out, bool [n].
        intervals: allowed numbers of interactions.
    """
    if feat is None:
        return None
    row = pd.Index(tokens).get_indexer(feat[field])  # -1: no interaction at all
    count = np.where(row < 0, 0, counts[row])
    gone = (row >= 0) & dropped[row]
    if intervals:
        gone |= count < intervals[0][1]
    return feat[~gone]
