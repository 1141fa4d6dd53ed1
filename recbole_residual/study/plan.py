"""What a study trains: from a yaml file to cells, each a model on a dataset, a split and a seed."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Union

import yaml

from recbole_residual.config.hints import did_you_mean
from recbole_residual.config.property_files import properties_dir
from recbole_residual.config.residual_config import ResidualConfig
from recbole_residual.config.unknown import check_keys
from recbole_residual.errors import ConfigError
from recbole_residual.tune.process import environment

MAIN = "main"
"""The part of a study from which its claims are read."""

OTHER = "other"
"""What stands in a study's yaml for datasets that it does not name."""

SPLITS: dict[str, dict[str, Any]] = {
    "temporal": {
        "split": {"GT": [0.9, 0.9]},
        "order": "TO",
        "group_by": "user",
        "mode": "full",
    },
    "leave_one_out": {
        "split": {"LS": "valid_and_test"},
        "order": "TO",
        "group_by": "user",
        "mode": "full",
    },
}
"""The splits of the papers, by the names that a study gives them, as ``eval_args``."""

SET_BY_STUDY = frozenset(
    {
        "model",
        "dataset",
        "seed",
        "eval_args",
        "probe",
        "report",
        "export_per_user",
        "filter_seen",
        "metrics",
        "topk",
        "valid_metric",
    }
)
"""Configuration keys that every cell needs as the study has them: rows are compared by them."""

_KEYS = {"seeds", "splits", "settings", "datasets", "parts"}
_PART_KEYS = {"name", "models", "datasets", "splits", "seeds", "settings"}
_DATASET_KEYS = {"splits", "seeds", "settings"}


@dataclass(frozen=True)
class Cell:
    """One training of a study.

    Attributes:
        part: name of the part of the study that it belongs to.
        model, dataset: their names.
        split: one of :data:`SPLITS`.
        seed: of the training.
        settings: configuration keys, the split and the seed apart.
    """

    part: str
    model: str
    dataset: str
    split: str
    seed: int
    settings: dict[str, Any]

    @property
    def key(self) -> str:
        """Name of its files: the same for two cells that train the same."""
        what = {name: value for name, value in asdict(self).items() if name != "part"}
        text = json.dumps(what, sort_keys=True)
        name = f"{self.dataset}-{self.split}-{self.model}-{self.seed}"
        return f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"

    @property
    def config(self) -> dict[str, Any]:
        """What its configuration is given."""
        return {**self.settings, "seed": self.seed, "eval_args": SPLITS[self.split]}

    def __str__(self) -> str:
        part = "" if self.part == MAIN else f", {self.part}"
        return f"{self.model} on {self.dataset}, {self.split}, seed {self.seed}{part}"


@dataclass(frozen=True)
class StudyPlan:
    """A study as its yaml file describes it.

    Attributes:
        name: ``papers``, ``quick``, or the file's.
        content: of the file.
    """

    name: str
    content: dict[str, Any]

    @classmethod
    def load(cls, name: Union[str, os.PathLike[str]]) -> StudyPlan:
        """Read a study.

        Args:
            name: of one in ``properties/study``, or a yaml file.

        Raises:
            ConfigError: if there is none, or it cannot be read as a study.
        """
        known = {path.stem: path for path in (properties_dir() / "study").glob("*.yaml")}
        path = known.get(str(name), Path(name).expanduser())
        if not path.is_file():
            hint = did_you_mean(str(name), known)
            raise ConfigError(
                f"there is no study {str(name)!r}{hint} There are: {', '.join(sorted(known))}, or "
                "a yaml file of your own."
            )
        try:
            content = yaml.safe_load(path.read_text(encoding="utf-8"))
        except yaml.YAMLError as error:
            raise ConfigError(f"{path} is not yaml: {error}") from error
        _check(content, path)
        return cls(path.stem, content)

    def cells(
        self,
        datasets: Sequence[str] | None = None,
        models: Sequence[str] | None = None,
        seeds: Sequence[int] | None = None,
        keys: Mapping[str, Any] | None = None,
    ) -> list[Cell]:
        """The trainings, in the order in which they are started; each different one once.

        Args:
            datasets: only these; a name that the study does not have takes the place of
                ``other``. By default all that the study names.
            models: only these.
            seeds: instead of the study's, in every part.
            keys: configuration keys that win over the study's.

        Raises:
            ConfigError: if nothing is left to train, or a model is none.
        """
        named = [name for name in self.content["datasets"] if name != OTHER]
        wanted = list(datasets or named)
        if OTHER not in self.content["datasets"]:
            unknown = [name for name in wanted if name not in named]
            if unknown:
                raise ConfigError(
                    f"the study {self.name} has no {', '.join(unknown)}, and no place for others. "
                    f"It has: {', '.join(named)}."
                )
        cells = [
            cell
            for part in self.content["parts"]
            for cell in self._of_part(part, wanted, seeds, keys or {})
            if not models or cell.model in models
        ]
        if not cells:
            of = ", ".join([*wanted, *(models or ())])
            raise ConfigError(f"the study {self.name} trains nothing of {of}.")
        different: dict[str, Cell] = {}
        for cell in _usable(cells):
            different.setdefault(cell.key, cell)
        return list(different.values())

    def _of_part(
        self,
        part: Mapping[str, Any],
        datasets: Sequence[str],
        seeds: Sequence[int] | None,
        keys: Mapping[str, Any],
    ) -> list[Cell]:
        content, cells = self.content, []
        for dataset in datasets:
            name = dataset if dataset in content["datasets"] else OTHER
            if name not in part.get("datasets", content["datasets"]):
                continue
            of_dataset = content["datasets"][name]
            settings: dict[str, Any] = {}
            for given in (content, of_dataset, part):
                settings.update(given.get("settings", {}))
            settings.update(keys)
            here = of_dataset.get("splits", content["splits"])
            splits = [split for split in part.get("splits", here) if split in here]
            default = of_dataset.get("seeds", content["seeds"])
            for seed in seeds or part.get("seeds", default):
                for split in splits:
                    for model in part["models"]:
                        name = part.get("name", MAIN)
                        cells.append(Cell(name, model, dataset, split, int(seed), settings))
        return cells


