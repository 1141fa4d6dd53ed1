"""The table of keys: each configuration key that this package has or checks stands here once.

Property files, checks, ``--help`` and the documentation come from it. Importing it needs neither
torch nor RecBole.
"""

from __future__ import annotations

from collections.abc import Iterator

from recbole_residual.config.key import BY_MODEL, Key, Variant
from recbole_residual.config.kinds import FilePath
from recbole_residual.config.old_keys import MOVED
from recbole_residual.config.own_keys import CHANGED, OWN
from recbole_residual.config.recbole_keys import RECBOLE

__all__ = [
    "BY_MODEL",
    "DERIVED_KEYS",
    "KEYS",
    "MACHINE_KEYS",
    "MOVED",
    "OWN_KEYS",
    "PATH_KEYS",
    "RESUME_KEYS",
    "UNLISTED_KEYS",
    "Key",
    "Variant",
    "choices",
    "keys_of",
    "models_with_keys",
    "read",
]

KEYS: dict[str, Key] = {key.name: key for key in (*OWN, *CHANGED, *RECBOLE)}
"""Every key, by name."""

OWN_KEYS = frozenset(key.name for key in OWN)
"""Keys that RecBole does not have."""

RESUME_KEYS = frozenset(key.name for key in KEYS.values() if key.on_resume)
"""What may differ when a run is resumed or loaded: where it computes and what it shows, not what it
computes."""

MACHINE_KEYS = frozenset({"device"} | {key.name for key in KEYS.values() if key.of_machine})
"""Where a machine computed, and what RecBole kept there: left behind when a checkpoint is taken
over from elsewhere."""

PATH_KEYS = frozenset(name for name, key in KEYS.items() if isinstance(key.kind, FilePath))
"""Keys that name a file or a folder; ``~`` in them is the user's folder."""

DERIVED_KEYS = frozenset(
    {
        "MODEL_TYPE",
        "MODEL_INPUT_TYPE",
        "eval_type",
        "device",
        "single_spec",
        "local_rank",
        "valid_neg_sample_args",
        "test_neg_sample_args",
        "valid_metric_bigger",
    }
)
"""Keys that RecBole's Config computes; a saved configuration leaves them out."""

UNLISTED_KEYS = frozenset({"model", "dataset"})
"""Keys of every configuration that neither the table nor one of RecBole's lists has."""


def read(name: str, value: object) -> object:
    """The value of a key as it was typed, as the program wants it.

    Raises:
        ConfigError: with what is wanted.

    Example:
        >>> read("latex", "1"), read("output_dir", "2026")
        (True, '2026')
    """
    return KEYS[name].read(value)


def choices(name: str) -> tuple[str, ...]:
    """The words that a key may be.

    Example:
        >>> choices("norm")
        ('post', 'pre')
    """
    return tuple(KEYS[name].kind.values)  # type: ignore[attr-defined]


def keys_of(model: str) -> Iterator[tuple[Key, Variant]]:
    """The keys that a model of this package brings along, with how they are there."""
    for key in OWN:
        if model in key.variants:
            yield key, key.variants[model]
        elif model in key.models:
            yield key, Variant(key.default)


def models_with_keys() -> list[str]:
    """The classes that have a property file of their own."""
    names = {name for key in OWN for name in (*key.models, *key.variants)}
    return sorted(names - {"ResidualMixin"})
