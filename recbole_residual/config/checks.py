"""Names that nothing knows: of keys, of metrics, and of what is computed."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from recbole.evaluator.register import metrics_dict

from recbole_residual.config.hints import did_you_mean
from recbole_residual.config.keys import (
    BY_MODEL,
    DERIVED_KEYS,
    KEYS,
    UNLISTED_KEYS,
)
from recbole_residual.config.unknown import keys_read
from recbole_residual.errors import ConfigError


def known_keys(
    defaults: Mapping[str, Any], parameters: Mapping[str, Iterable[str]], model_class: type
) -> set[str]:
    """Every key that something reads: the table's, a yaml file's, RecBole's lists', the model's.

    Args:
        defaults: the merged yaml files.
        parameters: RecBole's argument lists by category.
        model_class: its source, and its parents', is searched for ``config["..."]``, so that a
            user's own model may read keys of its own.
    """
    keys = set(defaults) | UNLISTED_KEYS
    for category in parameters.values():
        keys.update(category)
    for ancestor in model_class.__mro__:
        keys |= _keys_in_source(ancestor)
    keys -= DERIVED_KEYS | {"config_file"}
    for name, key in KEYS.items():
        if key.default is not BY_MODEL and key.read_by(model_class):
            keys.add(name)
    return keys


@lru_cache(maxsize=256)
def _keys_in_source(model_class: type) -> frozenset[str]:
    try:
        source = inspect.getsource(model_class)
    except (OSError, TypeError):  # built in, or typed at a prompt: nothing to search
        return frozenset()
    return keys_read(source)


def read_untabled(name: str, value: Any, default: Any) -> Any:
    """The value of a key that the table does not have, of the kind of its default."""
    if value is None or default is None:
        return value
    if isinstance(default, bool):
        if not isinstance(value, bool):
            raise ConfigError(f"{name} = {value!r} is not usable: it must be True or False.")
    elif isinstance(default, (int, float)):
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not number or value != value:
            raise ConfigError(f"{name} = {value!r} is not usable: it must be a number.")
        if isinstance(default, int) and isinstance(value, float) and value.is_integer():
            return int(value)
    return value


def check_choices(config: Mapping[str, Any], model_class: type) -> None:
    """Refuse values that a user's own model does not name in its ``config_choices``."""
    allowed: dict[str, tuple[Any, ...]] = {}
    for ancestor in reversed(model_class.__mro__):
        allowed.update(vars(ancestor).get("config_choices", {}))
    for key, choices in allowed.items():
        if config[key] not in choices:
            raise ConfigError(f"{key} = {config[key]!r} is not usable: one of {list(choices)}.")


def check_metric_names(metrics: Iterable[str]) -> None:
    """Refuse metrics that neither RecBole nor this package has."""
    names = sorted(metric.__name__ for metric in metrics_dict.values())
    for metric in metrics:
        if metric.lower() not in metrics_dict:
            raise ConfigError(
                f"metrics: there is no metric {metric!r}{did_you_mean(metric, names)} "
                f"There are: {', '.join(names)}."
            )


def check_valid_metric(valid_metric: str, computed: Iterable[str]) -> None:
    """Refuse a ``valid_metric`` that the evaluation will not compute.

    Args:
        valid_metric: such as ``NDCG@10``, in any case.
        computed: the keys of the result, metrics x topk, in lower case.
    """
    computed = list(computed)
    if valid_metric.lower() not in computed:
        raise ConfigError(
            f"valid_metric = {valid_metric!r} is not among what metrics x topk will compute"
            f"{did_you_mean(valid_metric.lower(), computed)} Computed: {', '.join(computed)}."
        )


def check_topk(topk: Iterable[int], n_items: int) -> None:
    """Refuse a k above the number of items (padding not counted), found once the data is there."""
    largest = max(topk)
    if largest > n_items:
        raise ConfigError(
            f"topk = {largest} is more than the {n_items} items that the dataset has after "
            "filtering: take a smaller topk, or looser filters."
        )
