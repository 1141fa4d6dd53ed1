"""What this package changes in how RecBole's datasets read and clean their files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from logging import getLogger
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from recbole.data.interaction import Interaction
from recbole.utils.enum_type import FeatureSource, FeatureType, ModelType

from recbole_residual.compat import fill_missing
from recbole_residual.data.atomic_file import read_atomic_file
from recbole_residual.data.header import Column, check_type, read_header
from recbole_residual.data.intervals import parse_intervals
from recbole_residual.data.negatives import check_negatives
from recbole_residual.data.parts import check_parts
from recbole_residual.data.settings import check_load_col, check_split
from recbole_residual.data.text_file import TextTable
from recbole_residual.data.times import SECONDS, likely_unit
from recbole_residual.errors import AtomicFileError, DataError, ResidualError, suggestion

if TYPE_CHECKING:
    from recbole.data.dataset import Dataset as _Parent
else:
    _Parent = object

_FILTERS = (
    "rm_dup_inter",
    "val_interval",
    "filter_inter_by_user_or_item",
    "user_inter_num_interval",
    "item_inter_num_interval",
    "remove_consecutive_repeats",
)


@contextmanager
def recbole_refusals(what: str) -> Iterator[None]:
    """Inside, what RecBole raises for a value that it cannot use is a :class:`DataError`.

    Args:
        what: what RecBole refuses then, in words.
    """
    try:
        yield
    except ResidualError:
        raise
    except (ValueError, NotImplementedError, AssertionError) as error:
        raise DataError(f"RecBole refuses {what}: {error}") from error


class AtomicFileReading(_Parent):
    """Goes before one of RecBole's Dataset classes: its files are read to the letter.

    Tokens are what stands between two separators, the same in every file; columns that are asked
    for and not there are an error, as is everything else of the configuration that RecBole warns of
    and then ignores.
    """

    keeps_categories: bool = False
    """Whether token columns stay pandas categoricals; RecBole's own code wants strings."""

    inter_feat: Any
    user_feat: Any
    item_feat: Any

    # ---- files ---------------------------------------------------------------------------------

    def _table(self, path: str) -> TextTable:
        return TextTable(path, self.config["field_separator"], self.config["encoding"])

    def _load_feat(self, filepath: str, source: Any) -> pd.DataFrame | None:
        load_col, unload_col = self._get_load_and_unload_col(source)
        if load_col is not None and not load_col:
            return None
        table = self._table(filepath)
        header = read_header(filepath, table.separator, table.encoding)
        for key, names in (("load_col", load_col), ("unload_col", unload_col)):
            self._check_names(filepath, key, names or (), header)
        wanted = [
            column
            for column in header
            if (load_col is None or column.field in load_col or self._adds(column, source))
            and not (unload_col and column.field in unload_col)
        ]
        self._check_wanted(filepath, source, wanted, header)
        if not wanted:
            getLogger().warning("No column of %s is loaded.", filepath)
            return None
        feat = read_atomic_file(
            filepath,
            wanted,
            table.separator,
            table.encoding,
            bool(self.config["show_progress"]),
            self.config["seq_separator"] or " ",
        )
        if not self.keeps_categories:
            for name in feat.select_dtypes("category").columns:
                feat[name] = feat[name].astype(object)
        if source != "link":  # RecBole lists no fields of those files
            self._register(feat, wanted, source)
        self._check_loaded(filepath, source, feat)
        return feat

    def _register(self, feat: pd.DataFrame, columns: Sequence[Column], source: Any) -> None:
        """Tell RecBole the type and length of every column; sequences are cut to ``seq_len``."""
        for column in columns:
            length = 1
            if column.is_sequence:
                cells = feat[column.field]
                length = max(map(len, cells))
                longest = (self.config["seq_len"] or {}).get(column.field)
                if longest and longest < length:
                    length = longest
                    feat[column.field] = [cell[:longest] for cell in cells]
            self.set_field_property(column.field, column.ftype, source, length)
            if column.ftype in (FeatureType.FLOAT, FeatureType.FLOAT_SEQ):
                self.field2bucketnum[column.field] = 2

    def _check_names(
        self, path: str, key: str, names: Sequence[str], header: Sequence[Column]
    ) -> None:
        """Refuse names of columns that the file does not have."""
        fields = [column.field for column in header]
        for name in names:
            if name in fields or self._may_lack(name):
                continue
            hint = suggestion(str(name), fields)
            raise AtomicFileError(
                path,
                f"{key} names a column {name!r}, but there is none.{hint} {_columns_of(header)}",
            )

    def _may_lack(self, field: str) -> bool:
        return False

    def _adds(self, column: Column, source: Any) -> bool:
        """Whether a column is loaded that ``load_col`` does not name."""
        return False

    def _check_wanted(
        self, path: str, source: Any, wanted: Sequence[Column], header: Sequence[Column]
    ) -> None:
        """Refuse a file whose columns have types that they cannot be used with."""
        for key in ("USER_ID_FIELD", "ITEM_ID_FIELD"):
            check_type(path, wanted, self.config[key], FeatureType.TOKEN, key)
        if source == FeatureSource.INTERACTION and self.config["TIME_FIELD"]:
            check_type(path, wanted, self.config["TIME_FIELD"], FeatureType.FLOAT, "TIME_FIELD")

    def _check_loaded(self, path: str, source: Any, feat: pd.DataFrame) -> None:
        """Warn of times in another unit than seconds."""
        if source != FeatureSource.INTERACTION or self.time_field not in feat:
            return
        times = feat[self.time_field].to_numpy()
        unit = likely_unit(times[np.isfinite(times)])
        if unit is not SECONDS:
            getLogger().warning(
                "%s: the values of %s look like %s, and are taken for seconds. The order of the "
                "interactions is the same, but every number of days is wrong; write seconds since "
                "1970 to be rid of this warning.",
                path,
                self.time_field,
                unit.name,
            )

    def _load_data(self, token: str, dataset_path: str) -> None:
        check_load_col(self.config)
        super()._load_data(token, dataset_path)

    def _load_inter_feat(self, token: str, dataset_path: str) -> None:
        with recbole_refusals("the files of interactions"):
            super()._load_inter_feat(token, dataset_path)

    def _load_user_or_item_feat(self, token: str, path: str, source: Any, *args: Any) -> Any:
        asked = (self.config["load_col"] or {}).get(source.value)
        file = f"{path}/{token}.{source.value}"
        if asked and asked != "*" and not os.path.isfile(file):
            raise AtomicFileError(
                file, f"there is no such file, but load_col asks for its columns {asked}."
            )
        with recbole_refusals("the file of users or items"):
            return super()._load_user_or_item_feat(token, path, source, *args)

    def _load_additional_feat(self, *args: Any, **kwargs: Any) -> None:
        with recbole_refusals("additional_feat_suffix"):
            super()._load_additional_feat(*args, **kwargs)

    def _get_load_and_unload_col(self, source: Any) -> tuple[Any, Any]:
        with recbole_refusals("load_col with unload_col"):
            return super()._get_load_and_unload_col(source)

    def _init_alias(self) -> None:
        with recbole_refusals("alias_of_user_id or alias_of_item_id"):
            super()._init_alias()

    # ---- cleaning ------------------------------------------------------------------------------

    def _data_filtering(self) -> None:
        self._n_read = len(self.inter_feat)
        with recbole_refusals("val_interval or another filter"):
            super()._data_filtering()

    def _filter_nan_user_or_item(self) -> None:
        # RecBole takes labels for positions: its second round drops other rows than it names
        folder = f"{self.dataset_path}/{self.dataset_name}"
        for field, name in ((self.uid_field, "user"), (self.iid_field, "item")):
            for feat_name, suffix in ((f"{name}_feat", name), ("inter_feat", "inter")):
                feat = getattr(self, feat_name)
                if feat is None or field is None:
                    continue
                missing = feat[field].isna().to_numpy()
                if missing.any():
                    path = f"{folder}.{suffix}"
                    where = self._table(path).where(feat.index[missing].tolist())
                    getLogger().warning(
                        "%s: %d rows without %s are dropped (%s).",
                        path,
                        int(missing.sum()),
                        field,
                        where,
                    )
                    setattr(self, feat_name, feat[~missing])

    def _parse_intervals_str(self, intervals_str: Any) -> Any:
        return parse_intervals(intervals_str, "the interval")

    def _filter_by_inter_num(self) -> None:
        for key in ("user_inter_num_interval", "item_inter_num_interval"):
            parse_intervals(self.config[key], key)
        super()._filter_by_inter_num()

    def _reset_index(self) -> None:
        if self.inter_feat.empty:
            filters = {key: self.config[key] for key in _FILTERS if self.config[key]}
            said = ", ".join(f"{key}: {value}" for key, value in filters.items()) or "none"
            raise DataError(
                f"{self.config['dataset']} is empty after filtering: none of {self._n_read:,} "
                f"interactions is left. Filters: {said}. Make them looser, or look at the file."
            )
        super()._reset_index()

    def _fill_nan(self) -> None:
        fill_missing(self)

    def _normalize(self) -> None:
        with recbole_refusals("normalize_field or normalize_all"):
            super()._normalize()

    # ---- splits --------------------------------------------------------------------------------

    def build(self) -> list[Any]:
        """Split into training, validation and test as ``eval_args`` says, or as the files are.

        Raises:
            DataError: for an ``eval_args`` that cannot be used, or if the split leaves nothing to
                train on or to evaluate.
        """
        if self.benchmark_filename_list is None:
            sequential = self.config["MODEL_TYPE"] == ModelType.SEQUENTIAL
            check_split(self.config["eval_args"], sequential)
        with recbole_refusals("eval_args"):
            parts = self._split()
        check_parts(self.config, parts)
        check_negatives(self.config, parts)
        return parts

    def _split(self) -> list[Any]:
        return super().build()

    # ---- tensors -------------------------------------------------------------------------------

    def _dataframe_to_interaction(self, data: pd.DataFrame) -> Interaction:
        # pandas 3 hands out arrays that nobody may write to, and torch warns of each: plain columns
        # are copied, the others go RecBole's way
        plain = {
            name: torch.from_numpy(data[name].to_numpy(dtype=dtype, copy=True))
            for name, dtype in ((name, self._plain_dtype(name)) for name in data)
            if dtype is not None
        }
        others = super()._dataframe_to_interaction(data.drop(columns=list(plain)))
        return Interaction({n: plain[n] if n in plain else others[n] for n in data})

    def _plain_dtype(self, field: Any) -> Any:
        kind = self.field2type[field]
        if kind == FeatureType.TOKEN:
            return np.int64
        if kind == FeatureType.FLOAT and field not in self.config["numerical_features"]:
            return np.float32
        return None


def _columns_of(header: Sequence[Column]) -> str:
    return f"The file has: {', '.join(column.field for column in header)}."
