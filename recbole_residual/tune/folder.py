"""The folder of a tune or benchmark run: what it plans, what came out, and who works on it."""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Union

from filelock import FileLock, Timeout

from recbole_residual.checkpoint.lock import LOCK_FILE
from recbole_residual.errors import ConfigError
from recbole_residual.files import read_json, write_text
from recbole_residual.run.folder import RunFolder

FINISHED, STOPPED, FAILED = "finished", "stopped", "failed"
"""How a trial ends: by itself, by the scheduler, with an error."""

MANIFEST_FILE = "tune.json"

_ATTEMPT_LOCK = ".attempt.lock"
"""Held for a whole attempt; the run in the same folder takes a lock of its own on the way."""


@dataclass(frozen=True)
class TrialDefinition:
    """One training that is to be done.

    Attributes:
        key: number and fingerprint; the name of its folder.
        model: name of the model.
        dataset: name of the dataset.
        point: what the search drew, by configuration key.
        config: all that the configuration is given, defaults apart.
    """

    key: str
    model: str
    dataset: str
    point: dict[str, Any]
    config: dict[str, Any]


@dataclass
class Manifest:
    """All that is needed to go on with a run.

    Attributes:
        mode: ``tune`` or ``benchmark``.
        metric: validation metric by which trials are compared.
        bigger: whether more of it is better.
        space: the search space as in its yaml file.
        resources: of a trial.
        bases: what every trial of a model on a dataset is given.
        trials: in the order in which they are started.
    """

    mode: str
    metric: str
    bigger: bool
    space: dict[str, Any]
    resources: dict[str, Any]
    bases: list[dict[str, Any]]
    trials: list[TrialDefinition] = field(default_factory=list)


class TrialFolder(RunFolder):
    """The folder of a run, and what a trial adds to it."""

    def __init__(self, path: Union[str, os.PathLike[str]]) -> None:
        super().__init__(path)
        self.outcome_file = self.path / "outcome.json"
        self.history_file = self.path / "history.json"

    def lock(self) -> FileLock:
        """Held while somebody works on the trial, and let go by the system when they die."""
        self.path.mkdir(parents=True, exist_ok=True)
        return FileLock(str(self.path / _ATTEMPT_LOCK))

    def read_outcome(self) -> dict[str, Any] | None:
        """What came out; None if the trial has not ended."""
        return _read(self.outcome_file)

    def forget_outcome(self) -> None:
        """The trial is to be tried again, from the last whole epoch that it has."""
        self.outcome_file.unlink(missing_ok=True)

    def write_outcome(self, outcome: Mapping[str, Any]) -> None:
        """Save what came out; from now on the trial has ended."""
        write_text(self.outcome_file, json.dumps(outcome, indent=2, allow_nan=False) + "\n")

    def read_history(self) -> list[dict[str, Any]]:
        """One entry per validation: ``epoch``, ``score``, ``time``."""
        return _read(self.history_file) or []

    def write_history(self, history: list[dict[str, Any]]) -> None:
        """Save the history."""
        write_text(self.history_file, json.dumps(history) + "\n")

    def clear(self) -> None:
        """Remove what an attempt left that never got as far as training."""
        for path in self.path.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            elif path.name not in (_ATTEMPT_LOCK, LOCK_FILE):
                path.unlink()


class TuneFolder:
    """Paths of one tune or benchmark run.

    Args:
        path: the folder.
    """

    def __init__(self, path: Union[str, os.PathLike[str]]) -> None:
        self.path = Path(path).expanduser().absolute()
        self.manifest_file = self.path / MANIFEST_FILE
        self.results_file = self.path / "results.csv"
        self.alpha_file = self.path / "alpha.csv"
        self.summary_file = self.path / "summary.csv"
        self.progress_file = self.path / "progress.txt"
        self.log_file = self.path / "tune.log"
        self.result_file = self.path / "result.json"
        self.report_folder = self.path / "report"
        self.ray_folder = self.path / "ray"

    def __str__(self) -> str:
        return str(self.path)

    @classmethod
    def create(cls, name: str, output_dir: str | None = None) -> TuneFolder:
        """Make a folder that no other run has.

        Args:
            name: what it is about, for the default name.
            output_dir: the folder; by default ``./output/<name>-<time>-<short id>``.

        Raises:
            ConfigError: if ``output_dir`` holds something already.
        """
        if output_dir is None:
            time = datetime.now().strftime("%Y%m%d-%H%M%S")
            output_dir = os.path.join("output", f"{name}-{time}-{uuid.uuid4().hex[:6]}")
        folder = cls(output_dir)
        folder.path.mkdir(parents=True, exist_ok=True)
        if any(folder.path.iterdir()):
            raise ConfigError(
                f"output_dir {output_dir!r} is not empty. Choose another folder, or go on with "
                f"the run that is there: --resume={output_dir}."
            )
        return folder

    @classmethod
    def existing(cls, path: Union[str, os.PathLike[str]]) -> TuneFolder:
        """The folder of an earlier run.

        Raises:
            ConfigError: if it is none.
        """
        if not is_tune_folder(path):
            raise ConfigError(
                f"{str(path)!r} is not the folder of a tune or benchmark run: it has no "
                f"{MANIFEST_FILE}."
            )
        return cls(path)

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Inside, no other process runs the trials.

        Raises:
            ConfigError: if another process has it.
        """
        lock = FileLock(str(self.path / ".lock"))
        try:
            lock.acquire(timeout=0)
        except Timeout as error:
            raise ConfigError(f"another process is working on {self.path}.") from error
        try:
            yield
        finally:
            lock.release()

    def write_manifest(self, manifest: Manifest) -> None:
        """Save what is planned."""
        write_text(self.manifest_file, json.dumps(asdict(manifest), indent=1) + "\n")

    def read_manifest(self) -> Manifest:
        """What is planned."""
        content = read_json(self.manifest_file)
        content["trials"] = [TrialDefinition(**trial) for trial in content["trials"]]
        return Manifest(**content)

    def forget_failed(self, manifest: Manifest) -> list[str]:
        """Let the trials that failed be tried once more.

        Returns:
            Their keys.
        """
        failed = []
        for trial in manifest.trials:
            folder = self.trial(trial.key)
            outcome = folder.read_outcome()
            if outcome is not None and outcome["status"] == FAILED:
                folder.forget_outcome()
                failed.append(trial.key)
        return failed

    def trial(self, key: str) -> TrialFolder:
        """The folder of a trial."""
        return TrialFolder(self.path / "trials" / key)


def is_tune_folder(path: Union[str, os.PathLike[str]]) -> bool:
    """Whether a folder is that of a tune or benchmark run, and not that of a single one."""
    return (Path(path).expanduser() / MANIFEST_FILE).is_file()


def _read(path: Path) -> Any:
    if not path.is_file():
        return None
    return read_json(path)
