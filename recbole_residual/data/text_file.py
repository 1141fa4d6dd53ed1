"""Opening an atomic file as text: its encoding, its separator, and the number of a line."""

from __future__ import annotations

import codecs
import io
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from recbole_residual.errors import AtomicFileError, DataError

_ONE_CHARACTER = "\x1f"
"""Stands for a separator of several characters, such as ``::``, while a file is read."""


def check_encoding(encoding: Any) -> str:
    """The name of an encoding that Python knows; UTF-8 (with or without its mark) for None.

    Raises:
        DataError: if there is no such encoding of text.
    """
    if encoding is None:
        return "utf-8-sig"
    try:
        name = codecs.lookup(str(encoding)).name
        io.TextIOWrapper(io.BytesIO(), encoding=name)  # refuses encodings of something else
    except (LookupError, ValueError, TypeError) as error:
        raise DataError(
            f"encoding = {encoding!r} is not an encoding of text that Python knows: write utf-8, "
            "utf-16 (files from PowerShell), latin-1, cp1252, gb18030, ..."
        ) from error
    return "utf-8-sig" if name == "utf-8" else name


def check_separator(separator: Any, key: str = "field_separator") -> str:
    r"""The separator of columns; a typed ``\t`` is a tab.

    Raises:
        DataError: if it is no text, or holds a line break.

    Example:
        >>> check_separator("\\t"), check_separator("::"), check_separator(None)
        ('\t', '::', '\t')
    """
    if separator is None:
        return "\t"
    if not isinstance(separator, str) or not separator or set(separator) & set("\r\n"):
        raise DataError(
            f"{key} = {separator!r} is not usable: it is one or more characters of text, such as "
            "'\\t' or '::'."
        )
    return separator.replace("\\t", "\t")


class _SeparatorOfOneCharacter:
    """A text file whose separator of several characters reads as one, which is fast to parse."""

    def __init__(self, file: TextIO, separator: str) -> None:
        self._file, self._separator = file, separator
        self.name = file.name

    def read(self, size: int = -1) -> str:
        # whole lines, so that no separator is cut in two
        text = self._file.read() if size < 0 else "".join(self._file.readlines(max(size, 1)))
        return text.replace(self._separator, _ONE_CHARACTER)

    def __iter__(self) -> Iterator[str]:
        return (line.replace(self._separator, _ONE_CHARACTER) for line in self._file)


class TextTable:
    """A file of lines whose columns stand between separators; every character is itself.

    Args:
        path: the file.
        separator: what stands between two columns, one or more characters.
        encoding: encoding of the file; by default UTF-8, or UTF-16 where the file's mark says so.

    Raises:
        DataError: if the separator or the encoding is not usable.
    """

    def __init__(self, path: str, separator: str | None = None, encoding: str | None = None):
        self.path = path
        self.separator = check_separator(separator)
        self.encoding = check_encoding(encoding)
        if encoding is None and os.path.isfile(path):
            with open(path, "rb") as file:
                mark = file.read(2)
            if mark in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
                self.encoding = "utf-16"

    @property
    def parsed_separator(self) -> str:
        """The separator in what :meth:`open` gives, always one character."""
        return self.separator if len(self.separator) == 1 else _ONE_CHARACTER

    @contextmanager
    def open(self) -> Iterator[tuple[Any, io.BufferedReader]]:
        """The file as text for a parser, and the bytes beneath, which tell how far it is."""
        with open(self.path, "rb") as raw:
            text = io.TextIOWrapper(raw, encoding=self.encoding, newline="")
            long = len(self.separator) > 1
            yield (_SeparatorOfOneCharacter(text, self.separator) if long else text), raw

    def lines(self) -> Iterator[tuple[int, str]]:
        """Number (from 1) and text of each line that a parser takes for one: not the blank ones.

        Raises:
            AtomicFileError: if a line cannot be decoded.
        """
        number = 0
        try:
            with open(self.path, encoding=self.encoding) as file:
                for number, line in enumerate(file, 1):
                    text = line.rstrip("\n")
                    if text.strip(" \t") or self.separator in text:
                        yield number, text
        except UnicodeError as error:
            raise self.not_text(error) from error

    def not_text(self, error: Exception) -> AtomicFileError:
        """The error for bytes that the encoding does not know."""
        return AtomicFileError(
            self.path,
            f"cannot be read as text in {self.encoding.replace('-sig', '')} ({error}); set "
            "`encoding` to that of the file.",
        )

    def line_numbers(self, rows: Iterable[int]) -> list[int]:
        """The numbers of the lines that hold these rows; row 0 is the one below the header."""
        wanted = set(rows)
        return [number for row, (number, _) in enumerate(self.lines(), start=-1) if row in wanted]

    def where(self, rows: Iterable[int]) -> str:
        """In words, the first lines that hold these rows: ``line 7``, ``line 3, 4, ...``."""
        rows = list(rows)
        shown = ", ".join(map(str, self.line_numbers(rows[:5])))
        return f"line {shown}{', ...' if len(rows) > 5 else ''}"
