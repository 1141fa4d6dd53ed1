"""A checkpoint that plain RecBole wrote, opened with its own configuration and data."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Union

from recbole.utils import ModelType

from recbole_residual.checkpoint.untrusted import StandIn, load_recbole_checkpoint
from recbole_residual.checkpoint.weights import load_weights
from recbole_residual.config.residual_config import ResidualConfig, plain_settings
from recbole_residual.errors import CheckpointError, ConfigError
from recbole_residual.evaluator import metric_problem, register_metrics
from recbole_residual.model.registry import get_model
from recbole_residual.run.train import Session, open_session

METRICS = ("Hit", "NDCG", "MRR", "HRLI", "HRL2I", "MixingRatio")
TOPK = (1, 5, 10, 20)
"""What is measured beside what the checkpoint's own configuration asks for."""

_NOT_TAKEN = frozenset(
    # Where the other machine computed, and what RecBole kept there.
    [
        "device",
        "gpu_id",
        "use_gpu",
        "show_progress",
        "checkpoint_dir",
        "log_wandb",
        "save_dataset",
        "save_dataloaders",
        "dataset_save_path",
        "dataloaders_save_path",
        "output_dir",
        "nproc",
        "world_size",
        "ip",
        "port",
        "offset",
        "group_offset",
    ]
)


@dataclass(frozen=True)
class OpenCheckpoint:
    """A checkpoint with everything around it.

    Attributes:
        session: its configuration, data and model.
        epoch: the epoch that it holds, from 0.
        notes: what differs from RecBole's own evaluation of it.
    """

    session: Session
    epoch: int
    notes: list[str]


def open_checkpoint(
    path: Union[str, os.PathLike[str]],
    config_dict: Mapping[str, Any] | None = None,
    trust_checkpoint: bool = False,
) -> OpenCheckpoint:
    """Open a checkpoint of RecBole's Trainer, or of this package's.

    Args:
        path: the ``.pth`` file.
        config_dict: what to change in its configuration, usually ``data_path``.
        trust_checkpoint: load it as an ordinary pickle, which runs what it contains.

    Raises:
        CheckpointError: if it cannot be read, or does not fit the data.
        UntrustedCheckpointError: if it needs a name outside the allow-list.
        ConfigError: if its configuration cannot be used.
    """
    try:
        checkpoint = load_recbole_checkpoint(path, trust_checkpoint=trust_checkpoint)
    except FileNotFoundError as error:
        raise CheckpointError(str(error)) from error
    stored = checkpoint.get("config")
    settings = stored if isinstance(stored, dict) else getattr(stored, "final_config_dict", None)
    if not settings:
        raise CheckpointError(f"{str(path)!r} holds no configuration, as RecBole's Trainer writes.")
    config, notes = adopted_config(settings, config_dict)
    session = open_session(config)
    load_weights(session.model, checkpoint, str(path))
    return OpenCheckpoint(session, int(checkpoint.get("epoch", 0)), notes)


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
        if key not in _NOT_TAKEN and not isinstance(settings[key], StandIn)
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
