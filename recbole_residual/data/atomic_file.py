"""Reading RecBole's atomic files fast, in little memory, and to the letter.

RecBole reads them with pandas' Python engine and keeps every token as a Python string. Here the C
engine reads them in pieces and each token column is a pandas categorical: one string per distinct
token, a small integer per row. A token is what stands between two separators: a quote is a
character like any other, and ``NA`` or ``null`` are tokens; an empty cell alone is missing.
"""

from __future__ import annotations

import csv
import os
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

import numpy as np
import pandas as pd
from recbole.utils.enum_type import FeatureType
from tqdm import tqdm

from recbole_residual.data.header import Column, read_header
from recbole_residual.data.text_file import TextTable
from recbole_residual.errors import AtomicFileError

# pandas 3 reads a category whose tokens look like numbers as numbers: "007" would become 7.
_TOKEN_DTYPE = "category" if int(pd.__version__.split(".")[0]) < 3 else "str"

_MISSING_NUMBERS = ("", "NA", "N/A", "n/a", "NaN", "nan", "-NaN", "-nan", "NULL", "null", "None")
"""What stands for a number that is missing; a missing token is an empty cell and nothing else."""

ROWS_PER_PIECE = 250_000
"""Rows that the parser holds at once; bounds the peak memory of reading."""

BYTES_WORTH_A_BAR = 100_000_000
"""Files smaller than this are read within a few seconds and get no progress bar."""


def read_atomic_file(
    path: str,
    columns: Sequence[Column],
    separator: str = "\t",
    encoding: str | None = None,
    show_progress: bool = False,
    seq_separator: str = " ",
) -> pd.DataFrame:
    """Read columns of an atomic file.

    Args:
        path: the file.
        columns: the columns wanted, from :func:`read_header`.
        separator: RecBole's ``field_separator``, one or more characters.
        encoding: encoding of the file; by default UTF-8, or UTF-16 if the file's mark says so.
        show_progress: show a bar for a file that takes more than a few seconds.
        seq_separator: RecBole's, between the values of a sequence.

    Returns:
        pandas.DataFrame: a categorical for every token column, float64 for every float column,
        missing values as NaN; arrays for every sequence column, empty ones where the cell is;
        rows in the order of the file.

    Raises:
        AtomicFileError: if the file has no rows, a row has too many columns, or a column of numbers
            holds something that is no number; with the line and the column.
    """
    table = TextTable(path, separator, encoding)
    pieces = _read_pieces(table, columns, show_progress)
    if not pieces or sum(map(len, pieces)) == 0:
        raise AtomicFileError(path, "has a header but no rows.")
    frame = {column.field: _joined(pieces, column) for column in columns}
    for column in columns:
        if column.is_sequence:
            frame[column.field] = _split(table, frame[column.field], column, seq_separator)
    return pd.DataFrame(frame, copy=False)


def _read_pieces(
    table: TextTable, columns: Sequence[Column], show_progress: bool
) -> list[pd.DataFrame]:
    header = read_header(table.path, table.separator, table.encoding)
    # every column is parsed, also those that nobody asked for: told to take some of them, pandas
    # lets rows with too many fields pass, and takes the wrong ones
    wanted = {column.header for column in columns}
    numbers = {
        column.header
        for column in header
        if column.ftype == FeatureType.FLOAT and column.header in wanted
    }
    names = [column.header for column in header]
    pieces: list[pd.DataFrame] = []
    with table.open() as (text, raw), warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)  # a first row that is too long
        try:
            reader = pd.read_csv(
                text,
                sep=table.parsed_separator,
                index_col=False,
                dtype={name: "float64" if name in numbers else _TOKEN_DTYPE for name in names},
                quoting=csv.QUOTE_NONE,
                keep_default_na=False,
                na_values={
                    name: list(_MISSING_NUMBERS) if name in numbers else [""] for name in names
                },
                float_precision="round_trip",
                chunksize=ROWS_PER_PIECE,
            )
            pieces.extend(_with_progress(reader, raw, table.path, wanted, show_progress))
        except UnicodeError as error:
            raise table.not_text(error) from error
        except (ValueError, pd.errors.ParserWarning) as error:  # ParserError is a ValueError
            raise _what_is_wrong(table, header, wanted, error) from error
    return pieces


def _joined(pieces: Sequence[pd.DataFrame], column: Column) -> pd.Series:
    parts = [piece.pop(column.header) for piece in pieces]
    if column.ftype == FeatureType.FLOAT:
        return pd.concat(parts, ignore_index=True)
    return pd.Series(pd.api.types.union_categoricals(parts))


def _with_progress(
    reader: Any, file: BinaryIO, path: str, wanted: set[str], show_progress: bool
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
            piece = piece[[name for name in piece if name in wanted]]
            text = piece.select_dtypes(_TOKEN_DTYPE).columns
            yield piece.astype(dict.fromkeys(text, "category"))
            bar.update(file.tell() - bar.n)


def _split(table: TextTable, cells: pd.Series, column: Column, separator: str) -> pd.Series:
    """The cells of a sequence column as arrays; equal cells share one, which nobody changes."""
    is_float = column.ftype == FeatureType.FLOAT_SEQ
    dtype: Any = np.float64 if is_float else np.str_
    codes = np.asarray(cells.cat.codes)
    distinct = np.empty(len(cells.cat.categories) + 1, dtype=object)
    for code, cell in enumerate(cells.cat.categories):
        values = [value for value in cell.split(separator) if value]
        try:
            distinct[code] = np.array(list(map(float, values)) if is_float else values, dtype=dtype)
        except ValueError as error:
            where = table.where(np.flatnonzero(codes == code))
            raise AtomicFileError(
                table.path, f"{where}, column {column.field!r}: {cell!r} is no list of numbers."
            ) from error
    distinct[-1] = np.array([], dtype=dtype)  # the code of a missing cell is -1
    return pd.Series(distinct[codes])


def _what_is_wrong(
    table: TextTable, header: Sequence[Column], wanted: set[str], error: Exception
) -> AtomicFileError:
    """The first line that cannot be read, found by a slow second look at the file."""
    lines = table.lines()
    next(lines, None)
    for number, line in lines:
        cells = line.split(table.separator)
        if len(cells) > len(header):
            return AtomicFileError(
                table.path,
                f"line {number} has {len(cells)} fields, but the header names {len(header)} "
                f"columns: {line[:200]!r}.",
            )
        for column, cell in zip(header, cells):
            is_wanted = column.header in wanted and column.ftype == FeatureType.FLOAT
            if is_wanted and not _is_number(cell):
                return AtomicFileError(
                    table.path,
                    f"line {number}, column {column.field!r}: {cell!r} is no number, but the "
                    f"header says {column.header!r}.",
                )
    return AtomicFileError(table.path, f"cannot be read: {error}")


def _is_number(cell: str) -> bool:
    if cell in _MISSING_NUMBERS:
        return True
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell  # Python's reading alone takes 1_000
