"""The few functions that join everything: run, resume, and load what a run left."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Sequence
from dataclasses import dataclass
from logging import getLogger
from typing import Any, Union

import numpy as np
import pandas as pd
import recbole
import torch
from recbole.utils import init_seed

from recbole_residual.checkpoint.weights import load_weights
from recbole_residual.checkpoint.writing import load_checkpoint
from recbole_residual.config.checks import check_topk
from recbole_residual.config.probe_names import PROBES, PROBES_AFTER_TRAINING, probe_names
from recbole_residual.config.residual_config import ResidualConfig
from recbole_residual.data import (
    DatasetStatistics,
    create_dataset,
    data_preparation,
    dataset_statistics,
)
from recbole_residual.data.download import dataset_url, ensure_dataset_files
from recbole_residual.errors import CheckpointError, ConfigError
from recbole_residual.evaluator import per_user_table, register, write_per_user
from recbole_residual.model.architecture.window import last_position
from recbole_residual.probe import ProbeResult, run_probes
from recbole_residual.report import write_report
from recbole_residual.run.folder import FILE_ONLY, RunFolder
from recbole_residual.trainer.trainer import get_trainer
from recbole_residual.version import __version__

RESUME_KEYS = frozenset(
    {"data_path", "gpu_id", "use_gpu", "show_progress", "state", "worker", "report", "latex"}
)
"""What may differ when a run is resumed or loaded: where it computes and what it shows, not what it
computes."""


@dataclass
class Session:
    """A configuration with its data and its model.

    Attributes:
        config: the resolved configuration.
        dataset: the filtered dataset.
        train_data, valid_data, test_data: RecBole data loaders.
        model: on ``config["device"]``.
        data_source: in words, where the data came from.
        statistics: of the dataset before it was split; None if that is not known.
    """

    config: ResidualConfig
    dataset: Any
    train_data: Any
    valid_data: Any
    test_data: Any
    model: Any
    data_source: str
    statistics: DatasetStatistics | None = None


def run_recbole_residual(
    model: Union[str, type] | None = None,
    dataset: str | None = None,
    config_file_list: Sequence[Union[str, os.PathLike[str]]] | None = None,
    config_dict: dict[str, Any] | None = None,
    saved: bool = True,
) -> dict[str, Any]:
    """Train a model, evaluate it at its ``alpha``, save and return the result.

    Args:
        model: name of a model of this package or of RecBole, or a class.
        dataset: name of a dataset; ``ml-100k`` comes with RecBole.
        config_file_list: yaml files, as in RecBole.
        config_dict: values that win over the files.
        saved: keep checkpoints in the run's folder; without them the weights tested are the last.

    Returns:
        RecBole's dictionary (``best_valid_score``, ``valid_score_bigger``, ``best_valid_result``,
        ``test_result``), extended: see docs/getting_started.md.

    Raises:
        ConfigError: for a mistake in the configuration, before anything is trained.

    Example:
        >>> result = run_recbole_residual("SASRecResidual", "ml-100k")  # doctest: +SKIP
        >>> result["test_result"]["hrli@1"]  # doctest: +SKIP
    """
    register()
    config = ResidualConfig(model, dataset, config_file_list, config_dict)
    dataset_url(config)  # a dataset that cannot be had is told before anything is written
    folder = RunFolder.create(config["model"], config["dataset"], config["output_dir"])
    return _run(config, folder, saved, resume=False)


def resume_run(
    run_folder: Union[str, os.PathLike[str]], config_dict: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Go on with an interrupted run; the final numbers are those of an uninterrupted one.

    Args:
        run_folder: the folder of the run.
        config_dict: only where to compute and where the data is may differ (``RESUME_KEYS``).

    Returns:
        As :func:`run_recbole_residual`; of a finished run, the result it has.

    Raises:
        ConfigError: if the folder is no run's, or ``config_dict`` would change the numbers.
        CheckpointError: if the run never got as far as training.
    """
    register()
    folder = RunFolder.existing(run_folder)
    finished = folder.read_result()
    if finished is not None:
        getLogger().warning("%s is finished; this is its result.", folder)
        return finished
    if not folder.resume_file.is_file():
        raise CheckpointError(
            f"{folder} was interrupted before training began: there is nothing to resume. "
            f"Run it again from its configuration: --config_files={folder.config_file}"
        )
    return _run(_reopened(folder, config_dict), folder, saved=True, resume=True)


def load_run(
    run_folder: Union[str, os.PathLike[str]], config_dict: dict[str, Any] | None = None
) -> Session:
    """Data and best model of a run, to ask questions of.

    Args:
        run_folder: the folder of the run.
        config_dict: as in :func:`resume_run`.

    Raises:
        ConfigError: if the folder is no run's.
        CheckpointError: if there are no weights, or the data is not what they were trained on.
    """
    register()
    folder = RunFolder.existing(run_folder)
    session = open_session(_reopened(folder, config_dict))
    checkpoint = load_checkpoint(folder.checkpoint_file, session.config["device"])
    load_weights(session.model, checkpoint, str(folder.checkpoint_file))
    return session


