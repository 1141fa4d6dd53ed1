"""A whole run: train, test, ask the probes that the configuration wants, write the report."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from logging import getLogger
from typing import Any, Union

from recbole.utils import ModelType

from recbole_residual import processes
from recbole_residual.checkpoint.lock import RunLock
from recbole_residual.config.probe_names import PROBES, probe_names, probes_after_training
from recbole_residual.config.residual_config import ResidualConfig
from recbole_residual.config.several import check_several, first_place, n_processes
from recbole_residual.data.download import dataset_url
from recbole_residual.errors import ResidualError
from recbole_residual.probe import ProbeResult
from recbole_residual.probe.all_probes import run_probes
from recbole_residual.report.page import Report
from recbole_residual.report.writing import write_report
from recbole_residual.run.evaluation import has_rows
from recbole_residual.run.folder import RunFolder
from recbole_residual.run.launch import Job, launch, take_part
from recbole_residual.run.session import Session
from recbole_residual.run.train import resume_config, start_config, train_and_test

PathLike = Union[str, "os.PathLike[str]"]


@dataclass(frozen=True)
class Examined:
    """What a model was asked, and the report of it.

    Attributes:
        answers: of the probes, by name; one that the model cannot answer is not there.
        page: the report as it was written; None if none was wanted.
    """

    answers: dict[str, ProbeResult]
    page: Report | None = None


def run(
    model: Union[str, type] | None = None,
    dataset: str | None = None,
    config_file_list: Sequence[PathLike] | None = None,
    config_dict: dict[str, Any] | None = None,
    saved: bool = True,
) -> dict[str, Any]:
    """Train a model, evaluate it at its ``alpha``, probe it, save and return the result.

    Args:
        model: name of a model of this package or of RecBole, or a class.
        dataset: name of a dataset; ``ml-100k`` comes with RecBole.
        config_file_list: yaml files, as in RecBole.
        config_dict: values that win over the files.
        saved: keep checkpoints in the run's folder; without them the weights tested are the last.

    Returns:
        RecBole's dictionary (``best_valid_score``, ``valid_score_bigger``, ``best_valid_result``,
        ``test_result``), extended: see docs/command.md.

    Raises:
        ResidualError: for a mistake in the configuration or the data, before anything is trained;
            no folder is left behind then.

    Example:
        >>> result = run("SASRecResidual", "ml-100k")  # doctest: +SKIP
        >>> result["test_result"]["hrli@1"]  # doctest: +SKIP
    """
    result, _ = run_and_report(model, dataset, config_file_list, config_dict, saved)
    return result


def run_and_report(
    model: Union[str, type] | None = None,
    dataset: str | None = None,
    config_file_list: Sequence[PathLike] | None = None,
    config_dict: dict[str, Any] | None = None,
    saved: bool = True,
) -> tuple[dict[str, Any], Report | None]:
    """:func:`run`, and beside its result the report as it was written, for those who show it; None
    if none was wanted."""
    config = ResidualConfig(model, dataset, config_file_list, config_dict)
    dataset_url(config)  # a dataset that cannot be had is told before anything is written
    if processes.by_torchrun() is not None or first_place(config) > 0:
        return _do(config, Job.of(config, None, saved))  # the first process makes the folder
    folder = _new_folder(config)
    with _discarding(folder):
        return _do(config, Job.of(config, str(folder), saved))


def resume(run_folder: PathLike, config_dict: dict[str, Any] | None = None) -> dict[str, Any]:
    """Go on with an interrupted run; the final numbers are those of an uninterrupted one.

    Args:
        run_folder: the folder of the run.
        config_dict: only where to compute and where the data is may differ.

    Returns:
        As :func:`run`; of a finished run, the result it has.

    Raises:
        ConfigError: if the folder is no run's, or ``config_dict`` would change the numbers.
        CheckpointError: if the run never got as far as training, or another process trains it.
    """
    result, _ = resume_and_report(run_folder, config_dict)
    return result


def resume_and_report(
    run_folder: PathLike, config_dict: dict[str, Any] | None = None
) -> tuple[dict[str, Any], Report | None]:
    """:func:`resume`, with the report as :func:`run_and_report` gives it."""
    folder = RunFolder.existing(run_folder)
    finished = folder.read_result()
    if finished is not None:
        getLogger().warning("%s is finished; this is its result.", folder)
        return finished, None
    config = resume_config(folder, config_dict)
    return _do(config, Job.of(config, str(folder), saved=True, resume=True))


def _do(config: ResidualConfig, job: Job) -> tuple[dict[str, Any], Report | None]:
    """A job alone, or with others: those that ``nproc`` asks for, or those of torchrun."""
    place = processes.by_torchrun()
    if place is not None:
        check_several(config, config.model_class)
        return take_part(_work, job, place), None
    if n_processes(config) > 1:
        return launch(_work, job, config), None
    return _work_and_report(config, job)


def _work(config: ResidualConfig, job: Job) -> dict[str, Any]:
    """A job in a process of its own: its report does not leave it, except as files."""
    result, _ = _work_and_report(config, job)
    return result


def _work_and_report(config: ResidualConfig, job: Job) -> tuple[dict[str, Any], Report | None]:
    """A job, by one process or by each of several."""
    page = None
    first = processes.is_first()
    path = job.folder
    if path is None and first:
        path = str(_new_folder(config))
    folder = RunFolder(processes.of_first(path))
    logging = folder.logging(config["state"] or "INFO") if first else nullcontext()
    with _discarding(folder), logging:
        if not job.resume:
            start_config(folder, config)
        with RunLock(folder.path) if first else nullcontext():
            session, result = train_and_test(config, folder, job.saved, job.resume)
            processes.leave()
            if first:  # alone, while the others end
                examined = examine(session, folder, probes_after_training(config["probe"]))
                page = examined.page
    return result, page


def _new_folder(config: ResidualConfig) -> RunFolder:
    return RunFolder.create(config["model"], config["dataset"], config["output_dir"])


@contextmanager
def _discarding(folder: RunFolder) -> Iterator[None]:
    """Of a run with a mistake in it nothing stays behind."""
    try:
        yield
    except ResidualError:
        if processes.is_first() and not folder.has_trained():
            folder.discard()
        raise


def probe_run(
    run_folder: PathLike,
    names: Sequence[str] = tuple(PROBES),
    config_dict: dict[str, Any] | None = None,
) -> dict[str, ProbeResult]:
    """Ask a finished run's model questions; the answers are saved in the run's folder ``probe``.

    Args:
        run_folder: the folder of the run.
        names: which probes; all of them by default.
        config_dict: as in :func:`resume`.

    Returns:
        The results by name; a probe that the model cannot answer is left out with a warning.

    Raises:
        UnknownProbeError: for a name that is no probe's.
        ConfigError, CheckpointError: as :meth:`~recbole_residual.run.session.Session.open`.
    """
    names = probe_names(names)
    folder = RunFolder.existing(run_folder)
    session = Session.open(folder.path, config_dict=config_dict)
    with session, folder.logging(session.config["state"] or "INFO"):
        return examine(session, folder, names).answers


def examine(session: Session, folder: RunFolder, names: Sequence[str]) -> Examined:
    """Run probes on a session, save their answers in the folder of a run, and write its report.

    Args:
        session: what to ask.
        folder: where the answers go; the caller logs into it.
        names: of the probes.
    """
    config = session.config
    answers: dict[str, ProbeResult] = {}
    if names and session.model.type != ModelType.SEQUENTIAL:
        getLogger().warning("Probes ask sequential models; %s is none.", config["model"])
    elif names and has_rows(session.valid_data) and has_rows(session.test_data):
        answers = run_probes(
            session.model,
            session.valid_data,
            session.test_data,
            folder.path,
            names,
            topk=config["topk"],
            show_progress=config["show_progress"],
        )
    elif names:
        getLogger().warning("Probes need validation and test data, which the split leaves empty.")
    return Examined(answers, write_report(config, folder.path))
