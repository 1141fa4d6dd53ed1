"""One row of the table of keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from recbole_residual.config.kinds import Kind, UnusableError
from recbole_residual.errors import ConfigError

_LONGEST = 200
"""Characters of a value that an error shows."""


class _ByModel:
    def __repr__(self) -> str:
        return "RecBole's for the model"


BY_MODEL = _ByModel()
"""In the place of a default: each of RecBole's models has its own."""


@dataclass(frozen=True)
class Variant:
    """How one model differs in a key.

    Attributes:
        default: its default.
        kind: what it allows, if that is not what the others allow.
        text: what it means there, if that is not what it means elsewhere.
    """

    default: Any
    kind: Kind | None = None
    text: str = ""


@dataclass(frozen=True)
class Key:
    """A key of the configuration.

    Attributes:
        name: as it is written.
        kind: what it may be.
        default: its value where nobody gives one.
        text: one sentence.
        section: where overall.yaml has it; empty for a key of single models.
        models: the classes that read it, with all that are built on them; empty: every model.
        variants: models in which it differs.
        on_resume: whether it may change when a run is resumed or loaded: it says where a run
            computes and what it shows, not what it computes.
        of_machine: whether it is about the machine that computed, so that a checkpoint taken over
            from elsewhere leaves it behind.
        page: the page of the documentation that says more.
    """

    name: str
    kind: Kind
    default: Any
    text: str
    section: str = ""
    models: tuple[str, ...] = ()
    variants: Mapping[str, Variant] = field(default_factory=dict)
    on_resume: bool = False
    of_machine: bool = False
    page: str = ""

    def read_by(self, model_class: type | None) -> bool:
        """Whether a model reads this key; whether every model does, for None."""
        if not self.models:
            return True
        ancestors = () if model_class is None else model_class.__mro__
        return any(ancestor.__name__ in self.models for ancestor in ancestors)

    def kind_for(self, model_class: type | None = None) -> Kind:
        """What a model allows."""
        for ancestor in () if model_class is None else model_class.__mro__:
            variant = self.variants.get(ancestor.__name__)
            if variant is not None:
                return variant.kind or self.kind
        return self.kind

    def read(self, value: Any, model_class: type | None = None) -> Any:
        """A value as it was typed or given, as the program wants it.

        Raises:
            ConfigError: with what is wanted.

        Example:
            >>> from recbole_residual.config.keys import KEYS
            >>> KEYS["epochs"].read("1e2")
            100
            >>> KEYS["epochs"].read("2.5")
            Traceback (most recent call last):
            ...
            recbole_residual.errors.ConfigError: epochs = '2.5' is not usable: it must be a whole \
number of at least 1.
        """
        try:
            return self.kind_for(model_class).read(value)
        except UnusableError as error:
            path, inner = error.inner or ((), value)
            name = ": ".join((self.name, *path))
            wanted = error.wanted if error.wanted.endswith(("?", ".")) else f"{error.wanted}."
            raise ConfigError(f"{name} = {_short(inner)} is not usable: {wanted}") from None


def _short(value: Any) -> str:
    try:
        text = repr(value)
    except ValueError:  # a whole number of more digits than Python writes
        return "a number of thousands of digits"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
