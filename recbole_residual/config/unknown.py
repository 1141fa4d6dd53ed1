"""Keys that nothing reads, refused with what was probably meant; no torch is needed for it."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from logging import getLogger
from pathlib import Path
from typing import Any

from recbole_residual.config.hints import did_you_mean
from recbole_residual.config.keys import (
    DERIVED_KEYS,
    KEYS,
    MOVED,
    UNLISTED_KEYS,
    models_with_keys,
)
from recbole_residual.errors import ConfigError

_READ_KEY = re.compile(r"""config\[\s*["'](\w+)["']\s*\]|config\.get\(\s*["'](\w+)["']""")
_YAML_KEY = re.compile(r"^(\w+)\s*:", re.MULTILINE)
_QUOTED = re.compile(r"""['"](\w+)['"]""")


def keys_read(source: str) -> frozenset[str]:
    """The keys that a piece of Python reads from its configuration.

    Example:
        >>> sorted(keys_read('self.n = config["n_layers"] + config.get("extra", 0)'))
        ['extra', 'n_layers']
    """
    return frozenset(name for match in _READ_KEY.findall(source) for name in match if name)


def _refusal(name: str, known: Collection[str]) -> str:
    key = KEYS.get(name)
    if name in MOVED:
        today = MOVED[name]
        if today.startswith("nothing: "):
            return f"unknown option {name!r}: leave it out, {today[len('nothing: ') :]}."
        return f"unknown option {name!r}: today it is {today}."
    if name in DERIVED_KEYS:
        return f"unknown option {name!r}: it follows from other keys and cannot be set."
    if key is not None and key.models:
        return f"unknown option {name!r}: it is a key of {_readers(key.models)}, not of this model."
    return f"unknown option {name!r}{did_you_mean(name, known)}"


def _readers(models: tuple[str, ...]) -> str:
    if models == ("ResidualMixin",):
        return "this package's models with a residual factor (SASRecResidual, ...)"
    return f"{' and '.join(models)} and what is built on it"


def check_keys(given: Iterable[str], known: Collection[str], strict: bool = True) -> None:
    """Refuse (or, not strict, warn of) keys that nothing reads.

    Example:
        >>> check_keys(["alhpa"], ["alpha", "topk"])
        Traceback (most recent call last):
        ...
        recbole_residual.errors.ConfigError: unknown option 'alhpa', did you mean 'alpha'?
        >>> check_keys(["min_user_inter_num"], ["alpha", "topk"])
        Traceback (most recent call last):
        ...
        recbole_residual.errors.ConfigError: unknown option 'min_user_inter_num': today it is \
user_inter_num_interval, such as user_inter_num_interval: "[5,inf)".
    """
    unknown = [key for key in given if key not in known]
    if not unknown:
        return
    message = " ".join(_refusal(key, known) for key in unknown)
    if strict:
        raise ConfigError(message)
    getLogger().warning("%s Ignored (strict_config is False).", message)


def refuse_early(model: str | None, typed: Mapping[str, Any]) -> None:
    """Refuse a key that no model of this package reads, before anything slow is imported.

    What this lets pass is judged once more with the model at hand (:func:`check_keys`).

    Args:
        model: its name as it was typed, None where none is given anywhere. Models that are not this
            package's may read keys that only their code tells.
        typed: keys and values as they were typed.

    Raises:
        ConfigError: with the nearest known name.

    Example:
        >>> refuse_early("SASRecResidual", {"alhpa": "0.3"})
        Traceback (most recent call last):
        ...
        recbole_residual.errors.ConfigError: unknown option 'alhpa', did you mean 'alpha'?
    """
    strict = str(typed.get("strict_config", True)).lower() != "false"
    rare = [key for key in typed if key not in KEYS]  # RecBole's files are read for these alone
    if strict and rare and (model is None or model in models_with_keys()):
        check_keys(rare, _all_keys())


@lru_cache(maxsize=1)
def _all_keys() -> frozenset[str]:
    """Every key of the table, and of RecBole's yaml files, models and argument lists."""
    keys = set(KEYS) | UNLISTED_KEYS | set(MOVED)  # what of these is wrong is told later
    spec = importlib.util.find_spec("recbole")  # finds the folder and imports nothing
    for place in (spec.submodule_search_locations or ()) if spec else ():
        for path in Path(place, "properties").rglob("*.yaml"):
            keys.update(_YAML_KEY.findall(path.read_text(encoding="utf-8")))
        for path in Path(place, "model").rglob("*.py"):
            keys |= keys_read(path.read_text(encoding="utf-8"))
        lists = Path(place, "utils", "argument_list.py").read_text(encoding="utf-8")
        keys.update(_QUOTED.findall(lists))
    return frozenset(keys)
