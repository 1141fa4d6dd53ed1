"""Search spaces: yaml files of this package, and the text files of RecBole's run_hyper."""

from __future__ import annotations

import ast
import itertools
import math
import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Union

import numpy as np
import yaml

from recbole_residual.config.hints import did_you_mean
from recbole_residual.config.property_files import properties_dir
from recbole_residual.errors import SpaceError
from recbole_residual.probe import DEFAULT_ALPHAS, DEFAULT_EPSILONS
from recbole_residual.tune.parameter import Parameter

SEARCHES = ("random", "grid", "optuna", "hyperopt")
SCHEDULERS = ("asha", "none")

_RUN_HYPER_LINE = re.compile(r"(\S+)\s+(choice|uniform|quniform|loguniform)\s+(\S.*)")


@dataclass(frozen=True)
class AlphaSearch:
    """The questions about alpha that every trial answers on its own checkpoint.

    Attributes:
        alphas: the grid; the unchanged model is always part of it.
        epsilon: share of HR@10 that may be given up, in the table of results.
        epsilons: further values, in ``alpha.csv``.
        per_layer: also search one alpha per layer.
    """

    alphas: tuple[float, ...] = DEFAULT_ALPHAS
    epsilon: float = 0.05
    epsilons: tuple[float, ...] = DEFAULT_EPSILONS
    per_layer: bool = True

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> AlphaSearch:
        """From yaml.

        Raises:
            SpaceError: for a key that is none, or a value out of range.
        """
        _check_keys("alpha_search", given, [part.name for part in fields(cls)])
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in given.items()
        }
        search = cls(**values)
        shares = (search.epsilon, *search.epsilons)
        if not all(isinstance(share, (int, float)) and 0 <= share < 1 for share in shares):
            raise SpaceError("alpha_search: every epsilon is a share from 0 to below 1.")
        if not all(isinstance(alpha, (int, float)) and alpha >= 0 for alpha in search.alphas):
            raise SpaceError("alpha_search: alphas are numbers of at least 0.")
        return search


