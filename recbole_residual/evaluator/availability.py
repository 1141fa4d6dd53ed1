"""Which metric a model can give, told before any training."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from logging import getLogger
from typing import Any

from recbole.evaluator.register import metrics_dict
from recbole.utils import ModelType

from recbole_residual.decomposition.stages import has_ratios
from recbole_residual.errors import UnavailableMetricError
from recbole_residual.evaluator.base_metric import SequenceMetric
from recbole_residual.model.architecture.blocks import MODELS_WITH_ATTENTION
from recbole_residual.model.architecture.window import ends_in_mask

_LAST_ITEM = ("hrli", "hrl2i")
_ATTENTION = ("mixingratio", "recoveryrate")
_MASKS_HISTORY = ("filter_seen", "post_remove_context")


def _value(config: Mapping[str, Any], key: str) -> Any:
    try:
        return config[key]  # RecBole's Config has no get, and None for what it does not hold
    except KeyError:
        return None


def _evaluation_modes(config: Mapping[str, Any]) -> Iterable[str]:
    mode = (_value(config, "eval_args") or {}).get("mode", "full")
    return [mode] if isinstance(mode, str) else mode.values()


def metric_problem(metric: str, config: Mapping[str, Any], model: Any) -> str | None:
    """Why a metric cannot be had, or None if it can (or if it is not one of this package's).

    Args:
        metric: its name, in any case.
        config: the configuration, RecBole's Config or a dict.
        model: the model, or its class as long as there is no object of it.

    Returns:
        What is wrong and what to do about it.
    """
    name = metric.lower()
    if name not in _LAST_ITEM + _ATTENTION:
        return None
    model_class = model if inspect.isclass(model) else type(model)
    if getattr(model_class, "type", None) != ModelType.SEQUENTIAL:
        return (
            f"{metric} is about the last items of a sequence, and {model_class.__name__} is not a "
            "sequential model: leave it out of metrics."
        )
    if name in _ATTENTION and not has_ratios(model):
        return (
            f"{metric} needs RecBole's attention blocks, and {model_class.__name__} has none: "
            f"leave it out of metrics, or take one of {', '.join(MODELS_WITH_ATTENTION)}, or a "
            "model of recbole_residual built on them (SASRecResidual, BERT4RecResidual, ...)."
        )
    if name in _LAST_ITEM:
        if any(mode != "full" for mode in _evaluation_modes(config)):
            return (
                f"{metric} is the rank of an input item in the whole catalogue, and sampled "
                "evaluation ranks a few items only: set eval_args: {mode: full}, or leave it out "
                "of metrics."
            )
        for key in _MASKS_HISTORY:
            if _value(config, key):
                return (
                    f"{metric} looks for an input item in the ranking, and {key} takes those out "
                    f"of it: set {key}: False, or leave {metric} out of metrics."
                )
    return None


def check_metrics(config: Mapping[str, Any], model: Any) -> None:
    """Refuse metrics that the model cannot give, before anything is trained.

    Args:
        config: RecBole's Config.
        model: the model, or its class as long as there is no object of it.

    Raises:
        UnavailableMetricError: with all of them and what to do about each.
    """
    problems = [metric_problem(metric, config, model) for metric in config["metrics"]]
    if _value(config, "export_per_user") and model.type != ModelType.SEQUENTIAL:
        problems.append(
            "export_per_user writes one row per sequence, and the model is not a sequential one: "
            "set export_per_user: False."
        )
    if _value(config, "export_per_user") and _value(config, "single_spec") is False:
        problems.append(
            "export_per_user needs all users in one process: set export_per_user: False, or run "
            "without nproc and world_size."
        )
    found = [problem for problem in problems if problem]
    if found:
        raise UnavailableMetricError(" ".join(found))
    metrics = [metric.lower() for metric in config["metrics"]]
    if "mixingratio" in metrics and not inspect.isclass(model) and ends_in_mask(model):
        getLogger().warning(
            "%s predicts at [MASK], which it puts after the last item: mixingratio_*_last is the "
            "ratio at [MASK] and does not speak of the last item.",
            type(model).__name__,
        )


def result_keys(config: Mapping[str, Any]) -> list[str]:
    """Every key that the metrics of a configuration will have in RecBole's result.

    Args:
        config: with ``metrics``, ``topk`` and what else the metrics read.

    Example:
        >>> from recbole_residual.evaluator.registration import register_metrics
        >>> register_metrics()
        >>> config = {"metrics": ["NDCG", "RecoveryRate"], "topk": [1, 5]}
        >>> result_keys({**config, "metric_decimal_place": 4})
        ['ndcg@1', 'ndcg@5', 'recoveryrate@1', 'recoveryrate@5', 'recoverybase@1', 'recoverybase@5']
    """
    keys: list[str] = []
    for name in (metric.lower() for metric in config["metrics"]):
        metric_class = metrics_dict[name]
        if issubclass(metric_class, SequenceMetric):
            keys += metric_class.result_keys(config["topk"], getattr(config, "model_class", None))
        elif hasattr(metric_class(config), "topk"):
            keys += [f"{name}@{k}" for k in config["topk"]]
        else:
            keys.append(name)
    return keys
