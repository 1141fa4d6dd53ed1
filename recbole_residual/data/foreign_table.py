"""Tables as people have them (csv, parquet, a DataFrame) turned into tokens and seconds."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Union

import numpy as np
import pandas as pd

from recbole_residual.data.text_file import TextTable
from recbole_residual.data.times import CALENDAR_DATES, SECONDS, likely_unit
from recbole_residual.errors import DataError, MissingPackageError, suggestion

Source = Union[pd.DataFrame, str, "os.PathLike[str]"]

_PARQUET = (".parquet", ".pq")
_SEPARATORS = (",", "\t", ";", "|", "::")
_ROWS_PER_PIECE = 250_000
_PANDAS = int(pd.__version__.split(".")[0])
_DAY_AND_MONTH = r"^\s*(\d{1,2})[/.\-](\d{1,2})[/.\-]\d{4}"


def in_words(source: Source) -> str:
    """What a source is, for a message: its path, or that it is a DataFrame."""
    return "the DataFrame" if isinstance(source, pd.DataFrame) else str(source)


def read_columns(
    source: Source,
    columns: Sequence[str] | None,
    separator: str | None = None,
    encoding: str | None = None,
) -> pd.DataFrame:
    """Columns of a table, text as it stands: ``007`` stays ``007``, only empty cells are missing.

    Args:
        source: a DataFrame, a parquet file, or a text file with a header, packed or not.
        columns: their names; None for all.
        separator: of a text file; by default the one that separates the columns in its header.
        encoding: of a text file.

    Raises:
        DataError: if the file cannot be read, or has no such column.
        MissingPackageError: if pyarrow is needed and not there.
    """
    if isinstance(source, pd.DataFrame):
        _check_columns(source, columns, list(source.columns))
        return source if columns is None else source[list(columns)]
    path = Path(source).expanduser()
    if not path.is_file():
        raise DataError(f"{path}: there is no such file.")
    if path.suffix.lower() in _PARQUET:
        return _read_parquet(path, columns)
    table = TextTable(str(path), encoding=encoding)
    how = _how(separator or _separator(path, columns, table.encoding), table.encoding)
    try:
        _check_columns(path, columns, list(pd.read_csv(path, nrows=0, **how).columns))
        return _read_text(path, columns, how)
    except UnicodeError as error:
        raise table.not_text(error) from error
    except (ValueError, pd.errors.ParserWarning) as error:  # ParserError is a ValueError
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path}: cannot be read as a table: {error}") from error


def _how(separator: str, encoding: str) -> dict[str, Any]:
    """How pandas reads a text file; it takes longer separators for regular expressions."""
    if len(separator) == 1:
        return {"sep": separator, "encoding": encoding}
    return {"sep": re.escape(separator), "encoding": encoding, "engine": "python"}


def _read_text(path: Path, columns: Sequence[str] | None, how: dict[str, Any]) -> pd.DataFrame:
    # told to take some columns, pandas lets rows with too many fields pass, and takes wrong ones
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        pieces = [
            piece if columns is None else piece[list(dict.fromkeys(columns))]
            for piece in pd.read_csv(
                path,
                dtype=str,
                keep_default_na=False,
                na_values=[""],
                index_col=False,
                chunksize=_ROWS_PER_PIECE,
                **how,
            )
        ]
    return pd.concat(pieces, ignore_index=True)


def _read_parquet(path: Path, columns: Sequence[str] | None) -> pd.DataFrame:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError as error:
        raise MissingPackageError(
            f"{path}: reading parquet needs pyarrow: pip install 'recbole-residual[parquet]'."
        ) from error
    try:
        _check_columns(path, columns, parquet.read_schema(path).names)
        return pd.read_parquet(path, columns=None if columns is None else list(columns))
    except ArrowException as error:
        raise DataError(f"{path}: is no parquet file that can be read: {error}") from error


def _separator(path: Path, columns: Sequence[str] | None, encoding: str) -> str:
    """The separator with which the header has the columns; a comma if none has."""
    for separator in _SEPARATORS:
        try:
            header = pd.read_csv(path, nrows=0, **_how(separator, encoding))
        except ValueError:
            continue  # what is wrong with the file is told by whoever reads it
        names = [str(name) for name in header.columns]
        if set(columns) <= set(names) if columns is not None else len(names) > 1:
            return separator
    return ","


def _check_columns(source: Source, columns: Sequence[str] | None, header: Sequence[object]) -> None:
    names = [str(name) for name in header]
    for column in columns or ():
        if column in header:
            continue
        hint = suggestion(str(column), names, likeness=0.5)
        raise DataError(
            f"{in_words(source)}: there is no column {column!r}.{hint} There are: "
            f"{', '.join(names)}."
        )
    for column in columns or ():
        if names.count(str(column)) > 1:
            raise DataError(f"{in_words(source)}: the column {column!r} is there twice.")


def as_tokens(values: pd.Series) -> pd.Series:
    """Ids as text, None where one is missing; whole numbers without the ``.0`` of a float column.

    Example:
        >>> as_tokens(pd.Series([7.0, None, 8.0])).tolist()
        ['7', None, '8']
    """
    missing = values.isna().to_numpy()
    text = np.full(len(values), None, dtype=object)
    kept = values[~missing]
    if pd.api.types.is_float_dtype(kept) and (kept == np.floor(kept)).all():
        kept = kept.astype("int64")
    text[~missing] = kept.astype(object).map(str).to_numpy()
    text[text == ""] = None
    return pd.Series(text, index=values.index, dtype=object)


class Times(NamedTuple):
    """Seconds since 1970 [N], NaN where there is none, and what was noticed on the way."""

    seconds: np.ndarray
    notes: tuple[str, ...]


def as_seconds(values: pd.Series) -> Times:
    """Times of any common kind as seconds since 1970.

    Numbers that look like milliseconds, microseconds, nanoseconds or days become seconds; numbers
    such as 20240131, text such as ``2024-01-31 12:00`` and date columns are read as dates, in UTC
    where they name no zone.

    Args:
        values: numbers, dates, or text that is one of the two.
    """
    if pd.api.types.is_datetime64_any_dtype(values):
        return Times(_since_1970(pd.to_datetime(values, utc=True)), ())
    text = not pd.api.types.is_numeric_dtype(values)
    numbers = pd.to_numeric(values.astype(object) if text else values, errors="coerce")
    seconds = numbers.to_numpy(dtype=np.float64, na_value=np.nan)
    seconds = np.where(np.isfinite(seconds), seconds, np.nan)
    if text and np.isfinite(seconds).sum() * 2 < values.notna().sum():
        return _from_text(values)
    unit = likely_unit(seconds[np.isfinite(seconds)])
    if unit is SECONDS:
        return Times(seconds, ())
    if unit is CALENDAR_DATES:
        dates = pd.Series(seconds).map(lambda day: f"{day:.0f}", na_action="ignore")
        days = pd.to_datetime(dates, format="%Y%m%d", errors="coerce", utc=True)
        return Times(_since_1970(days), ("times look like dates (YYYYMMDD); read as such, in UTC",))
    return Times(seconds * unit.seconds, (f"times look like {unit.name}; turned into seconds",))


def _from_text(values: pd.Series) -> Times:
    """Dates written as text; each different text is read once."""
    codes, different = pd.factorize(values.astype(object))
    texts = pd.Series(different, dtype=object).map(str)
    parts = texts.str.extract(_DAY_AND_MONTH).astype(float)
    day_first = bool((parts[0] > 12).any())
    notes = ["times are dates; read as UTC where they name no zone"]
    if parts[0].notna().any() and not day_first and not (parts[1] > 12).any():
        notes.append("dates such as 03/04/2024 are read as month/day/year")
    how: dict[str, Any] = {"format": "mixed"} if _PANDAS >= 2 else {}
    read = pd.to_datetime(texts, errors="coerce", utc=True, dayfirst=day_first, **how)
    seconds = np.append(_since_1970(read), np.nan)  # the code of a missing value is -1
    return Times(seconds[codes], tuple(notes))


def _since_1970(dates: pd.Series) -> np.ndarray:
    elapsed = (dates - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(seconds=1)
    return elapsed.to_numpy(dtype=np.float64)
