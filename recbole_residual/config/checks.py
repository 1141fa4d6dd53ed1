"""Configuration mistakes, each found before anything runs and told with what to do about it."""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Collection, Iterable, Mapping
from logging import getLogger
from typing import Any

from recbole.evaluator.register import metrics_dict

from recbole_residual.errors import ConfigError
from recbole_residual.model.residual import check_alpha

_UNLISTED_KEYS = frozenset(
    # Read by RecBole's code, but in none of its yaml files and argument lists.
    [
        "model",
        "dataset",
        "config_files",
        "encoding",
        "tail_ratio",
        "reg_weight",
        "alias_of_user_id",
        "alias_of_item_id",
        "alias_of_entity_id",
        "alias_of_relation_id",
        "nproc",
        "world_size",
        "ip",
        "port",
        "offset",
        "group_offset",
        "local_rank",
        "benchmark_filename",
        "numerical_features",
        "discretization",
        "position_field",
        "neg_sampling",
        "training_neg_sample_num",
        "selected_features",
        "pooling_mode",
    ]
)

_CHOICES: dict[str, tuple[str, ...]] = {
    "loss_positions": ("all", "last"),
    "long_sequences": ("window", "latest"),
    "probe": ("quick", "full", "none"),
}

_POSITIVE = frozenset(
    [
        "epochs",
        "train_batch_size",
        "eval_batch_size",
        "n_layers",
        "n_heads",
        "hidden_size",
        "inner_size",
        "MAX_ITEM_LIST_LENGTH",
        "logits_chunk",
        "learning_rate",
    ]
)

_READ_KEY = re.compile(r"""config\[\s*["'](\w+)["']\s*\]|config\.get\(\s*["'](\w+)["']""")


def known_keys(
    defaults: Mapping[str, Any], parameters: Mapping[str, Iterable[str]], model_class: type
) -> set[str]:
    """Every key that something reads: in a yaml file, in RecBole's lists, or in the model's code.

    Args:
        defaults: the merged yaml files.
        parameters: RecBole's argument lists by category.
        model_class: its source, and its parents', is searched for ``config["..."]``, so that a
            user's own model may read keys of its own.
    """
    keys = set(defaults) | set(_UNLISTED_KEYS)
    for category in parameters.values():
        keys.update(category)
    for ancestor in model_class.__mro__:
        try:
            source = inspect.getsource(ancestor)
        except (OSError, TypeError):  # built in, or typed at a prompt: nothing to search
            continue
        keys.update(name for match in _READ_KEY.findall(source) for name in match if name)
    return keys


def _did_you_mean(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f", did you mean {close[0]!r}?" if close else "."


def check_keys(given: Iterable[str], known: Collection[str], strict: bool = True) -> None:
    """Refuse (or, not strict, warn of) keys that nothing reads.

    Example:
        >>> check_keys(["alhpa"], ["alpha", "topk"])
        Traceback (most recent call last):
        ...
        recbole_residual.errors.ConfigError: unknown option 'alhpa', did you mean 'alpha'?
    """
    unknown = [key for key in given if key not in known]
    if not unknown:
        return
    message = " ".join(f"unknown option {key!r}{_did_you_mean(key, known)}" for key in unknown)
    if strict:
        raise ConfigError(message)
    getLogger().warning("%s Ignored (strict_config is False).", message)


def check_types(given: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
    """Refuse a value whose kind is not its default's: text where a number is wanted, and so on."""
    for key, value in given.items():
        default = defaults.get(key)
        if key in ("alpha", "alpha_train", "gpu_id") or value is None:
            continue
        if isinstance(default, bool):
            if not isinstance(value, bool):
                raise ConfigError(f"{key} = {value!r} is not usable: it must be True or False.")
        elif isinstance(default, (int, float)) and (
            isinstance(value, bool) or not isinstance(value, (int, float))
        ):
            raise ConfigError(f"{key} = {value!r} is not usable: it must be a number.")


def check_values(config: Mapping[str, Any], model_class: type) -> None:
    """Refuse values out of range.

    Args:
        config: the merged configuration.
        model_class: it and its parents may name the values of keys in ``config_choices``.
    """
    for key in ("alpha", "alpha_train"):
        if key in config and "n_layers" in config:
            try:
                check_alpha(config[key], config["n_layers"], key)
            except ValueError as error:
                raise ConfigError(str(error)) from error
    allowed = dict(_CHOICES)
    for ancestor in reversed(model_class.__mro__):
        allowed.update(vars(ancestor).get("config_choices", {}))
    for key, choices in allowed.items():
        if config[key] not in choices:
            raise ConfigError(f"{key} = {config[key]!r} is not usable: one of {list(choices)}.")
    for key in _POSITIVE:
        value = config.get(key)
        if value is not None and not (isinstance(value, (int, float)) and value > 0):
            raise ConfigError(f"{key} = {value!r} is not usable: it must be a number above 0.")
    metrics = config["metrics"]
    for metric in [metrics] if isinstance(metrics, str) else metrics:
        if str(metric).lower() not in metrics_dict:
            hint = _did_you_mean(str(metric), _metric_names())
            raise ConfigError(
                f"metrics: there is no metric {metric!r}{hint} "
                f"There are: {', '.join(_metric_names())}."
            )
    topk = config["topk"]
    for k in topk if isinstance(topk, (list, tuple)) else [topk]:
        if isinstance(k, bool) or not isinstance(k, int) or k < 1:
            raise ConfigError(f"topk = {topk!r} is not usable: whole numbers of at least 1.")


def _metric_names() -> list[str]:
    return sorted(metric.__name__ for metric in metrics_dict.values())


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
            f"{_did_you_mean(valid_metric.lower(), computed)} Computed: {', '.join(computed)}."
        )


def check_topk(topk: Iterable[int], n_items: int) -> None:
    """Refuse a k above the number of items (padding not counted), found once the data is there."""
    largest = max(topk)
    if largest > n_items:
        raise ConfigError(
            f"topk = {largest} is more than the {n_items} items that the dataset has after "
            "filtering: take a smaller topk, or looser filters."
        )