def probe_run(
    run_folder: str | os.PathLike[str],
    names: Sequence[str] = tuple(PROBES),
    config_dict: dict[str, Any] | None = None,
) -> dict[str, ProbeResult]:
    """Ask a finished run's model questions; the answers are saved in the run's folder ``probe``.

    Args:
        run_folder: the folder of the run.
        names: which probes; all of them by default.
        config_dict: as in :func:`resume_run`.

    Returns:
        The results by name; a probe that the model cannot answer is left out with a warning.

    Raises:
        UnknownProbeError: for a name that is no probe's.
        ConfigError, CheckpointError: as :func:`load_run`.
    """
    names = probe_names(names)
    session = load_run(run_folder, config_dict)
    folder = RunFolder.existing(run_folder)
    with folder.logging(session.config["state"] or "INFO"):
        results = probe_session(session, folder, names)
        write_report(session.config, folder.path)
    return results


def open_session(config: ResidualConfig) -> Session:
    """Load the data, split it, and build the model, with RecBole's order of seeding."""
    logger = getLogger()
    init_seed(config["seed"], config["reproducibility"])
    source = ensure_dataset_files(config)
    logger.info("Data: %s", source)
    dataset = create_dataset(config)
    check_topk(config["topk"], dataset.item_num - 1)
    statistics = dataset_statistics(dataset)  # RecBole's own datasets lose them in the split
    train_data, valid_data, test_data = data_preparation(config, dataset)
    init_seed(config["seed"] + config["local_rank"], config["reproducibility"])
    model = config.model_class(config, train_data._dataset).to(config["device"])
    return Session(config, dataset, train_data, valid_data, test_data, model, source, statistics)


def _reopened(folder: RunFolder, config_dict: dict[str, Any] | None) -> ResidualConfig:
    given = dict(config_dict or {})
    refused = sorted(set(given) - RESUME_KEYS)
    if refused:
        raise ConfigError(
            f"{', '.join(refused)} cannot change for a run that exists; only "
            f"{', '.join(sorted(RESUME_KEYS))} can. Start a new run instead."
        )
    return ResidualConfig(config_file_list=[folder.config_file], config_dict=given)


def _run(config: ResidualConfig, folder: RunFolder, saved: bool, resume: bool) -> dict[str, Any]:
    started = time.time()
    config["checkpoint_dir"] = str(folder)
    config["output_dir"] = str(folder)
    with folder.logging(config["state"] or "INFO") as logger:
        if not resume:
            folder.write_config(config.to_plain())
        logger.info("Run folder: %s", folder)
        for file in config.loaded_files:
            logger.info("Read %s", file)
        logger.info(config, extra=FILE_ONLY)
        session = open_session(config)
        logger.info(session.model, extra=FILE_ONLY)
        trainer = get_trainer(config["MODEL_TYPE"], config.model_class)(config, session.model)
        if resume:
            trainer.resume_checkpoint(str(folder.resume_file))
            trainer.restore_randomness(session.train_data)
        try:
            result = _train_and_test(session, trainer, folder, saved)
        except KeyboardInterrupt:
            if saved and folder.resume_file.is_file():
                logger.warning("Interrupted. To go on: --resume=%s", folder)
            raise
        finally:
            trainer.tensorboard.close()
        result["run_folder"] = str(folder)
        result["seconds"] = round(time.time() - started, 2)
        folder.write_result(result)
        folder.resume_file.unlink(missing_ok=True)
        logger.info("best valid: %s", dict(result["best_valid_result"] or {}))
        logger.info("test result: %s", dict(result["test_result"] or {}))
        logger.info("Saved %s", folder.result_file)
        probe_session(session, folder, PROBES_AFTER_TRAINING[config["probe"]])
        write_report(config, folder.path)
    return result


def probe_session(
    session: Session, folder: RunFolder, names: Sequence[str]
) -> dict[str, ProbeResult]:
    """Run probes on an open session and save their answers in a run's folder."""
    return run_probes(
        session.model,
        session.valid_data,
        session.test_data,
        folder.path,
        names,
        topk=session.config["topk"],
        show_progress=session.config["show_progress"],
    )


def _train_and_test(
    session: Session, trainer: Any, folder: RunFolder, saved: bool
) -> dict[str, Any]:
    config, model = session.config, session.model
    best_score, best_result = trainer.fit(
        session.train_data,
        session.valid_data,
        saved=saved,
        show_progress=config["show_progress"],
    )
    result: dict[str, Any] = {
        "model": config["model"],
        "dataset": config["dataset"],
        "best_valid_score": best_score,
        "valid_metric": config["valid_metric"],
        "valid_score_bigger": config["valid_metric_bigger"],
        "best_valid_result": best_result,
    }
    if hasattr(model, "alpha_train"):  # FOSSIL's alpha is something else
        result["alpha_train"] = model.alpha_train
    result.update(evaluate_session(session, trainer, folder, saved))
    for key, value in result["test_result"].items():
        trainer.tensorboard.add_scalar(f"Test/{key}", value, len(trainer.train_loss_dict))
    result["train_losses"] = list(trainer.train_loss_dict.values())
    result["epochs_trained"] = len(trainer.train_loss_dict)
    return result


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
        The values, rounded by RecBole and unrounded, and what they were computed on and with.
    """
    config, model = session.config, session.model
    show = config["show_progress"]
    result: dict[str, Any] = {}
    if hasattr(model, "alpha_train"):
        result["alpha"] = model.alpha
    result["last_position"] = last_position(model)
    result["valid_result"] = trainer.evaluate(
        session.valid_data, load_best_model, show_progress=show
    )
    result["valid_result_unrounded"] = trainer.evaluator.last_unrounded
    result["test_result"] = trainer.evaluate(session.test_data, False, show_progress=show)
    result["test_result_unrounded"] = trainer.evaluator.last_unrounded
    result["test_left_out"] = trainer.evaluator.left_out()
    if config["export_per_user"]:
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
