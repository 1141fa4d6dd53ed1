"""What the value of a configuration key may be, and how it is read from what was typed.

A kind reads a value or raises :class:`UnusableError` with what is wanted; the key adds its name.
"""

from __future__ import annotations

import codecs
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Integral, Real
from os import PathLike
from typing import Any

from recbole_residual.config.hints import did_you_mean
from recbole_residual.config.typed import expand, literal, unquoted


class UnusableError(Exception):
    """A value that is not usable.

    Attributes:
        wanted: what it must be, as the end of a sentence.
        inner: the value inside a mapping that is meant, if it is inside one, and its name.
    """

    def __init__(self, wanted: str, inner: tuple[tuple[str, ...], Any] | None = None) -> None:
        super().__init__(wanted)
        self.wanted = wanted
        self.inner = inner


@dataclass(frozen=True)
class Kind:
    """Anything.

    Attributes:
        optional: whether it may be left empty (None, ``~``).
    """

    optional: bool = False

    label = "any"
    """As RecBole's yaml files write it in their comments."""

    @property
    def words(self) -> str:
        """What is allowed, in a few words."""
        return "anything"

    def read(self, value: Any) -> Any:
        """The value, as the program wants it.

        Raises:
            UnusableError: with what is wanted.
        """
        if value is None or (isinstance(value, str) and value in ("None", "null", "~")):
            if self.optional:
                return None
            raise UnusableError(f"it must be {self.words}")
        return self._read(value)

    def _read(self, value: Any) -> Any:
        return literal(value)


@dataclass(frozen=True)
class Number(Kind):
    """A finite number in a range.

    Attributes:
        low, high: the range.
        open_low, open_high: whether its ends are left out.
        infinite: whether infinity will do.
    """

    low: float = -math.inf
    high: float = math.inf
    open_low: bool = False
    open_high: bool = False
    infinite: bool = False

    label = "float"

    @property
    def words(self) -> str:
        return f"a number{self._range()}"

    def _range(self) -> str:
        low = f"{'above' if self.open_low else 'of at least'} {self.low}"
        high = f"{'below' if self.open_high else 'at most'} {self.high}"
        if self.low > -math.inf and self.high < math.inf:
            return f" {low} and {high}"
        return f" {low}" if self.low > -math.inf else f" {high}" if self.high < math.inf else ""

    def _read(self, value: Any) -> Any:
        number = literal(value)
        if self.infinite and str(number).lower() in ("inf", "math.inf"):
            return math.inf
        if isinstance(number, bool) or not isinstance(number, Real):
            raise UnusableError(f"it must be {self.words}")
        try:
            size = float(number)
        except OverflowError:
            size = math.inf
        if not math.isfinite(size):
            raise UnusableError(f"it must be {self.words}")
        low = size > self.low if self.open_low else size >= self.low
        high = size < self.high if self.open_high else size <= self.high
        if not (low and high):
            raise UnusableError(f"it must be {self.words}")
        return number


@dataclass(frozen=True)
class Whole(Number):
    """A whole number in a range; ``1e2`` and ``64.0`` are whole numbers."""

    label = "int"

    @property
    def words(self) -> str:
        return f"a whole number{self._range()}"

    def _read(self, value: Any) -> int:
        number = super()._read(value)
        if not isinstance(number, Integral) and not float(number).is_integer():
            raise UnusableError(f"it must be {self.words}")
        return int(number)


@dataclass(frozen=True)
class Flag(Kind):
    """True or False; ``1``, ``yes`` and ``on`` are True, as in yaml."""

    label = "bool"

    @property
    def words(self) -> str:
        return "True or False"

    def _read(self, value: Any) -> bool:
        text = str(value).strip().lower()
        if text in ("true", "yes", "on", "1"):
            return True
        if text in ("false", "no", "off", "0"):
            return False
        raise UnusableError("it must be True or False")


@dataclass(frozen=True)
class Text(Kind):
    """Text; what looks like a number stays text.

    Attributes:
        empty: whether it may be empty.
    """

    empty: bool = False

    label = "str"

    @property
    def words(self) -> str:
        return "text" if self.empty else "text that is not empty"

    def _read(self, value: Any) -> str:
        if isinstance(value, (list, tuple, Mapping, set, bool)):
            raise UnusableError(f"it must be {self.words}")
        text = unquoted(value) if isinstance(value, str) else str(value)
        if not text.strip() and not self.empty and text != "\t":
            raise UnusableError(f"it is empty: give {self.words}, or leave the key out")
        return text


@dataclass(frozen=True)
class FilePath(Text):
    """A file or a folder; ``~`` is the user's folder."""

    @property
    def words(self) -> str:
        return "a path"

    def _read(self, value: Any) -> str:
        path = expand(super()._read(str(value) if isinstance(value, PathLike) else value))
        if path.startswith("~"):
            raise UnusableError(f"there is no user {path[1:].split('/')[0]!r}")
        if "\0" in path:
            raise UnusableError(f"it must be {self.words}")
        return path