@dataclass(frozen=True)
class Space:
    """What to search, and how.

    Attributes:
        parameters: by configuration key; ``model`` and ``dataset`` may be among them.
        search: one of :data:`SEARCHES`.
        num_samples: number of trials; a grid has as many as it has points.
        scheduler: one of :data:`SCHEDULERS`; ``asha`` ends trials that are behind.
        grace_period: epochs that every trial gets under ``asha``.
        reduction_factor: one in so many goes on at each of its halts.
        seed: of the search.
        alpha_search: the questions about alpha.
    """

    parameters: dict[str, Parameter]
    search: str = "random"
    num_samples: int = 20
    scheduler: str = "none"
    grace_period: int = 5
    reduction_factor: int = 3
    seed: int = 2020
    alpha_search: AlphaSearch = field(default_factory=AlphaSearch)

    @classmethod
    def load(cls, path: Union[str, os.PathLike[str]]) -> Space:
        """Read a space file, yaml or RecBole's run_hyper format.

        Raises:
            SpaceError: if it cannot be read, or holds what no space has.
        """
        try:
            text = Path(path).read_text(encoding="utf-8")
        except OSError as error:
            raise SpaceError(f"space {str(path)!r} cannot be read: {error.strerror}.") from error
        except UnicodeDecodeError as error:
            raise SpaceError(
                f"space {str(path)!r} is not UTF-8 text (byte {error.start}): save it as UTF-8."
            ) from error
        try:
            if is_run_hyper(text):
                return cls.of_run_hyper(text)
            return cls.read(yaml.safe_load(text))
        except yaml.YAMLError as error:
            raise SpaceError(f"space {str(path)!r} is not yaml: {error}") from error
        except SpaceError as error:
            raise SpaceError(f"space {str(path)!r}: {error}") from error

    @classmethod
    def read(cls, given: Any) -> Space:
        """From the content of a yaml file.

        Raises:
            SpaceError: if it is not usable.

        Example:
            >>> space = Space.read({"space": {"n_layers": [1, 2]}})
            >>> space.search, space.grid()
            ('grid', [{'n_layers': 1}, {'n_layers': 2}])
        """
        if not isinstance(given, Mapping) or not isinstance(given.get("space"), Mapping):
            raise SpaceError("expected 'space:' with one line per configuration key below it.")
        settings = {key: value for key, value in given.items() if key != "space"}
        _check_keys("space", settings, [part.name for part in fields(cls)][1:])
        parameters = {
            str(name): Parameter.read(str(name), value) for name, value in given["space"].items()
        }
        settings["alpha_search"] = AlphaSearch.read(settings.get("alpha_search") or {})
        only_lists = all(parameter.kind == "choice" for parameter in parameters.values())
        settings.setdefault("search", "grid" if only_lists else "random")
        settings["scheduler"] = str(settings.get("scheduler") or "none")
        return cls(parameters, **settings).checked()

    @classmethod
    def of_run_hyper(cls, text: str) -> Space:
        """From RecBole's format: lines of ``key distribution arguments``.

        As there, ``loguniform`` takes the natural logarithms of its bounds.

        Example:
            >>> space = Space.of_run_hyper("learning_rate loguniform -8,0\\nn_layers choice [1,2]")
            >>> space.search, round(space.parameters["learning_rate"].arguments[0], 6)
            ('random', 0.000335)
        """
        parameters = {}
        for line in _lines(text):
            name, kind, value = _RUN_HYPER_LINE.fullmatch(line).groups()  # type: ignore[union-attr]
            try:
                arguments = ast.literal_eval(value if kind == "choice" else f"[{value}]")
            except (ValueError, SyntaxError) as error:
                raise SpaceError(f"{name}: cannot read {value!r}.") from error
            if kind == "loguniform":
                arguments = [math.exp(bound) for bound in arguments]
            given = list(arguments) if kind == "choice" else {kind: arguments}
            parameters[name] = Parameter.read(name, given)
        only_lists = all(parameter.kind == "choice" for parameter in parameters.values())
        return cls(parameters, search="grid" if only_lists else "random").checked()

    def changed(self, settings: Mapping[str, Any]) -> Space:
        """This space with other settings.

        Args:
            settings: by name; None leaves the space's own.

        Raises:
            SpaceError: for a name that is no setting, or a value that is not usable.
        """
        _check_keys("space", settings, [part.name for part in fields(self)][1:])
        wanted = {name: value for name, value in settings.items() if value is not None}
        return replace(self, **wanted).checked()

    def checked(self) -> Space:
        """This space.

        Raises:
            SpaceError: if a setting is not usable.
        """
        for name, choices in (("search", SEARCHES), ("scheduler", SCHEDULERS)):
            if getattr(self, name) not in choices:
                raise SpaceError(
                    f"{name} = {getattr(self, name)!r} is not usable: one of {list(choices)}."
                )
        for name, least in (("num_samples", 1), ("grace_period", 1), ("reduction_factor", 2)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise SpaceError(f"{name} = {value!r} is not usable: at least {least}, and whole.")
        if self.search == "grid":
            for name, parameter in self.parameters.items():
                if parameter.kind != "choice":
                    raise SpaceError(
                        f"{name}: a grid needs lists of values, not {parameter.kind}; or take "
                        "search: random."
                    )
        if self.sequential and len(self.values("dataset")) > 1:
            raise SpaceError(
                f"search: {self.search} learns from scores, and scores on different datasets do "
                "not compare: take random or grid, or one run per dataset."
            )
        for name, parameter in self.parameters.items():
            parameter.check(name)
        if "alpha" in self.parameters:
            raise SpaceError(
                "alpha needs no trials: every trial answers all of `alpha_search` on its "
                "checkpoint. Did you mean alpha_train?"
            )
        return self

    @property
    def sequential(self) -> bool:
        """Whether a suggestion depends on the scores of the trials before it."""
        return self.search in ("optuna", "hyperopt")

    def values(self, name: str) -> tuple[Any, ...]:
        """The values of a choice; empty if the space does not hold it.

        Raises:
            SpaceError: if it is no choice.
        """
        if name not in self.parameters:
            return ()
        if self.parameters[name].kind != "choice":
            raise SpaceError(f"{name}: expected a list of values.")
        return self.parameters[name].arguments

    def grid(self) -> list[dict[str, Any]]:
        """Every point of a grid, the last key varying fastest."""
        names = list(self.parameters)
        values = [self.parameters[name].arguments for name in names]
        return [dict(zip(names, point)) for point in itertools.product(*values)]

    def draw(self, generator: np.random.Generator) -> dict[str, Any]:
        """One random point."""
        return {
            name: parameter.plain(parameter.domain().sample(random_state=generator))
            for name, parameter in self.parameters.items()
        }

    def plain(self, point: Mapping[str, Any]) -> dict[str, Any]:
        """A point that a search algorithm suggested, as plain Python values."""
        return {name: self.parameters[name].plain(value) for name, value in point.items()}

    def to_plain(self) -> dict[str, Any]:
        """As it stands in a yaml file."""
        plain: dict[str, Any] = {part.name: getattr(self, part.name) for part in fields(self)[1:]}
        plain["alpha_search"] = {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in vars(self.alpha_search).items()
        }
        plain["space"] = {name: part.to_plain() for name, part in self.parameters.items()}
        return plain


def default_space(model_class: type) -> Path:
    """The file in ``properties/tune`` for a model, its nearest parent, or any model."""
    folder = properties_dir() / "tune"
    for ancestor in model_class.__mro__:
        path = folder / f"{ancestor.__name__}.yaml"
        if path.is_file():
            return path
    return folder / "default.yaml"


def is_run_hyper(text: str) -> bool:
    """Whether every line of a file is one of RecBole's run_hyper format."""
    lines = _lines(text)
    return bool(lines) and all(_RUN_HYPER_LINE.fullmatch(line) for line in lines)


def _lines(text: str) -> list[str]:
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def _check_keys(where: str, given: Mapping[str, Any], known: Collection[str]) -> None:
    for key in given:
        if key not in known:
            raise SpaceError(
                f"{where}: unknown key {key!r}{did_you_mean(str(key), known)} There are: "
                f"{', '.join(known)}."
            )
