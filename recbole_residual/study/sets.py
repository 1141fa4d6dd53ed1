"""Rows put together: a set is a dataset under one split, with the models trained on it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from recbole_residual.report.measured import Measured
from recbole_residual.study.plan import MAIN
from recbole_residual.study.row import Row

LEARNED, UNIFORM = "SASRecResidual", "SASRecUniform"
"""The model that the papers speak of, and the same with uniform attention."""


@dataclass(frozen=True)
class Set:
    """A dataset under one split.

    Attributes:
        dataset, split: which.
        models: by model, one row a seed, of the study's main part.
    """

    dataset: str
    split: str
    models: dict[str, list[Row]]

    @property
    def label(self) -> str:
        """What it is called in a figure."""
        return f"{self.dataset}, {self.split.replace('_', '-')}"

    @property
    def columns(self) -> dict[str, str]:
        """What it is called in a table."""
        return {"dataset": self.dataset, "split": self.split.replace("_", "-")}

    def measured(self, read: Callable[[Row], Measured], model: str = LEARNED) -> Measured:
        """A figure of a model: means over its seeds, of the ends of the intervals too, which so
        speak of other users and not of other seeds."""
        found = [figure for row in self.models.get(model, ()) if (figure := read(row)).known]
        if not found:
            return Measured(math.nan)
        parts = np.array([(one.value, one.low, one.high) for one in found])
        return Measured(*map(float, parts.mean(axis=0)))


def sets_of(rows: Iterable[Row]) -> list[Set]:
    """The sets that some rows are of, by name; rows of other parts than the main one left out."""
    found: dict[tuple[str, str], dict[str, list[Row]]] = {}
    for row in rows:
        if row.cell.part == MAIN:
            models = found.setdefault((row.cell.dataset, row.cell.split), {})
            models.setdefault(row.cell.model, []).append(row)
    return [Set(*names, _ordered(models)) for names, models in sorted(found.items())]


def _ordered(models: dict[str, list[Row]]) -> dict[str, list[Row]]:
    def first(name: str) -> Any:
        return (name not in (LEARNED, UNIFORM), name)

    return {
        name: sorted(models[name], key=lambda row: row.cell.seed)
        for name in sorted(models, key=first)
    }