@dataclass(frozen=True)
class Separator(Text):
    """What stands between columns or entries; a typed ``\\t`` is a tab."""

    @property
    def words(self) -> str:
        return r"one or more characters, such as \t"

    def _read(self, value: Any) -> str:
        text = unquoted(str(value)) if len(str(value)) > 1 else str(value)
        text = text.replace("\\t", "\t")
        if not text or "\n" in text or "\\n" in text:
            raise UnusableError(f"it must be {self.words}")
        return text


@dataclass(frozen=True)
class Encoding(Text):
    """A text encoding that Python knows."""

    @property
    def words(self) -> str:
        return "a text encoding that Python knows, such as utf-8 or latin-1"

    def _read(self, value: Any) -> str:
        text = super()._read(value)
        try:
            codecs.lookup(text)
        except (LookupError, ValueError):
            raise UnusableError(f"it must be {self.words}") from None
        return text


@dataclass(frozen=True)
class Choice(Kind):
    """One of several words, in any case.

    Attributes:
        values: the words.
    """

    values: tuple[str, ...] = ()

    label = "str"

    @property
    def words(self) -> str:
        return f"one of {list(self.values)}"

    def _read(self, value: Any) -> str:
        text = unquoted(value) if isinstance(value, str) else str(value)
        for choice in self.values:
            if text.lower() == choice.lower():
                return choice
        raise UnusableError(self.words + did_you_mean(text, self.values).rstrip("."))


@dataclass(frozen=True)
class Many(Kind):
    """A list of one kind; one value alone is a list of one.

    Attributes:
        of: the kind of each.
        least: how many there must be.
        exactly: how many there must be, if that number is fixed.
        example: one such list.
    """

    of: Kind = field(default_factory=Kind)
    least: int = 0
    exactly: int | None = None
    example: str = ""

    label = "list"

    @property
    def words(self) -> str:
        if self.example:
            return f"a list such as {self.example}"
        one = self.of.words
        each = one.replace("a whole number", "whole numbers").replace("a number", "numbers")
        number = "" if self.exactly is None else f"{self.exactly} "
        return f"a list of {number}{each}"

    def _read(self, value: Any) -> list[Any]:
        given = literal(value)
        if isinstance(given, str) and "," in given:
            given = [entry.strip() for entry in given.split(",")]
        entries = list(given) if isinstance(given, (list, tuple)) else [given]
        miscounted = len(entries) < self.least or self.exactly not in (None, len(entries))
        if miscounted or isinstance(given, (Mapping, set)):
            raise UnusableError(f"it must be {self.words}")
        try:
            return [self.of.read(entry) for entry in entries]
        except UnusableError:
            raise UnusableError(f"it must be {self.words}") from None


@dataclass(frozen=True)
class Factor(Kind):
    """A residual factor: a number of at least 0, or one per layer.

    Attributes:
        word: a word that it may be, too.
    """

    word: str | None = None

    label = "float or list"

    @property
    def words(self) -> str:
        words = "a finite number of at least 0, or a list of one per layer"
        return words if self.word is None else f"{words}, or {self.word!r}"

    def _read(self, value: Any) -> Any:
        if self.word is not None and value == self.word:
            return value
        given = literal(value)
        one = Number(low=0)
        try:
            if isinstance(given, (list, tuple)):
                return [one.read(entry) for entry in given]
            return one.read(given)
        except UnusableError:
            raise UnusableError(
                "it must be a finite number of at least 0 (1 is the unchanged model, 0 removes the "
                "residual), or a list with one per layer"
                + ("" if self.word is None else f", or {self.word!r}")
            ) from None


_INTERVAL = re.compile(r"\s*[\[(]([^,;]+),([^,;]+)[\])]\s*")


@dataclass(frozen=True)
class Intervals(Kind):
    """Intervals as RecBole writes them: ``"[5,inf)"``, several separated by ``;``."""

    label = "str"

    @property
    def words(self) -> str:
        return 'an interval such as "[5,inf)", several separated by ;'

    def _read(self, value: Any) -> str:
        ends = ("[", "]") if isinstance(value, list) else ("(", ")")
        if isinstance(value, (list, tuple)):
            value = f"{ends[0]}{','.join(map(str, value))}{ends[1]}"
        text = unquoted(str(value))
        for interval in text.split(";"):
            match = _INTERVAL.fullmatch(interval)
            if match is None or not self._ordered(*match.groups()):
                hint = f', such as "[{text},inf)" for at least {text}' if text.isdigit() else ""
                raise UnusableError(f"it must be {self.words}{hint}")
        return text

    @staticmethod
    def _ordered(left: str, right: str) -> bool:
        try:
            return float(left) <= float(right)
        except ValueError:
            return False


_DEVICE = re.compile(r"-?\d*|(GPU|MIG)-\S+")


@dataclass(frozen=True)
class Devices(Kind):
    """Numbers of GPUs: ``0``, ``"0,1"``, or empty for none."""

    label = "str"

    @property
    def words(self) -> str:
        return 'the number of a GPU, several as "0,1"'

    def _read(self, value: Any) -> str:
        if isinstance(value, (list, tuple)):
            value = ",".join(map(str, value))
        text = unquoted(str(value)).strip()
        named = all(_DEVICE.fullmatch(device.strip()) for device in text.split(","))
        if isinstance(value, (bool, float, Mapping)) or not named:
            raise UnusableError(f"it must be {self.words}")
        return text
