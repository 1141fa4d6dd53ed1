"""The questions about alpha that a trial answers on its checkpoint: nothing is trained for them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from logging import getLogger
from pathlib import Path
from typing import Any

import pandas as pd

from recbole_residual.files import PROBE_FOLDER
from recbole_residual.probe import choose_alpha, select_alpha, sweep_alpha
from recbole_residual.probe.all_probes import UNAVAILABLE
from recbole_residual.probe.engine.setting import ScalableResiduals, factors_in_text
from recbole_residual.tune.space import AlphaSearch

FOLDER = "alpha"
"""In a trial's folder: the sweeps behind the answers. The global choice of a trial that is tested
is the probe ``alpha_selection`` of its run."""

_LARGEST_GRID = 1000
_COARSE = (0.0, 0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True)
class AlphaQuestions:
    """Which alpha is best for a model, by the rule of :func:`~recbole_residual.probe.select_alpha`.

    Args:
        search: grid, epsilons, and whether to search per layer.
        model: a trained model.
        topk: the values of k.
    """

    search: AlphaSearch
    model: Any
    topk: Sequence[int]

    def on_validation(self, valid_data: Any, folder: Path) -> list[dict[str, Any]]:
        """Choose on validation data.

        Args:
            valid_data: a loader for full ranking.
            folder: of the trial.

        Returns:
            One row per scope (``global``, ``per_layer``) and epsilon: the chosen alpha and what it
            gives on validation. Empty, with a line in the log, if the model cannot be asked.
        """

        def ask(scope: str, grid: Sequence[float]) -> pd.DataFrame:
            sweep = sweep_alpha(
                self.model, valid_data, grid, self._topk, per_layer=scope == "per_layer"
            )
            sweep.save(folder / FOLDER / scope)
            rows = []
            for epsilon in self._epsilons:
                choice = select_alpha(sweep, epsilon, self._k)
                row = {"epsilon": epsilon, "alpha": factors_in_text(choice.setting.alpha)}
                figures = sweep.frame.iloc[choice.row]
                row.update(
                    {f"valid_{name}": figures[name] for name in self._columns if name in figures}
                )
                rows.append(row)
            return pd.DataFrame(rows)

        return self._answers(ask)

    def on_test(self, valid_data: Any, test_data: Any, folder: Path) -> list[dict[str, Any]]:
        """Choose on validation data and then read the test data.

        Args:
            valid_data: as in :meth:`on_validation`.
            test_data: another loader.
            folder: of the trial.

        Returns:
            As :meth:`on_validation`, with what the choice gives on the test data, and what the
            same rule would have chosen there (``oracle_...``).
        """

        def ask(scope: str, grid: Sequence[float]) -> pd.DataFrame:
            selection = choose_alpha(
                self.model,
                valid_data,
                test_data,
                alphas=grid,
                epsilon=self.search.epsilon,
                epsilons=self.search.epsilons,
                k=self._k,
                topk=self._topk,
                per_layer=scope == "per_layer",
            )
            selection.save(folder / PROBE_FOLDER if scope == "global" else folder / FOLDER / scope)
            frame = selection.frame
            for name in ("alpha", "oracle_alpha"):
                frame = frame.assign(
                    **{name: [factors_in_text(choice) for choice in _factors(frame[name])]}
                )
            return frame

        return self._answers(ask)

    def _answers(self, ask: Any) -> list[dict[str, Any]]:
        rows = []
        for scope, grid in self._grids().items():
            try:
                frame = ask(scope, grid)
            except UNAVAILABLE as error:
                getLogger().warning("Alpha cannot be asked for: %s", error)
                return []
            frame.insert(0, "scope", scope)
            rows += plain_rows(frame)
        return rows

    def _grids(self) -> dict[str, Sequence[float]]:
        scalable = ScalableResiduals.of(self.model)
        grid = sorted({float(alpha) for alpha in (*self.search.alphas, scalable.neutral_alpha)})
        grids: dict[str, Sequence[float]] = {"global": grid}
        if self.search.per_layer and scalable.n_alpha > 1:
            sizes = {len(per_layer) ** scalable.n_alpha: per_layer for per_layer in (_COARSE, grid)}
            usable = [size for size in sizes if size <= _LARGEST_GRID]
            if usable:
                grids["per_layer"] = sizes[max(usable)]
            else:
                getLogger().warning(
                    "%d layers have too many combinations of alpha: not searched per layer.",
                    scalable.n_alpha,
                )
        return grids

    @property
    def _k(self) -> int:
        return min(10, self.model.n_items - 1)

    @property
    def _topk(self) -> tuple[int, ...]:
        return tuple(sorted({1, self._k, *self.topk}))

    @property
    def _epsilons(self) -> list[float]:
        return sorted({float(value) for value in (*self.search.epsilons, self.search.epsilon)})

    @property
    def _columns(self) -> list[str]:
        names = [f"{name}@{self._k}" for name in ("hit", "ndcg", "recoveryrate", "recoverybase")]
        ratios = ["mixingratio_res_last", "mixingratio_gate_last"]  # a model has one of the two
        return [*names, f"hrli@{min(self._topk)}", *ratios]


def _factors(column: pd.Series) -> list[list[float]]:
    """The factors that a selection writes as one number, or as text with blanks between."""
    return [[float(part) for part in str(cell).split()] for cell in column]


def plain_rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows of plain values, NaN as None, for which JSON has no other word."""
    return json.loads(frame.to_json(orient="records", double_precision=15))


def plain_values(values: Mapping[str, Any] | None) -> dict[str, Any]:
    """The same for the results of an evaluation."""
    return plain_rows(pd.DataFrame([dict(values)]))[0] if values else {}
