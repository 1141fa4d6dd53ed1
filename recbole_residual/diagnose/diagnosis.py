"""The report on a checkpoint that plain RecBole wrote, on a model in memory, or on a run."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Union

import pandas as pd
import torch

from recbole_residual.checkpoint.adoption import adopted_config, open_checkpoint
from recbole_residual.checkpoint.weights import plain_parameters
from recbole_residual.checkpoint.writing import save_checkpoint
from recbole_residual.config.probe_names import PROBES_AFTER_TRAINING
from recbole_residual.errors import ConfigError
from recbole_residual.evaluator import register
from recbole_residual.report import Report, RunRecord, report, write_report
from recbole_residual.report.record import PROGRAM
from recbole_residual.run.folder import RunFolder
from recbole_residual.run.train import (
    Session,
    evaluate_session,
    load_run,
    probe_session,
)
from recbole_residual.trainer.trainer import get_trainer


@dataclass(frozen=True)
class Diagnosis:
    """What was found. In a notebook it shows its tables and figures.

    Attributes:
        report: sections, tables and figures.
        folder: where everything was saved; it is the folder of a run, so
            :func:`~recbole_residual.load_run` and ``--mode=probe`` work on it.
        session: configuration, data and model, to ask further questions of.
    """

    report: Report
    folder: Path
    session: Session

    @property
    def tables(self) -> dict[str, pd.DataFrame | None]:
        """Every table by name; None where it was not run."""
        return self.report.tables

    @property
    def figures(self) -> dict[str, Any]:
        """Every matplotlib figure by name; None where its numbers were not run."""
        return self.report.figures

    def _repr_html_(self) -> str:
        return self.report._repr_html_()

    def __str__(self) -> str:
        return f"{self.report}\n\nsaved in {self.folder}"


def diagnose(
    subject: Union[str, os.PathLike[str], Session, torch.nn.Module],
    *,
    valid_data: Any = None,
    test_data: Any = None,
    config_dict: Mapping[str, Any] | None = None,
    trust_checkpoint: bool = False,
) -> Diagnosis:
    """Evaluate, probe and report, without retraining.

    Args:
        subject: a checkpoint that RecBole's Trainer wrote (``saved/SASRec-....pth``), the folder of
            a run, a :class:`~recbole_residual.run.train.Session`, or a RecBole model.
        valid_data, test_data: RecBole loaders, for a model.
        config_dict: what to change in the configuration: ``data_path`` (where
            ``<dataset>/<dataset>.inter`` is), ``output_dir``, ``probe`` (``quick``, ``full`` or
            ``none``), ...
        trust_checkpoint: load the checkpoint as an ordinary pickle, which runs what it contains.

    Raises:
        CheckpointError: if the checkpoint cannot be read, or the data is not what it was trained
            on.
        UntrustedCheckpointError: if the file needs a name outside the allow-list.
        ConfigError: if the model is not a sequential one, or the configuration is not usable.

    Example:
        >>> found = diagnose("saved/SASRec-Jan-01-2026_00-00-00.pth")  # doctest: +SKIP
        >>> found.tables["alpha_sweep"]  # doctest: +SKIP
    """
    register()
    given = dict(config_dict or {})
    if isinstance(subject, (str, os.PathLike)):
        if Path(subject).is_dir():
            return _diagnose_run(RunFolder.existing(subject), given)
        opened = open_checkpoint(subject, given, trust_checkpoint)
        about = {
            "command": _command(subject, given, trust_checkpoint),
            "checkpoint": os.path.abspath(subject),
            "epochs_trained": opened.epoch + 1,
            "notes": opened.notes,
        }
        return _diagnose_session(opened.session, about)
    if isinstance(subject, Session):
        session = subject
        valid_data, test_data, subject = session.valid_data, session.test_data, session.model
    if valid_data is None or test_data is None:
        raise ConfigError("a model is diagnosed on data: diagnose(model, valid_data=, test_data=).")
    config, notes = adopted_config(test_data.config.final_config_dict, given, type(subject))
    dataset = test_data._dataset
    session = Session(
        config,
        dataset,
        None,
        valid_data,
        test_data,
        subject,
        "loaders in memory",
        getattr(dataset, "statistics", None),
    )
    command = "diagnose(model, valid_data=..., test_data=...) in Python"
    return _diagnose_session(session, {"command": command, "notes": notes})


def _command(path: Any, given: Mapping[str, Any], trust_checkpoint: bool) -> str:
    parts = [PROGRAM, "--mode=diagnose", f"--checkpoint={path}"]
    parts += [f"--{key}={value}" for key, value in given.items() if key != "output_dir"]
    if trust_checkpoint:
        parts.append("--trust_checkpoint=True")
    return " ".join(map(shlex.quote, parts))


def _diagnose_session(session: Session, about: Mapping[str, Any]) -> Diagnosis:
    started = time.time()
    config, model = session.config, session.model
    folder = RunFolder.create(
        f"diagnose-{config['model']}", config["dataset"], config["output_dir"]
    )
    config["checkpoint_dir"] = config["output_dir"] = str(folder)
    with folder.logging(config["state"] or "INFO") as logger:
        folder.write_config(config.to_plain())
        save_checkpoint(
            folder.checkpoint_file,
            {
                "config": config.to_plain(),
                "state_dict": dict(model.state_dict()),
                "other_parameter": plain_parameters(model.other_parameter()),
            },
        )
        trainer = get_trainer(config["MODEL_TYPE"], type(model))(config, model)
        try:
            result: dict[str, Any] = {"model": config["model"], "dataset": config["dataset"]}
            result.update(about)
            result.update(evaluate_session(session, trainer, folder, load_best_model=False))
        finally:
            trainer.tensorboard.close()
        result["run_folder"] = str(folder)
        result["seconds"] = round(time.time() - started, 2)
        folder.write_result(result)
        logger.info("test result: %s", dict(result["test_result"]))
        probe_session(session, folder, PROBES_AFTER_TRAINING[config["probe"]])
        write_report(config, folder.path)
    return Diagnosis(report(folder.path), folder.path, session)


def _diagnose_run(folder: RunFolder, given: Mapping[str, Any]) -> Diagnosis:
    """Ask a run what it has not been asked yet."""
    given = dict(given)
    wanted = PROBES_AFTER_TRAINING[given.pop("probe", "quick")]
    session = load_run(folder.path, given)
    record = RunRecord.read(folder.path)
    with folder.logging(session.config["state"] or "INFO"):
        probe_session(session, folder, [name for name in wanted if name not in record.probes])
        write_report(session.config, folder.path)
    return Diagnosis(report(folder.path), folder.path, session)
