"""Reading RecBole's atomic files fast and in little memory.

RecBole reads them with pandas' Python engine and keeps every token as a Python string. Here the C
engine reads them in pieces and each token column is a pandas categorical: one string per distinct
token, a small integer per row.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
import pandas as pd
from recbole.utils.enum_type import FeatureType
from tqdm import tqdm

from recbole_residual.errors import AtomicFileError

# pandas 3 reads a category whose tokens look like numbers as numbers: "007" would become 7.
_TOKEN_DTYPE = "category" if int(pd.__version__.split(".")[0]) < 3 else "str"

ROWS_PER_PIECE = 250_000
"""Rows that the parser holds at once; bounds the peak memory of reading."""

BYTES_WORTH_A_BAR = 100_000_000
"""Files smaller than this are read within a few seconds and get no progress bar."""


@dataclass(frozen=True)
class Column:
    """One column as the header of an atomic file names it, e.g. ``item_id:token``."""

    header: str
    field: str
    ftype: FeatureType

    @property
    def is_sequence(self) -> bool:
        return self.ftype in (FeatureType.TOKEN_SEQ, FeatureType.FLOAT_SEQ)


def read_header(path: str, separator: str = "\t", encoding: str | None = None) -> list[Column]:
    """The columns of an atomic file.

    Args:
        path: the file.
        separator: RecBole's ``field_separator``.
        encoding: encoding of the file, UTF-8 by default.

    Raises:
        AtomicFileError: if the file is empty or its first line is no header.
    """
    try:
        with open(path, "rb") as file:
            line = file.readline().decode(encoding or "utf-8-sig").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise AtomicFileError(
            path, f"cannot be read as text ({error}); set `encoding` if it is not UTF-8."
        ) from error
    if not line.strip():
        raise AtomicFileError(path, "is empty; its first line must name the columns.")
    columns = []
    for header in line.split(separator):
        field, colon, kind = header.rpartition(":")
        known = [ftype.value for ftype in FeatureType]
        if not colon or not field or kind not in known:
            raise AtomicFileError(
                path,
                f"its first line is no header of an atomic file: found {header!r}, expected "
                f"`name:type` with a type out of {', '.join(known)}, columns separated by "
                f"{separator!r} (`field_separator`), e.g. 'user_id:token\\titem_id:token\\t"
                "timestamp:float'.",
            )
        columns.append(Column(header, field, FeatureType(kind)))
    return columns


def read_atomic_file(
    path: str,
    columns: list[Column],
    separator: str = "\t",
    encoding: str | None = None,
    show_progress: bool = False,
) -> pd.DataFrame:
    """Read columns of an atomic file that holds no sequences.

    Args:
        path: the file.
        columns: the columns wanted, from :func:`read_header`; tokens and floats only.
        separator: RecBole's ``field_separator``.
        encoding: encoding of the file, UTF-8 by default.
        show_progress: show a bar for a file that takes more than a few seconds.

    Returns:
        pandas.DataFrame: a categorical for every token column, float64 for every float column,
        missing values as NaN, rows in the order of the file.

    Raises:
        AtomicFileError: if the file has no rows, a row has too many columns (told only where all
            columns are read), or a float column holds something that is no number.
    """
    n_columns = len(read_header(path, separator, encoding))
    is_token = {column.header: column.ftype == FeatureType.TOKEN for column in columns}
    pieces: list[pd.DataFrame] = []
    with open(path, "rb") as file, warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)  # a first row that is too long
        try:
            reader = pd.read_csv(
                file,
                sep=separator,
                # asked for some columns, pandas lets rows with too many of them pass
                usecols=list(is_token) if len(columns) < n_columns else None,
                index_col=False,
                dtype={
                    name: _TOKEN_DTYPE if token else "float64" for name, token in is_token.items()
                },
                encoding=encoding or "utf-8-sig",
                chunksize=ROWS_PER_PIECE,
            )
            pieces.extend(_with_progress(reader, file, path, show_progress))
        except (ValueError, pd.errors.ParserWarning) as error:  # ParserError is a ValueError
            raise AtomicFileError(path, f"cannot be read: {error}") from error
    if not pieces or sum(map(len, pieces)) == 0:
        raise AtomicFileError(path, "has a header but no rows.")
    frame = {}
    for column in columns:
        parts = [piece.pop(column.header) for piece in pieces]
        if is_token[column.header]:
            frame[column.field] = pd.Series(pd.api.types.union_categoricals(parts))
        else:
            frame[column.field] = pd.concat(parts, ignore_index=True)
    return pd.DataFrame(frame, copy=False)


def _with_progress(
    reader: Any, file: BinaryIO, path: str, show_progress: bool
) -> Iterator[pd.DataFrame]:
    size = os.path.getsize(path)
    with tqdm(
        total=size,
        unit="B",
        unit_scale=True,
        ncols=100,
        desc=f"Read {os.path.basename(path)}",
        disable=not show_progress or size < BYTES_WORTH_A_BAR,
    ) as bar:
        for piece in reader:
            text = piece.select_dtypes(_TOKEN_DTYPE).columns
            yield piece.astype(dict.fromkeys(text, "category"))
            bar.update(file.tell() - bar.n)


def check_times(path: str, field: str, times: np.ndarray) -> None:
    """Refuse times by which nothing can be sorted.

    Args:
        path: file they come from.
        field: name of the time field.
        times: its values, [N].

    Raises:
        AtomicFileError: if one is missing or infinite.
    """
    broken = np.flatnonzero(~np.isfinite(times))
    if len(broken):
        lines = ", ".join(str(row + 2) for row in broken[:5])
        raise AtomicFileError(
            path,
            f"{len(broken)} of {len(times)} values of `{field}` are missing or infinite (line "
            f"{lines}{', ...' if len(broken) > 5 else ''}); sequences cannot be ordered without "
            "them.",
        )