def _usable(cells: Sequence[Cell]) -> list[Cell]:
    """The same without keys that the model does not know; those that none knows are refused."""
    known: dict[tuple[str, str], set[str]] = {}
    for cell in cells:
        if (cell.model, cell.dataset) not in known:
            with environment():  # RecBole sets CUDA_VISIBLE_DEVICES, which Ray would see
                config = ResidualConfig(cell.model, cell.dataset)
            known[cell.model, cell.dataset] = config.known_keys
    given = dict.fromkeys(key for cell in cells for key in cell.settings)
    for key in given:
        if key in SET_BY_STUDY:
            raise ConfigError(f"{key} cannot be given to a study, which sets it itself.")
    check_keys(given, set().union(*known.values()))
    usable = []
    for cell in cells:
        names = known[cell.model, cell.dataset]
        settings = {key: value for key, value in cell.settings.items() if key in names}
        usable.append(replace(cell, settings=settings))
    return usable


def check_values(cells: Sequence[Cell], where: Mapping[str, Any]) -> None:
    """Find what is wrong with a configuration before anything is trained.

    Args:
        cells: of a study.
        where: configuration keys that say where to compute, and where the data is.

    Raises:
        ConfigError: for a value that cannot be.
    """
    for cell in {cell.key: cell for cell in (replace(cell, seed=0) for cell in cells)}.values():
        with environment():
            ResidualConfig(cell.model, cell.dataset, None, {**where, **cell.config})


def _check(content: Any, path: Path) -> None:
    """Refuse what is no study."""
    if not isinstance(content, dict):
        raise ConfigError(f"{path} holds no study: keys {', '.join(sorted(_KEYS))} are expected.")
    _check_names(content, _KEYS, str(path))
    missing = sorted(_KEYS - {"settings"} - set(content))
    if missing:
        raise ConfigError(f"{path} lacks {', '.join(missing)}.")
    for name, dataset in content["datasets"].items():
        _check_names(dataset, _DATASET_KEYS, f"{path}, {name}")
        _check_splits(dataset, path)
    for part in content["parts"]:
        _check_names(part, _PART_KEYS, f"{path}, a part")
        _check_splits(part, path)
        if not part.get("models"):
            raise ConfigError(f"{path}: a part names no models.")
        for name in part.get("datasets", ()):
            if name not in content["datasets"]:
                raise ConfigError(f"{path}: a part names {name}, which datasets does not have.")
    _check_splits(content, path)


def _check_names(given: Any, known: set[str], where: str) -> None:
    if not isinstance(given, dict):
        raise ConfigError(f"{where}: {given!r} should be a mapping.")
    for name in given:
        if name not in known:
            raise ConfigError(f"{where}: unknown key {name!r}{did_you_mean(name, known)}")


def _check_splits(given: Mapping[str, Any], path: Path) -> None:
    for split in given.get("splits", ()):
        if split not in SPLITS:
            raise ConfigError(f"{path}: {split!r} is no split; there are {', '.join(SPLITS)}.")
