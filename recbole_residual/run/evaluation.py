"""The evaluation of a session on validation and test data, as a run's result holds it."""

from __future__ import annotations

import platform
from logging import getLogger
from typing import Any

import numpy as np
import pandas as pd
import recbole
import torch

from recbole_residual import processes
from recbole_residual.evaluator import per_user_table, write_per_user
from recbole_residual.model.architecture.window import last_position
from recbole_residual.model.base import has_alpha
from recbole_residual.run.folder import RunFolder
from recbole_residual.run.session import Session
from recbole_residual.version import __version__


def has_rows(loader: Any) -> bool:
    """Whether there is anything to evaluate: a split may leave validation or test empty."""
    return loader is not None and len(loader) > 0


def evaluate_session(
    session: Session, trainer: Any, folder: RunFolder, load_best_model: bool
) -> dict[str, Any]:
    """Evaluate on validation and test data.

    Args:
        session: what to evaluate.
        trainer: a Trainer of its model.
        folder: where the table per user goes, if the configuration asks for one.
        load_best_model: whether the trainer loads its best checkpoint first.

    Returns:
        The values, rounded by RecBole and unrounded, and what they were computed on and with. A
        part of the data that holds no sequence has an empty result.
    """
    config, model = session.config, session.model
    result: dict[str, Any] = {}
    if has_alpha(model):
        result["alpha"] = model.alpha
    result["last_position"] = last_position(model)
    if load_best_model:
        trainer.load_weights()
    for name, loader in (("valid", session.valid_data), ("test", session.test_data)):
        result[f"{name}_result"], result[f"{name}_result_unrounded"] = {}, {}
        if not has_rows(loader):
            getLogger().warning("There is no %s data: that part of the result is empty.", name)
            continue
        result[f"{name}_result"] = trainer.evaluate(
            loader, load_best_model=False, show_progress=config["show_progress"]
        )
        result[f"{name}_result_unrounded"] = trainer.evaluator.last_unrounded
        result[f"{name}_sequences"] = len(loader._dataset)
    if has_rows(session.test_data):
        result["test_left_out"] = trainer.evaluator.left_out()
        if config["export_per_user"] and processes.is_first():
            table = per_user_table(trainer.evaluator, session.test_data._dataset)
            result["per_user_file"] = str(write_per_user(table, folder.path))
    if session.statistics is not None:
        result["dataset_statistics"] = session.statistics.to_dict()
    result["data_source"] = session.data_source
    result["environment"] = environment()
    return result


def environment() -> dict[str, str]:
    """Versions of what computed a result."""
    return {
        "recbole_residual": __version__,
        "recbole": recbole.__version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "pandas": pd.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
    }
