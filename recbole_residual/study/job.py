"""A study as a Ray job: cells that have no row yet are measured, and pages are made of all rows."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Union

from filelock import FileLock, Timeout

from recbole_residual.config.keys import RESUME_KEYS
from recbole_residual.errors import ConfigError, RayDiedError
from recbole_residual.files import PathLike, read_json, write_text
from recbole_residual.model.registry import MODELS
from recbole_residual.study.measure import Job, measure
from recbole_residual.study.pages import write_pages
from recbole_residual.study.plan import Cell, StudyPlan, check_values
from recbole_residual.study.row import FOLDER, Row, read_rows
from recbole_residual.tune import ray_api
from recbole_residual.tune.ray_api import Resources

MANIFEST_FILE = "study.json"

MAX_FAILURES = 3
"""How often a cell whose process died is started again, from its last whole epoch."""


@dataclass(frozen=True, repr=False)
class StudyResult:
    """What came out of a study; all of it is in its folder as well.

    Attributes:
        folder: of the study.
        rows: what each finished cell gave, by its key.
        failed: what went wrong, by the key of the cell.
        page: the page for a reader with one minute.
    """

    folder: str
    rows: dict[str, Row]
    failed: dict[str, str]
    page: Path

    @property
    def all_failed(self) -> bool:
        """Whether nothing got to an end."""
        return bool(self.failed) and not self.rows

    def __repr__(self) -> str:
        return f"StudyResult({len(self.rows)} finished, {len(self.failed)} failed; {self.folder})"

    def __str__(self) -> str:
        lines = [f"{len(self.rows)} cells finished, {len(self.failed)} failed."]
        lines += [
            f"{key}: {error.splitlines()[0]} (all of it: {self.folder}/cells/{key}/error.txt)"
            for key, error in self.failed.items()
        ]
        return "\n".join([*lines, f"saved {self.page}"])


def study(
    name: Union[str, os.PathLike[str]] = "papers",
    datasets: Sequence[str] | None = None,
    models: Sequence[str] | None = None,
    seeds: Sequence[int] | None = None,
    config_dict: Mapping[str, Any] | None = None,
    rows: PathLike | None = None,
    resources: Resources | None = None,
) -> StudyResult:
    """Measure the papers' claims on datasets, and write tables, figures and pages.

    What is finished is kept as one small json file a cell, and is not trained again: called once
    more with the same ``output_dir``, it goes on where it was.

    Args:
        name: ``papers``, ``quick``, or a yaml file such as those in ``properties/study``.
        datasets: only these, or a user's own; by default the study's.
        models: only these.
        seeds: instead of the study's.
        config_dict: configuration keys for every cell. ``data_path`` says where the data is,
            ``output_dir`` where everything goes (``output/study-<name>`` by default).
        rows: a folder with rows of an earlier study; their cells are not trained again.
        resources: of a cell, and where to run.

    Returns:
        StudyResult: the rows, and where the pages are.

    Raises:
        ConfigError: for a mistake, before anything is trained.
        MissingPackageError: without Ray.

    Example:
        >>> study("quick").rows  # doctest: +SKIP
    """
    ray_api.require_ray()
    plan = StudyPlan.load(name)
    keys = dict(config_dict or {})
    folder = Path(keys.pop("output_dir", None) or f"output/study-{plan.name}")
    where = {key: keys.pop(key) for key in list(keys) if key in RESUME_KEYS}
    where["data_path"] = str(Path(where.get("data_path", "dataset")).expanduser().absolute())
    cells = plan.cells(datasets, models, seeds, keys)
    check_values(cells, where)
    resources = resources or Resources()
    manifest = {
        "study": str(name),
        "where": where,
        "given": keys,
        "rows": None if rows is None else str(Path(rows).expanduser().absolute()),
        "resources": asdict(resources),
        "cells": [asdict(cell) for cell in cells],
    }
    return _Study(folder, manifest).finish()


def resume_study(folder: PathLike, **resources: Any) -> StudyResult:
    """Go on with an interrupted study.

    Args:
        folder: of the study.
        **resources: what of :class:`~recbole_residual.tune.ray_api.Resources` is to change.

    Returns:
        As :func:`study`.

    Raises:
        ConfigError: if the folder is no study's, or another process works on it.
    """
    ray_api.require_ray()
    if not is_study_folder(folder):
        raise ConfigError(f"{str(folder)!r} is not the folder of a study: no {MANIFEST_FILE}.")
    manifest = read_json(Path(folder).expanduser() / MANIFEST_FILE)
    manifest["resources"].update(resources)
    return _Study(Path(folder), manifest).finish()


def is_study_folder(path: PathLike) -> bool:
    """Whether a folder is that of a study."""
    return (Path(path).expanduser() / MANIFEST_FILE).is_file()


class _Study:
    """One process's work on a study.

    Args:
        folder: of the study.
        manifest: what is to be measured, and how.
    """

    def __init__(self, folder: Path, manifest: Mapping[str, Any]) -> None:
        self.folder, self.manifest = folder.expanduser().absolute(), manifest
        self.cells = [Cell(**cell) for cell in manifest["cells"]]
        self.resources = Resources(**manifest["resources"])

    def finish(self) -> StudyResult:
        """Measure what has no row, and write the pages."""
        self._claim_folder()
        lock = FileLock(str(self.folder / ".lock"))
        try:
            lock.acquire(timeout=0)
        except Timeout as error:
            raise ConfigError(f"another process is working on {self.folder}.") from error
        with lock:
            write_text(self.folder / MANIFEST_FILE, json.dumps(self.manifest, indent=1) + "\n")
            left = [cell for cell in self.cells if cell.key not in self._rows()]
            kept = len(self.cells) - len(left)
            print(f"{len(self.cells)} cells, {kept} of them finished earlier.", flush=True)
            try:
                failed = self._measure(left) if left else {}
            except (KeyboardInterrupt, RayDiedError):
                print(f"Interrupted. To go on: --resume={self.folder}", flush=True)
                raise
            rows = self._rows()
            page = write_pages(list(rows.values()), self.folder)
            return StudyResult(str(self.folder), rows, failed, page)

    def _claim_folder(self) -> None:
        """Make the folder, or see that it is this study's."""
        if self.folder.is_dir() and any(self.folder.iterdir()):
            if not is_study_folder(self.folder):
                raise ConfigError(
                    f"output_dir {str(self.folder)!r} is not empty, and no study's. Choose another."
                )
            earlier = read_json(self.folder / MANIFEST_FILE)["study"]
            if earlier != self.manifest["study"]:
                raise ConfigError(
                    f"output_dir {str(self.folder)!r} holds the study {earlier}. Choose another."
                )
        self.folder.mkdir(parents=True, exist_ok=True)

    def _rows(self) -> dict[str, Row]:
        """The rows of this study's cells, wherever they were measured."""
        kept = self.manifest["rows"]
        rows = read_rows(self.folder / FOLDER, *([] if kept is None else [kept]))
        return {cell.key: rows[cell.key] for cell in self.cells if cell.key in rows}

    def _measure(self, left: Sequence[Cell]) -> dict[str, str]:
        """Train the cells in Ray's workers; what went wrong, by key."""
        failed: dict[str, str] = {}
        with ray_api.connected(self.resources.ray_address):
            ray_api.check_resources(self.resources)
            gpus = ray_api.gpus_per_trial(self.resources)
            job = self._job(gpus)
            answers = ray_api.answers_of_workers(
                measure, [(cell, job) for cell in left], self.resources, gpus, MAX_FAILURES
            )
            for done, (number, error) in enumerate(answers, 1):
                cell = left[number]
                if error is not None:
                    failed[cell.key] = str(error)
                state = "finished" if error is None else f"failed: {error}"
                print(f"{done} of {len(left)}: {cell} {state}", flush=True)
        return failed

    def _job(self, gpus: float) -> Job:
        own = __name__.partition(".")[0]
        where = dict(self.manifest["where"])
        if not gpus:
            where["use_gpu"] = False
        return Job(
            folder=str(self.folder),
            study=self.manifest["study"],
            where=where,
            given=self.manifest["given"],
            threads=max(1, int(self.resources.cpus_per_trial)),
            models=tuple(
                model for model in MODELS.values() if model.__module__.partition(".")[0] != own
            ),
        )
