"""Keys whose value is a mapping: what stands in them, and how two of them become one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from recbole_residual.config.hints import did_you_mean
from recbole_residual.config.kinds import Choice, Intervals, Kind, Many, Number, Text, UnusableError
from recbole_residual.config.typed import literal


@dataclass(frozen=True)
class MappingKind(Kind):
    """A mapping.

    Attributes:
        merged: whether what is given goes over what stood there, entry by entry; if not, it takes
            its place.
    """

    merged: bool = True

    label = "dict"

    @property
    def words(self) -> str:
        return "a mapping"

    def entries(self, value: Any) -> dict[str, Any]:
        """The mapping that a value is."""
        given = literal(value)
        if isinstance(given, Mapping):
            return {str(name): entry for name, entry in given.items()}
        if isinstance(given, str) and ":" in given:
            raise UnusableError(f"it must be {self.words}: yaml wants a blank behind each colon")
        raise UnusableError(f"it must be {self.words}")

    def merge(self, old: Any, new: Any) -> Any:
        """What was given on top of what stood there."""
        if not self.merged or not isinstance(old, Mapping) or not isinstance(new, Mapping):
            return new
        return {**old, **new}

    def settled(self, value: Any) -> Any:
        """The mapping once everything is merged."""
        return value


def read_entry(kind: Kind, name: str, value: Any) -> Any:
    """One entry of a mapping, an error knowing its name."""
    try:
        return kind.read(value)
    except UnusableError as error:
        path, inner = error.inner or ((), value)
        raise UnusableError(error.wanted, ((name, *path), inner)) from None


@dataclass(frozen=True)
class Settings(MappingKind):
    """A mapping with entries of fixed names.

    Attributes:
        kinds: the kind of each entry.
        needed: the entries that must be there.
        example: one such mapping.
    """

    kinds: Mapping[str, Kind] = field(default_factory=dict)
    needed: tuple[str, ...] = ()
    example: str = ""

    @property
    def words(self) -> str:
        example = f", such as {self.example}" if self.example else ""
        return f"a mapping of {', '.join(self.kinds)}{example}"

    def _read(self, value: Any) -> Any:
        entries = self.entries(value)
        for name in entries:
            if name not in self.kinds:
                known = ", ".join(self.kinds)
                raise UnusableError(
                    f"there is no entry {name!r}{did_you_mean(name, self.kinds)} There are: {known}"
                )
        missing = [name for name in self.needed if name not in entries]
        if missing:
            raise UnusableError(f"{missing[0]} is missing")
        return {name: read_entry(self.kinds[name], name, entries[name]) for name in entries}


@dataclass(frozen=True)
class ByName(MappingKind):
    """A mapping from names of columns or files to values of one kind; an entry left empty (``~``)
    takes away what stood there."""

    of: Kind = field(default_factory=Kind)
    example: str = ""

    @property
    def words(self) -> str:
        return f"a mapping, such as {self.example}"

    def _read(self, value: Any) -> dict[str, Any]:
        entries = self.entries(value)
        if any(set("[]{}") & set(name) for name in entries):
            raise UnusableError(f"it must be {self.words}: yaml wants a blank behind each colon")
        return {
            name: None if entry is None else read_entry(self.of, name, entry)
            for name, entry in entries.items()
        }

    def settled(self, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        return {name: entry for name, entry in value.items() if entry is not None}


@dataclass(frozen=True)
class Columns(Kind):
    """Names of columns, or ``*`` for every one."""

    @property
    def words(self) -> str:
        return "a list of columns, or '*' for every one"

    def _read(self, value: Any) -> Any:
        if value == "*":
            return value
        try:
            return Many(of=Text()).read(value)
        except UnusableError:
            raise UnusableError(f"it must be {self.words}") from None


@dataclass(frozen=True)
class Values(Kind):
    """Which values stay: intervals of a number, or a list of tokens."""

    @property
    def words(self) -> str:
        return f"{Intervals().words}, or a list of tokens"

    def _read(self, value: Any) -> Any:
        if isinstance(value, (list, tuple)) and value:
            return list(value)
        try:
            return Intervals().read(value)
        except UnusableError:
            raise UnusableError(f"it must be {self.words}") from None


@dataclass(frozen=True)
class Split(Kind):
    """One split of ``eval_args`` and its numbers."""

    label = "dict"

    names = ("RS", "LS", "TS", "GT")
    leave_out = Choice(values=("valid_and_test", "valid_only", "test_only"))

    @property
    def words(self) -> str:
        return (
            "one split: {LS: valid_and_test}, {RS: [0.8, 0.1, 0.1]}, {TS: [0.8, 0.1, 0.1]} or "
            "{GT: [0.9, 0.9]}"
        )

    def _read(self, value: Any) -> dict[str, Any]:
        given = literal(value)
        if not isinstance(given, Mapping) or len(given) != 1:
            raise UnusableError(f"it must be {self.words}")
        ((name, numbers),) = given.items()
        name = str(name).upper()
        if name not in self.names:
            raise UnusableError(f"there is no split {name!r}; it must be {self.words}")
        if name == "LS":
            return {name: read_entry(self.leave_out, name, numbers)}
        return {name: read_entry(Quantiles() if name == "GT" else Shares(), name, numbers)}


@dataclass(frozen=True)
class Shares(Kind):
    """Shares of training, validation and test, not normalised."""

    @property
    def words(self) -> str:
        return "three shares (training, validation, test), such as [0.8, 0.1, 0.1]"

    def _read(self, value: Any) -> list[float]:
        try:
            shares = Many(of=Number(low=0), exactly=3).read(value)
        except UnusableError:
            shares = [0]
        if shares[0] <= 0:
            raise UnusableError(f"it must be {self.words}, the first above 0")
        return shares


@dataclass(frozen=True)
class Quantiles(Kind):
    """Cuts of the global temporal split."""

    @property
    def words(self) -> str:
        return (
            "the quantile of the test cut and that of the validation cut inside the training part, "
            "each between 0 and 1, e.g. {GT: [0.9, 0.9]}; {GT: [0.9]} keeps no validation part"
        )

    def _read(self, value: Any) -> list[float]:
        inside = Number(low=0, high=1, open_low=True, open_high=True)
        try:
            quantiles = Many(of=inside).read(value)
        except UnusableError:
            quantiles = []
        if len(quantiles) not in (1, 2):
            raise UnusableError(f"it must be {self.words}")
        return quantiles


_MODE = re.compile(r"full|labeled|(uni|pop)[1-9]\d*")


@dataclass(frozen=True)
class Mode(Kind):
    """What an evaluation ranks, for both phases or for each."""

    @property
    def words(self) -> str:
        return (
            "full (the whole catalogue), uniN or popN (N sampled items, such as uni100), or "
            "labeled; or one of them each for valid and test"
        )

    def _read(self, value: Any) -> Any:
        given = literal(value)
        if isinstance(given, Mapping):
            if not given:
                raise UnusableError(f"it must be {self.words}")
            phases = Settings(kinds={"valid": self, "test": self})
            return phases.read(given)
        text = str(given).strip().lower()
        if not _MODE.fullmatch(text):
            raise UnusableError(f"it must be {self.words}")
        return text


@dataclass(frozen=True)
class Negatives(Settings):
    """``train_neg_sample_args``: the distribution ``none`` is the same as leaving it empty."""

    def _read(self, value: Any) -> Any:
        if str(value).lower() == "none":
            return None
        entries = self.entries(value)
        if "distribution" in entries and str(entries["distribution"]).lower() == "none":
            return None
        return super()._read(entries)
