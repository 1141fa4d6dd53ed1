"""From a search space to trials: which configuration each of them is given."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from logging import getLogger
from typing import Any, Union

import numpy as np

from recbole_residual.config.residual_config import ResidualConfig
from recbole_residual.config.several import n_processes
from recbole_residual.config.unknown import check_keys
from recbole_residual.errors import ConfigError
from recbole_residual.tune.folder import TrialDefinition
from recbole_residual.tune.process import environment
from recbole_residual.tune.space import Space

OWN_KEYS = frozenset({"model", "dataset", "output_dir", "checkpoint_dir", "gpu_id"})
"""Keys that a trial is not given by the user: names stand for themselves, folders are the run's,
and Ray says which GPU."""

_TRIES = 50
"""How often a random point is drawn again that was drawn before."""

Names = Union[str, os.PathLike[str]]


@dataclass(frozen=True)
class Base:
    """What all trials of one model on one dataset have in common.

    Attributes:
        config: the resolved configuration without what the search adds.
        given: what it was given: files and keys, as far as the model knows them.
    """

    config: ResidualConfig
    given: dict[str, Any]

    @classmethod
    def of(cls, model: str, dataset: str, given: Mapping[str, Any]) -> Base:
        """Resolve a configuration."""
        return cls(_config(model, dataset, None, given), dict(given))

    def trial(self, number: int, point: Mapping[str, Any]) -> TrialDefinition:
        """The trial at a point of the space; keys that the model does not know are left out."""
        known = {
            key: value
            for key, value in point.items()
            if key not in OWN_KEYS and key in self.config.known_keys
        }
        config = {**self.given, **known}
        model, dataset = self.config["model"], self.config["dataset"]
        text = json.dumps([model, dataset, config], sort_keys=True)
        fingerprint = hashlib.sha256(text.encode()).hexdigest()[:8]
        return TrialDefinition(f"{number:04d}-{fingerprint}", model, dataset, dict(point), config)


@dataclass(frozen=True)
class Plan:
    """What the trials of a run are made of.

    Attributes:
        bases: one per model and dataset.
    """

    bases: tuple[Base, ...]

    @classmethod
    def of(
        cls,
        models: Sequence[str | None],
        datasets: Sequence[str | None],
        files: Sequence[Names] | None,
        keys: Mapping[str, Any],
        searched: Sequence[str] = (),
    ) -> Plan:
        """Check what a user gave.

        Args:
            models: names of models; or one None, which is the ``model`` of the files or keys.
            datasets: the same for datasets.
            files: yaml files of the configuration.
            keys: configuration keys, which win over the files.
            searched: keys that the search sets.

        Raises:
            ConfigError: for a mistake in the configuration, and for a key that none of the models
                knows. A key that some of the models do not know is left out for these.
        """
        bases = []
        unknown: dict[str, set[str]] = {}
        known: set[str] = set()
        strict = True
        for model in dict.fromkeys(models):
            for dataset in dict.fromkeys(datasets):
                config, given = _given(model, dataset, files, keys)
                if n_processes(config) > 1:
                    raise ConfigError(
                        "a trial is one process: leave out nproc and world_size, and let "
                        "--max_concurrent say how many trials run side by side."
                    )
                known |= config.known_keys
                strict &= _is_strict(config, keys)
                for key in [*given, *searched]:
                    if key not in config.known_keys and key not in OWN_KEYS:
                        unknown.setdefault(key, set()).add(config["model"])
                usable = {key: value for key, value in given.items() if key in config.known_keys}
                usable.update(_absolute(config), show_progress=False)
                bases.append(Base.of(config["model"], config["dataset"], usable))
        check_keys([key for key in unknown if key not in known], known, strict)
        for key, names in unknown.items():
            getLogger().warning("%s is no key of %s: left out there.", key, ", ".join(names))
        plan = cls(tuple(bases))
        for base in plan.bases:
            if base.config["valid_metric"] != plan.metric:
                raise ConfigError(
                    f"valid_metric is {plan.metric} and {base.config['valid_metric']}: trials are "
                    "compared by one. Give it: --valid_metric=..."
                )
            if base.config["eval_step"] <= 0:
                raise ConfigError("eval_step must be above 0: trials are compared on validation.")
        return plan

    @classmethod
    def of_plain(cls, plain: Sequence[Mapping[str, Any]]) -> Plan:
        """From what :meth:`to_plain` gave."""
        return cls(tuple(Base.of(**base) for base in plain))

    def to_plain(self) -> list[dict[str, Any]]:
        """As plain values."""
        return [
            {"model": base.config["model"], "dataset": base.config["dataset"], "given": base.given}
            for base in self.bases
        ]

    @property
    def metric(self) -> str:
        """The validation metric by which trials are compared."""
        return self.bases[0].config["valid_metric"]

    @property
    def bigger(self) -> bool:
        """Whether more of it is better."""
        return bool(self.bases[0].config["valid_metric_bigger"])

    def trial(self, number: int, point: Mapping[str, Any]) -> TrialDefinition:
        """The trial at a point, which may name a model and a dataset."""
        for base in self.bases:
            names = (base.config["model"], base.config["dataset"])
            if names == (point.get("model", names[0]), point.get("dataset", names[1])):
                return base.trial(number, point)
        raise ConfigError(f"no model and dataset of this plan are those of {dict(point)}.")

    def trials(self, space: Space) -> list[TrialDefinition]:
        """The trials of a grid or of a random search, each different training once."""
        if space.search == "grid":
            return self._different(iter(space.grid()))
        generator = np.random.default_rng(space.seed)
        points = (space.draw(generator) for _ in range(space.num_samples * _TRIES))
        return self._different(points, space.num_samples)

    def _different(
        self, points: Iterator[dict[str, Any]], most: int | None = None
    ) -> list[TrialDefinition]:
        trials: list[TrialDefinition] = []
        seen = set()
        for point in points:
            if most is not None and len(trials) == most:
                break
            trial = self.trial(len(trials), point)
            if fingerprint(trial) not in seen:
                seen.add(fingerprint(trial))
                trials.append(trial)
        return trials


def fingerprint(trial: TrialDefinition) -> str:
    """The same for two trials that train the same."""
    return trial.key.partition("-")[2]


def _config(
    model: str | None, dataset: str | None, files: Sequence[Names] | None, keys: Mapping[str, Any]
) -> ResidualConfig:
    """A configuration that leaves the environment alone.

    RecBole sets CUDA_VISIBLE_DEVICES, and Ray, started afterwards, would see that one GPU only.
    """
    with environment():
        return ResidualConfig(model, dataset, files, dict(keys))


def _given(
    model: str | None, dataset: str | None, files: Sequence[Names] | None, keys: Mapping[str, Any]
) -> tuple[ResidualConfig, dict[str, Any]]:
    """The configuration with everything that was given, and that, files and keys merged."""
    lenient = {**keys, "strict_config": False}
    with _quiet():  # unknown keys are judged for all models together
        config = _config(model, dataset, files, lenient)
    given = {
        key: value
        for key, value in config.external_config_dict.items()
        if key not in OWN_KEYS and key != "strict_config"
    }
    return config, given


def _is_strict(config: ResidualConfig, keys: Mapping[str, Any]) -> bool:
    said = keys.get("strict_config", config.file_config_dict.get("strict_config", True))
    return str(said).lower() != "false"


def _absolute(config: ResidualConfig) -> dict[str, Any]:
    """The data path, absolute because workers run in other folders; none for RecBole's own copy."""
    if config["data_path"] != os.path.join(config.base_data_path, config["dataset"]):
        return {}
    return {"data_path": config.base_data_path}


@contextmanager
def _quiet() -> Iterator[None]:
    def nothing(record: logging.LogRecord) -> bool:
        return False

    logger = getLogger()
    logger.addFilter(nothing)
    try:
        yield
    finally:
        logger.removeFilter(nothing)
