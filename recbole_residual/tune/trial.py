"""One trial: train, ask about alpha, and, in a benchmark, test."""

from __future__ import annotations

import math
import os
import platform
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Callable

import torch

from recbole_residual import compat
from recbole_residual.checkpoint.writing import load_checkpoint
from recbole_residual.config.residual_config import ResidualConfig
from recbole_residual.diagnose.full_run import resume
from recbole_residual.errors import ConfigError, DataError, ModelError
from recbole_residual.evaluator import register_metrics
from recbole_residual.model import register_model
from recbole_residual.run.evaluation import has_rows
from recbole_residual.run.session import Session, build_session
from recbole_residual.trainer.trainer import get_trainer
from recbole_residual.tune import ray_api
from recbole_residual.tune.alpha import AlphaQuestions, plain_values
from recbole_residual.tune.folder import (
    FAILED,
    FINISHED,
    STOPPED,
    TrialDefinition,
    TrialFolder,
    TuneFolder,
)
from recbole_residual.tune.shared_reads import SharedReads
from recbole_residual.tune.space import AlphaSearch

Report = Callable[[Mapping[str, Any]], None]


@dataclass(frozen=True)
class Setup:
    """What all trials of a run share; it travels to the workers.

    Attributes:
        folder: of the run; on a cluster, on a disk that every node sees.
        tests: whether every trial reads the test data when it is trained.
        sign: 1 if more of the metric is better, else -1; a score is the metric times this.
        alpha_search: the questions about alpha.
        cpus: threads of a trial.
        gpus: GPUs of a trial.
        reads: the data files.
        models: classes that the user registered.
    """

    folder: str
    tests: bool
    sign: int
    alpha_search: AlphaSearch
    cpus: float
    gpus: float
    reads: SharedReads
    models: tuple[type, ...] = ()


def trainable(config: dict[str, Any], setup: Setup) -> None:
    """What Ray calls for a trial.

    Args:
        config: what :class:`recbole_residual.tune.searcher.PlannedSearcher` suggests.
        setup: the same for all trials.
    """
    run_trial(TrialDefinition(**config["definition"]), setup, ray_api.report)


def run_trial(trial: TrialDefinition, setup: Setup, report: Report) -> dict[str, Any]:
    """Run a trial to its end, from where an earlier attempt left it.

    Args:
        trial: what to train.
        setup: the same for all trials.
        report: takes a score after every epoch, and once more at the end with ``ended``.

    Returns:
        The outcome, which is in the trial's folder then. An error is an outcome too.
    """
    if not TuneFolder(setup.folder).manifest_file.is_file():
        raise ConfigError(
            f"{platform.node()} does not see {setup.folder}: on a cluster, --output_dir must be on "
            "a disk that every node sees."
        )
    folder = TuneFolder(setup.folder).trial(trial.key)
    with folder.lock():  # an earlier attempt may still be dying
        outcome = folder.read_outcome()
        if outcome is None:
            try:
                outcome = _Trial(trial, setup, folder, report).run()
            except Exception as error:  # told in the table; the other trials go on
                outcome = describe(trial, FAILED, folder)
                outcome["error"] = f"{type(error).__name__}: {error}"
                outcome["traceback"] = traceback.format_exc()
            folder.write_outcome(outcome)
    final = {"ended": True, "trial": trial.key}
    if outcome["status"] != FAILED:
        score = setup.sign * outcome["best_valid_score"]
        final.update(epoch=outcome["epochs_trained"], score=score, best=score)
    report(final)
    return outcome


def describe(trial: TrialDefinition, status: str, folder: TrialFolder) -> dict[str, Any]:
    """The part of an outcome that is known of every trial."""
    history = folder.read_history()
    return {
        "trial": trial.key,
        "status": status,
        "model": trial.model,
        "dataset": trial.dataset,
        "point": trial.point,
        "epochs_trained": history[-1]["epoch"] if history else 0,
        "node": platform.node(),
        "process": os.getpid(),
        "cuda_visible_devices": os.environ.get("CUDA_VISIBLE_DEVICES"),
    }


def read_test(key: str, setup: Setup) -> None:
    """Read the test data for a trial that has ended, once everything is chosen.

    Args:
        key: of the trial.
        setup: the same for all trials.
    """
    _prepare(setup)
    folder = TuneFolder(setup.folder).trial(key)
    with folder.lock():
        outcome = folder.read_outcome()
        assert outcome is not None, f"{key} has not ended"
        if "test_result" in outcome:
            return
        if outcome["status"] == STOPPED:
            # its weights are those that were compared with the other trials'
            folder.write_config({**folder.read_config(), "epochs": outcome["epochs_trained"]})
        with setup.reads.in_force():
            with folder.logging():
                session = Session.open(folder.path)
                alpha = _test_alpha(session, setup, folder)
            result = resume(folder.path)
        outcome.update(_tested(folder, result), alpha=alpha)
        folder.write_outcome(outcome)


