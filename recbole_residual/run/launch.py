"""Several processes that train one model together: started, given their places, and watched."""

from __future__ import annotations

import logging
import os
import pickle
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable

import torch
from torch import multiprocessing

from recbole_residual import processes
from recbole_residual.config.residual_config import ResidualConfig
from recbole_residual.config.several import (
    first_machine,
    first_place,
    n_processes,
    processes_here,
)
from recbole_residual.errors import ConfigError, ProcessDiedError, ResidualError
from recbole_residual.processes import Place


@dataclass(frozen=True)
class Job:
    """What the processes of a run are to do.

    Attributes:
        model_class: the model, which a user may have written.
        settings: the resolved configuration, as plain values.
        folder: of the run; None where the first process is to make it, or has made it on another
            machine.
        saved: keep checkpoints.
        resume: go on from the last whole epoch that the folder holds.
    """

    model_class: type
    settings: dict[str, Any]
    folder: str | None
    saved: bool
    resume: bool

    @classmethod
    def of(
        cls, config: ResidualConfig, folder: str | None, saved: bool, resume: bool = False
    ) -> Job:
        """The job that a configuration describes."""
        return cls(config.model_class, config.to_plain(), folder, saved, resume)

    def config(self, local: int) -> ResidualConfig:
        """The configuration of one process of this machine, with a GPU of its own.

        Args:
            local: its number on this machine.

        Raises:
            ConfigError: if there is no GPU for it.
        """
        config = ResidualConfig(self.model_class, config_dict=self.settings)
        if config["device"].type != "cuda":
            return config
        gpus = [gpu.strip() for gpu in str(config["gpu_id"]).split(",")]
        if local >= len(gpus):
            raise ConfigError(
                f"gpu_id = {config['gpu_id']!r} names {len(gpus)} GPU for more processes of this "
                "machine: name one for each, as in gpu_id: 0,1, or set use_gpu: False."
            )
        return ResidualConfig(
            self.model_class, config_dict={**self.settings, "gpu_id": gpus[local]}
        )


Work = Callable[[ResidualConfig, Job], "dict[str, Any]"]
"""What every process does, once it is one of several."""


def take_part(work: Work, job: Job, place: Place) -> dict[str, Any]:
    """Do a job as one of several processes.

    Args:
        work: what to do.
        job: the same for all.
        place: of this process.
    """
    config = job.config(place.local)
    if place.number:  # one process speaks
        config["show_progress"] = config["log_wandb"] = False
        logging.disable(logging.CRITICAL)
    try:
        with processes.joined(place, config["device"]):
            return work(config, job)
    finally:
        logging.disable(logging.NOTSET)


def launch(work: Work, job: Job, config: ResidualConfig) -> dict[str, Any]:
    """Do a job in as many new processes of this machine as ``nproc`` says.

    Args:
        work: what each of them does; a function of a module.
        job: the same for all.
        config: with the number of processes, and where those of other machines are met.

    Returns:
        What the first of them gave.

    Raises:
        ResidualError: what one of them has raised.
        ProcessDiedError: if one was killed. The others are ended.
    """
    here, count, first = processes_here(config), n_processes(config), first_place(config)
    with tempfile.TemporaryDirectory() as shared:
        # processes of one machine meet in a file, so that no port can be taken already
        meeting = str(Path(shared) / "meeting")
        if here < count:
            meeting = first_machine(config)
        places = [Place(first + local, count, local, meeting) for local in range(here)]
        with _quiet_torch():
            context = multiprocessing.spawn(
                _process, args=(work, job, places, shared), nprocs=here, join=False
            )
        try:
            while not context.join():
                pass
        except (
            multiprocessing.ProcessRaisedException,
            multiprocessing.ProcessExitedException,
        ) as error:
            raise (_what_happened(context.processes, places, job, shared) or error) from error
        except KeyboardInterrupt:
            _end(context.processes)
            raise
        told = _told(shared, 0)
        if told is None:  # torch's processes end quietly when they are interrupted
            raise KeyboardInterrupt
        return told


def _process(local: int, work: Work, job: Job, places: list[Place], shared: str) -> None:
    """What a new process does."""
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(max(1, (os.cpu_count() or 1) // len(places)))

    def told(config: ResidualConfig, job: Job) -> dict[str, Any]:
        # told before the connections end, which the others notice
        try:
            return work(config, job)
        except ResidualError as error:
            _tell(shared, local, (type(error), str(error)))
            raise

    try:
        result = take_part(told, job, places[local])
    except ResidualError as error:
        _tell(shared, local, (type(error), str(error)))
        sys.exit(2)
    _tell(shared, local, result)


def _tell(shared: str, local: int, what: Any) -> None:
    path = Path(shared) / str(local)
    path.with_suffix(".part").write_bytes(pickle.dumps(what))
    path.with_suffix(".part").replace(path)


def _told(shared: str, local: int) -> Any:
    path = Path(shared) / str(local)
    return pickle.loads(path.read_bytes()) if path.is_file() else None


def _what_happened(
    children: list[Any], places: list[Place], job: Job, shared: str
) -> Exception | None:
    """The one error behind those of all processes, whose connections to each other broke; None if
    nobody has told of one and nobody was killed."""
    for place in places:
        told = _told(shared, place.local)
        if isinstance(told, tuple):
            kind, text = told
            return kind.__new__(kind, text)  # its __init__ would write the text anew
    for child, place in zip(children, places):
        child.join()
        # ended by torch.multiprocessing: SIGTERM
        if child.exitcode is not None and child.exitcode < 0 and child.exitcode != -signal.SIGTERM:
            name = signal.Signals(-child.exitcode).name
            return ProcessDiedError(place.number, place.count, f"was killed ({name})", job.folder)
    return None


def _end(children: list[Any]) -> None:
    """Wait until interrupted processes have ended, not for ever."""
    for child in children:
        child.join(10)
        if child.is_alive():
            child.terminate()
            child.join()


@contextmanager
def _quiet_torch() -> Iterator[None]:
    """New processes do not warn that parameters which every step uses were looked for in vain."""
    name = "TORCH_CPP_LOG_LEVEL"
    if name in os.environ:
        yield
        return
    os.environ[name] = "ERROR"
    try:
        yield
    finally:
        del os.environ[name]
