"""The first line of an atomic file: its columns and their types."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from recbole.utils.enum_type import FeatureType

from recbole_residual.data.text_file import TextTable
from recbole_residual.errors import AtomicFileError

_KNOWN_TYPES = [ftype.value for ftype in FeatureType]


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
        encoding: encoding of the file; by default UTF-8, or UTF-16 if the file's mark says so.

    Raises:
        AtomicFileError: if the file is empty, its first line is no header, or a column stands in
            it twice.
    """
    table = TextTable(path, separator, encoding)
    try:
        # Python decodes more than the line: what is wrong further down is told with its line
        with open(path, encoding=table.encoding, errors="replace") as file:
            line = file.readline().rstrip("\n")
    except UnicodeError as error:
        raise table.not_text(error) from error
    if "\ufffd" in line:
        raise table.not_text(ValueError(f"the first line reads {line!r}"))
    if not line.strip():
        raise AtomicFileError(path, "is empty; its first line must name the columns.")
    columns = [_parse(path, header, table) for header in line.split(table.separator)]
    repeated = [name for name, n in Counter(column.field for column in columns).items() if n > 1]
    if repeated:
        raise AtomicFileError(
            path, f"line 1 names the column {repeated[0]!r} twice; leave one of the two out."
        )
    return columns


def _parse(path: str, header: str, table: TextTable) -> Column:
    field, _, kind = header.rpartition(":")
    if field and ":" not in field and kind in _KNOWN_TYPES:
        return Column(header, field, FeatureType(kind))
    hint = ""
    for name, separator in (("blanks", " "), ("commas", ","), ("semicolons", ";"), ("'::'", "::")):
        if ":" in field and separator in header:
            hint = f" There seem to be {name} between the columns: set field_separator."
            break
    raise AtomicFileError(
        path,
        f"line 1 is no header of an atomic file: found {header!r}, expected `name:type` with a "
        f"type out of {', '.join(_KNOWN_TYPES)}, columns separated by {table.separator!r} "
        f"(`field_separator`), e.g. 'user_id:token\\titem_id:token\\ttimestamp:float'.{hint}",
    )


def check_type(
    path: str, columns: Sequence[Column], field: str, wanted: FeatureType, key: str
) -> None:
    """Refuse a column whose type is another than the one it must have.

    Args:
        path: the file.
        columns: its columns.
        field: name of the column.
        wanted: the type it must have.
        key: configuration key that names the column, for the message.
    """
    for column in columns:
        if column.field == field and column.ftype != wanted:
            raise AtomicFileError(
                path,
                f"line 1 says {column.header!r}, but {key} must be of type {wanted.value}: write "
                f"'{field}:{wanted.value}'.",
            )