def _prepare(setup: Setup) -> None:
    compat.silence_known_warnings()
    register_metrics()
    for model_class in setup.models:
        register_model(model_class)
    torch.set_num_threads(max(1, int(setup.cpus)))


def _test_alpha(session: Session, setup: Setup, folder: TrialFolder) -> list[dict[str, Any]]:
    questions = AlphaQuestions(setup.alpha_search, session.model, session.config["topk"])
    return questions.on_test(session.valid_data, session.test_data, folder.path)


def _tested(folder: TrialFolder, result: Mapping[str, Any]) -> dict[str, Any]:
    saved = folder.read_result() or result
    return {"test_result": saved["test_result"], "valid_result": saved["valid_result"]}


class _Trial:
    def __init__(
        self, trial: TrialDefinition, setup: Setup, folder: TrialFolder, report: Report
    ) -> None:
        self.trial, self.setup, self.folder, self.report = trial, setup, folder, report

    def run(self) -> dict[str, Any]:
        started = time.time()
        _prepare(self.setup)
        self._start_over_if_useless()
        config = self._config()
        with self.setup.reads.in_force():
            with self.folder.logging(config["state"] or "INFO"):
                session = build_session(config)
                self._check_parts(session)
                outcome = self._train(session)
                outcome["alpha"] = self._alpha(session)
            if self.setup.tests:
                outcome.update(_tested(self.folder, resume(self.folder.path)))
        outcome["seconds"] = round(time.time() - started, 2)
        return outcome

    def _check_parts(self, session: Session) -> None:
        """Refuse data on which trials cannot be compared, before anything is trained."""
        parts = {"validation": session.valid_data}
        if self.setup.tests:
            parts["test"] = session.test_data
        for name, loader in parts.items():
            if not has_rows(loader):
                raise DataError(
                    f"the split of {self.trial.dataset} leaves no {name} data, and trials are "
                    "compared on it: take another split (eval_args), or looser filters."
                )

    def _alpha(self, session: Session) -> list[dict[str, Any]]:
        if self.setup.tests:
            return _test_alpha(session, self.setup, self.folder)
        questions = AlphaQuestions(self.setup.alpha_search, session.model, session.config["topk"])
        return questions.on_validation(session.valid_data, self.folder.path)

    def _start_over_if_useless(self) -> None:
        resumable = self.folder.resume_file.is_file() or self.folder.result_file.is_file()
        if not (resumable and self.folder.config_file.is_file()):
            self.folder.clear()

    def _config(self) -> ResidualConfig:
        given = dict(self.trial.config)
        if not self.setup.gpus:
            given["use_gpu"] = False
        config = ResidualConfig(self.trial.model, self.trial.dataset, None, given)
        config["checkpoint_dir"] = config["output_dir"] = str(self.folder)
        if not self.folder.config_file.is_file():
            plain = config.to_plain()
            del plain["gpu_id"]  # Ray's choice for this process
            self.folder.write_config(plain)
        return config

    def _train(self, session: Session) -> dict[str, Any]:
        config = session.config
        trainer = get_trainer(config["MODEL_TYPE"], config.model_class)(config, session.model)
        result = self.folder.read_result()
        try:
            if result is None:
                if self.folder.resume_file.is_file():
                    trainer.resume_checkpoint(str(self.folder.resume_file))
                    trainer.restore_randomness(session.train_data)
                    self._report_again(trainer.start_epoch)
                best_score, best_result = trainer.fit(
                    session.train_data,
                    session.valid_data,
                    callback_fn=self._after_epoch(config["epochs"]),
                )
            else:  # an earlier attempt trained and tested, and was interrupted then
                best_score, best_result = result["best_valid_score"], result["best_valid_result"]
            trainer.load_weights()
        finally:
            trainer.tensorboard.close()
        session.model.eval()
        if not math.isfinite(best_score):
            raise ModelError(
                f"{config['valid_metric']} was not a number at any validation, so this trial "
                "cannot be compared with others: take another valid_metric."
            )
        return {
            **describe(self.trial, FINISHED, self.folder),
            "seed": config["seed"],
            "best_epoch": load_checkpoint(self.folder.checkpoint_file)["epoch"] + 1,
            "best_valid_score": float(best_score),
            "best_valid_result": plain_values(best_result),
        }

    def _report_again(self, start_epoch: int) -> None:
        history = [row for row in self.folder.read_history() if row["epoch"] <= start_epoch]
        self.folder.write_history(history)
        best = None
        for row in history:
            best = row["score"] if best is None else max(best, row["score"])
            self.report({"trial": self.trial.key, **row, "best": best})

    def _after_epoch(self, last: int) -> Callable[[int, float], None]:
        def after_epoch(epoch: int, value: float) -> None:
            score = self.setup.sign * value
            row = {"epoch": epoch + 1, "score": score, "time": time.time()}
            history = [*self.folder.read_history(), row]
            self.folder.write_history(history)
            if epoch + 1 < last:  # the last epoch is reported with the outcome
                best = max(entry["score"] for entry in history)
                self.report({"trial": self.trial.key, **row, "best": best})

        return after_epoch
