"""Ready-made splits: files whose rows hold a history and a target (``benchmark_filename``)."""

from __future__ import annotations

from collections.abc import Sequence
from logging import getLogger
from typing import Any

import numpy as np
import pandas as pd
from recbole.data.dataset import SequentialDataset
from recbole.utils.enum_type import FeatureSource, FeatureType

from recbole_residual.data.header import Column, check_type
from recbole_residual.data.reading import AtomicFileReading
from recbole_residual.errors import AtomicFileError, DataError
from recbole_residual.model.objective import trains_at_all_positions

_ZERO = "0"


class BenchmarkDataset(AtomicFileReading, SequentialDataset):
    """RecBole's sequential dataset over ready-made rows, each a history and its next item.

    The items of the histories (``item_id_list``) and the targets (``item_id``) are the same items,
    whether or not ``alias_of_item_id`` says so. Zeros in a history are padding, wherever they
    stand, unless some row has an item ``0`` as its target. A history longer than
    ``MAX_ITEM_LIST_LENGTH`` keeps its latest items.

    Raises:
        DataError: for a file without histories, a row without user, target or history, another
            number of files than three.
    """

    def __init__(self, config: Any) -> None:
        names = config["benchmark_filename"]
        if not isinstance(names, (list, tuple)) or len(names) != 3:
            raise DataError(
                f"benchmark_filename = {names!r} is not usable: it names three files, for "
                "training, validation and testing, such as ['train', 'valid', 'test']."
            )
        if trains_at_all_positions(config):
            config["loss_positions"] = "last"
            getLogger().warning(
                "benchmark_filename: the rows of the files are trained as they are, one target "
                "each, so loss_positions is set to 'last'."
            )
        self._list_field = config["ITEM_ID_FIELD"] + config["LIST_SUFFIX"]
        super().__init__(config)

    def _check_wanted(
        self, path: str, source: Any, wanted: Sequence[Column], header: Sequence[Column]
    ) -> None:
        if source == FeatureSource.INTERACTION:
            loaded = [column.field for column in wanted]
            for field in (self.uid_field, self.iid_field, self._list_field):
                if field not in loaded:
                    raise AtomicFileError(
                        path,
                        f"no column {field!r} was loaded, which ready-made splits need. The file "
                        f"has: {', '.join(column.field for column in header)}; load_col is "
                        f"{self.config['load_col']}.",
                    )
            check_type(path, wanted, self._list_field, FeatureType.TOKEN_SEQ, "the history")
        super()._check_wanted(path, source, wanted, header)

    def _may_lack(self, field: str) -> bool:
        return field == self.time_field  # the order is in the rows

    def _load_inter_feat(self, token: str, dataset_path: str) -> None:
        super()._load_inter_feat(token, dataset_path)
        ends = np.cumsum(self.file_size_list)
        zero_is_an_item = bool((self.inter_feat[self.iid_field] == _ZERO).any())
        histories = [
            cell if zero_is_an_item else cell[cell != _ZERO]
            for cell in self.inter_feat[self._list_field]
        ]
        empty = np.array([len(cell) == 0 for cell in histories])
        for field, broken in (
            (self._list_field, empty),
            (self.uid_field, self.inter_feat[self.uid_field].isna().to_numpy()),
            (self.iid_field, self.inter_feat[self.iid_field].isna().to_numpy()),
        ):
            self._refuse(field, broken, ends)
        longest = self.max_item_list_len
        self.inter_feat[self._list_field] = pd.Series([cell[-longest:] for cell in histories])
        self.field2seqlen[self._list_field] = min(longest, max(map(len, histories)))

    def _refuse(self, field: str, broken: np.ndarray, ends: np.ndarray) -> None:
        """Refuse rows whose cell is empty, with the file and the lines of the first file that has
        one."""
        if not broken.any():
            return
        number = int(np.searchsorted(ends, np.flatnonzero(broken)[0], side="right"))
        begin = 0 if number == 0 else ends[number - 1]
        rows = np.flatnonzero(broken[begin : ends[number]])
        name = self.benchmark_filename_list[number]
        path = f"{self.dataset_path}/{self.dataset_name}.{name}.inter"
        raise AtomicFileError(
            path,
            f"column {field!r} is empty in {len(rows):,} rows "
            f"({self._table(path).where(rows.tolist())}): every row needs a user, a target and a "
            "history of at least one item.",
        )

    def _set_alias(self, alias_name: str, default_value: list[Any]) -> None:
        if alias_name == "item_id":
            default_value = [*default_value, self._list_field]
        super()._set_alias(alias_name, default_value)
