"""One searched key: its values, or the distribution that they are drawn from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from recbole_residual.config.hints import did_you_mean
from recbole_residual.config.keys import KEYS
from recbole_residual.config.kinds import Whole
from recbole_residual.config.typed import literal
from recbole_residual.errors import ConfigError, SpaceError
from recbole_residual.tune import ray_api

_ARGUMENTS = {
    "uniform": 2,
    "quniform": 3,
    "loguniform": 2,
    "qloguniform": 3,
    "randint": 2,
    "lograndint": 2,
}
"""Ray Tune's distributions over numbers, and how many arguments each takes."""

_CONTINUOUS = ("uniform", "loguniform")
"""Distributions that draw every number between their bounds."""


@dataclass(frozen=True)
class Parameter:
    """One configuration key and where its values come from.

    Attributes:
        kind: ``choice`` or one of Ray Tune's distributions over numbers.
        arguments: the values of a choice; else low, high and, with a ``q``, the step.
    """

    kind: str
    arguments: tuple[Any, ...]

    @classmethod
    def read(cls, name: str, given: Any) -> Parameter:
        """From yaml: a list of values, one value, or ``{distribution: arguments}``.

        Raises:
            SpaceError: if it is none of these.
        """
        if isinstance(given, Mapping):
            if len(given) != 1:
                raise SpaceError(f"{name}: expected one distribution, found {dict(given)}.")
            ((kind, arguments),) = given.items()
            if kind != "choice":
                return cls._numeric(name, str(kind), arguments)
            given = arguments
        values = [literal(value) for value in (given if isinstance(given, list) else [given])]
        if not values:
            raise SpaceError(f"{name}: an empty list has no value to choose.")
        return cls("choice", tuple(values))

    @classmethod
    def _numeric(cls, name: str, kind: str, arguments: Any) -> Parameter:
        if kind not in _ARGUMENTS:
            raise SpaceError(
                f"{name}: there is no distribution {kind!r}{did_you_mean(kind, _ARGUMENTS)} "
                f"There are: choice, {', '.join(_ARGUMENTS)}."
            )
        listed = arguments if isinstance(arguments, list) else [arguments]
        numbers = [literal(argument) for argument in listed]
        usable = [
            number
            for number in numbers
            if isinstance(number, (int, float)) and not isinstance(number, bool)
        ]
        if len(usable) != len(numbers) or len(usable) != _ARGUMENTS[kind]:
            raise SpaceError(f"{name}: {kind} takes {_ARGUMENTS[kind]} numbers, found {arguments}.")
        if not usable[0] < usable[1] or ("log" in kind and usable[0] <= 0):
            raise SpaceError(f"{name}: {kind} cannot go from {usable[0]} to {usable[1]}.")
        return cls(kind, tuple(usable))

    def check(self, name: str) -> None:
        """Refuse values that the configuration would refuse in every trial.

        Raises:
            SpaceError: with what the key may be.
        """
        key = KEYS.get(name)
        if key is None:  # RecBole's own, or a user's model's: the trial's configuration judges it
            return
        values = self.arguments if self.kind == "choice" else self.arguments[:2]
        draws_fractions = self.kind in _CONTINUOUS or (
            self.kind != "choice" and any(not isinstance(v, int) for v in self.arguments)
        )
        if draws_fractions and isinstance(key.kind, Whole):
            raise SpaceError(
                f"{name} is a whole number, and {self.kind} {list(self.arguments)} draws others: "
                "take randint, or quniform with whole bounds and a whole step."
            )
        for value in values:
            try:
                key.read(value)
            except ConfigError as error:
                raise SpaceError(str(error)) from error

    def domain(self) -> Any:
        """The same as Ray Tune writes it."""
        return ray_api.domain(self.kind, self.arguments)

    def plain(self, value: Any) -> Any:
        """A value that was drawn, as a plain Python value; whole where all arguments are."""
        if self.kind == "choice":
            return value
        value = value.item() if hasattr(value, "item") else value
        steps = self.kind in ("quniform", "qloguniform", "randint", "lograndint")
        if steps and all(isinstance(argument, int) for argument in self.arguments):
            return round(value)
        return value

    def to_plain(self) -> dict[str, Any]:
        """As it stands in a yaml file."""
        return {self.kind: list(self.arguments)}
