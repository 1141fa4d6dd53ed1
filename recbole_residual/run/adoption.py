"""A configuration of plain RecBole made into one of this package, as far as it goes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from recbole.utils import ModelType

from recbole_residual.checkpoint.untrusted import StandIn
from recbole_residual.config.keys import MACHINE_KEYS
from recbole_residual.config.residual_config import ResidualConfig, plain_settings
from recbole_residual.errors import ConfigError
from recbole_residual.evaluator import metric_problem, register_metrics
from recbole_residual.model.registry import get_model

METRICS = ("Hit", "NDCG", "MRR", "HRLI", "HRL2I", "MixingRatio")
TOPK = (1, 5, 10, 20)
"""What is measured beside what the checkpoint's own configuration asks for."""


def adopted_config(
    settings: Mapping[str, Any],
    config_dict: Mapping[str, Any] | None = None,
    model_class: type | None = None,
) -> tuple[ResidualConfig, list[str]]:
    """This package's configuration out of RecBole's.

    The data, its order and its split are RecBole's; this package's metrics are added.

    Args:
        settings: RecBole's ``final_config_dict``.
        config_dict: what to change in it.
        model_class: class of the model, where its name is not enough.

    Returns:
        The configuration, and notes on what had to differ.

    Raises:
        ConfigError: if the model is not a sequential one, or the configuration is not usable.
    """
    register_metrics()
    found = model_class or get_model(str(settings["model"]))
    if getattr(found, "type", None) != ModelType.SEQUENTIAL:
        raise ConfigError(
            f"{settings['model']} is not a sequential model: there is no last item to diagnose."
        )
    given = dict(config_dict or {})
    taken = {
        key: value
        for key, value in plain_settings(settings).items()
        if key not in MACHINE_KEYS and not isinstance(settings[key], StandIn)
    }
    # RecBole has put the dataset's name behind the folder.
    taken["data_path"] = os.path.dirname(str(settings["data_path"]).rstrip("/\\"))
    if not Path(taken["data_path"], str(settings["dataset"])).is_dir():
        del taken["data_path"]
    taken.setdefault("loss_positions", "last")
    notes = _rank_everything(taken)
    own = [name for name in METRICS if metric_problem(name, taken, found) is None]
    theirs = taken.get("metrics") or []
    taken["metrics"] = _joined([theirs] if isinstance(theirs, str) else theirs, own)
    topk = taken.get("topk") or []
    taken["topk"] = sorted({*([topk] if isinstance(topk, int) else topk), *TOPK})
    taken["strict_config"] = False
    config = ResidualConfig(model_class, config_dict={**taken, **given})
    return config, notes


def _joined(first: list[str], second: list[str]) -> list[str]:
    known = {name.lower() for name in first}
    return [*first, *(name for name in second if name.lower() not in known)]


def _rank_everything(taken: dict[str, Any]) -> list[str]:
    """Full ranking in the place of sampled evaluation, with a note."""
    arguments = dict(taken.get("eval_args") or {})
    mode = arguments.get("mode", "full")
    modes = {mode} if isinstance(mode, str) else set(mode.values())
    if modes == {"full"}:
        return []
    taken["eval_args"] = {**arguments, "mode": "full"}
    return [
        f"The checkpoint's own configuration ranks sampled items ({', '.join(sorted(modes))}). "
        "Here the whole catalogue is ranked: accuracy is lower than RecBole's own evaluation "
        "gave, and the two cannot be compared."
    ]
