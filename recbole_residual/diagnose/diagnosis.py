"""The report on a checkpoint that plain RecBole wrote, on a model in memory, or on a run."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from recbole_residual.checkpoint.weights import plain_parameters
from recbole_residual.checkpoint.writing import save_checkpoint
from recbole_residual.config.probe_names import probes_after_training
from recbole_residual.diagnose.full_run import examine
from recbole_residual.errors import ConfigError
from recbole_residual.model.architecture.blocks import feed_forward_blocks, has_attention
from recbole_residual.model.base import has_alpha
from recbole_residual.model.residual import is_unscaled, residual_alpha, residual_factor
from recbole_residual.report.page import Report, report
from recbole_residual.report.record import PROGRAM, RunRecord
from recbole_residual.run.adoption import adopted_config
from recbole_residual.run.evaluation import evaluate_session
from recbole_residual.run.folder import RunFolder
from recbole_residual.run.session import Session, Source
from recbole_residual.run.train import start_config
from recbole_residual.trainer.trainer import get_trainer


@dataclass(frozen=True, repr=False)
class Diagnosis:
    """What was found. In a notebook it shows its tables and figures.

    Attributes:
        report: sections, tables and figures.
        folder: where everything was saved; it is the folder of a run, so
            ``Session.open`` and ``--mode=probe`` work on it.
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

    def __repr__(self) -> str:
        return f"Diagnosis({self.report.title}; {self.folder})"

    def _repr_html_(self) -> str:
        return self.report._repr_html_()

    def __str__(self) -> str:
        return f"{self.report}\n\nsaved in {self.folder}"


def diagnose(
    source: Source,
    *,
    valid_data: Any = None,
    test_data: Any = None,
    config_dict: Mapping[str, Any] | None = None,
    trust_checkpoint: bool = False,
) -> Diagnosis:
    """Evaluate, probe and report, without retraining.

    Args:
        source: what :meth:`Session.open <recbole_residual.run.session.Session.open>` takes: a
            checkpoint of RecBole's Trainer (``saved/SASRec-....pth``) or of this package, the
            folder of a run, a session, or a RecBole model.
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
    changes = dict(config_dict or {})
    if isinstance(source, (str, os.PathLike)) and Path(source).expanduser().is_dir():
        return _diagnose_run(RunFolder.existing(source), changes)
    session = Session.open(
        source,
        config_dict=changes,
        trust_checkpoint=trust_checkpoint,
        valid_data=valid_data,
        test_data=test_data,
    )
    about: dict[str, Any] = {"notes": list(session.origin.notes)}
    if isinstance(source, (str, os.PathLike)):
        about["command"] = _command(source, changes, trust_checkpoint)
        about["checkpoint"] = str(session.origin.path)
        about["epochs_trained"] = session.origin.epochs
    else:
        about["command"] = "diagnose(model, valid_data=..., test_data=...) in Python"
        session, about["notes"] = _adopted(session, changes)
    return _diagnose_session(session, about)


def _adopted(session: Session, changes: Mapping[str, Any]) -> tuple[Session, list[str]]:
    """A session in memory with a configuration that this package can evaluate by."""
    if session.valid_data is None or session.test_data is None:
        raise ConfigError("a model is diagnosed on data: diagnose(model, valid_data=, test_data=).")
    config, notes = adopted_config(
        session.test_data.config.final_config_dict, changes, type(session.model)
    )
    config.final_config_dict.update(_switches_in_force(session.model))
    return replace(session, config=config), notes


def _switches_in_force(model: Any) -> dict[str, Any]:
    """The configuration keys that give a model back as it is now: its ``alpha`` and ``attention``.

    Raises:
        ConfigError: if no key says what lies on the model.
    """
    switches: dict[str, Any] = {}
    if has_alpha(model):
        alpha = residual_alpha(model)
        switches["alpha"] = alpha[0] if len(set(alpha)) == 1 else alpha
        follows = getattr(model, "alpha_scales_feed_forward", False)
        expected = alpha if follows else [1.0] * len(feed_forward_blocks(model))
        said = [residual_factor(block) for block in feed_forward_blocks(model)] == expected
    else:
        said = not has_attention(model) or is_unscaled(model)
    if not said:
        raise ConfigError(
            f"the residual of this {type(model).__name__} is scaled in a way that no configuration "
            "says, so the folder of the diagnosis would open with another model. Diagnose it "
            "outside scale_residual, or as a model of this package by its keys alpha and residual."
        )
    if hasattr(model, "attention"):
        switches["attention"] = model.attention
    return switches


def _command(path: Any, changes: Mapping[str, Any], trust_checkpoint: bool) -> str:
    parts = [PROGRAM, "--mode=diagnose", f"--checkpoint={path}"]
    parts += [f"--{key}={value}" for key, value in changes.items() if key != "output_dir"]
    if trust_checkpoint:
        parts.append("--trust_checkpoint=True")
    return " ".join(map(shlex.quote, parts))


def _diagnose_session(session: Session, about: Mapping[str, Any]) -> Diagnosis:
    started = time.time()
    config, model = session.config, session.model
    folder = RunFolder.create(
        f"diagnose-{config['model']}", config["dataset"], config["output_dir"]
    )
    with folder.logging(config["state"] or "INFO") as logger:
        start_config(folder, config)
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
        examined = examine(session, folder, probes_after_training(config["probe"]))
    return Diagnosis(examined.page or report(folder.path), folder.path, session)


def _diagnose_run(folder: RunFolder, changes: dict[str, Any]) -> Diagnosis:
    """Ask a run what it has not been asked yet."""
    wanted = probes_after_training(changes.pop("probe", "quick"))
    session = Session.open(folder.path, config_dict=changes)
    record = RunRecord.read(folder.path)
    with folder.logging(session.config["state"] or "INFO"):
        missing = [name for name in wanted if name not in record.probes]
        examined = examine(session, folder, missing)
    return Diagnosis(examined.page or report(folder.path), folder.path, session)
