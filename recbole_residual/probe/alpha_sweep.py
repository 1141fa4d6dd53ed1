"""The alpha sweep: what a model does as its residual is scaled, without retraining.

Reference:
    Kozaki et al. "Residual Dominance as a Structural Account of Last-Item Reliance in Causal
    Self-Attention Recommenders", 2026 (residual scaling, recovery).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pandas as pd

from recbole_residual.probe.arguments import check_topk
from recbole_residual.probe.engine.evaluation import evaluate_settings
from recbole_residual.probe.engine.outcome import Evaluation
from recbole_residual.probe.engine.sequence_figures import SequenceFigures
from recbole_residual.probe.engine.setting import (
    DEFAULT_ALPHAS,
    ScalableResiduals,
    Setting,
    current_setting,
    sweep_settings,
)
from recbole_residual.probe.intervals import Columns, Intervals
from recbole_residual.probe.result import ProbeResult
from recbole_residual.probe.source import model_and_data
from recbole_residual.run.session import Source

DEFAULT_TOPK = (1, 5, 10, 20)
"""The values of k."""

_DECIMALS = 12
"""Distances of alphas are compared to this many places; floats hold no 0.1."""


_OUT_OF_REACH = (
    "alpha is out of reach: {} has no attention residual and no added skip. The one row is the "
    "model as it is."
)


@dataclass(frozen=True, repr=False)
class AlphaSweep(ProbeResult):
    """One row per setting of the residual factors.

    Columns ``alpha`` and ``feed_forward`` hold the factor where all layers have the same, with
    per-layer factors there are ``alpha_1``, ``alpha_2``, ... instead. The others are named as in
    this package's evaluation: ``hit@k``, ``ndcg@k``, ``mrr@k``, ``hrli@k``, ``hrl2i@k``,
    ``mixingratio_attn``, ``mixingratio_res``, ``mixingratio_ln`` (``mixingratio_gate`` for
    GRU4RecResidual) and the same with ``_last``, each also by layer (``..._layer_1``),
    ``recoveryrate@k`` and ``recoverybase@k``.

    Attributes:
        settings: the factors of each row.
        neutral_alpha: the alpha of the unchanged model.
        topk: the values of k.
        residual: which residuals are scaled: ``attention``, ``feed_forward`` or ``both``.
    """

    name: ClassVar[str] = "alpha_sweep"

    settings: tuple[Setting, ...] = ()
    neutral_alpha: float = 1.0
    topk: tuple[int, ...] = DEFAULT_TOPK
    residual: str = "attention"

    def short_frame(self) -> pd.DataFrame:
        """The factors and one column of each kind of metric."""
        k = 10 if 10 in self.topk else self.topk[-1]
        factors = [name for name in self.columns if name.startswith(("alpha", "feed_forward"))]
        accuracy = [f"{name}@{k}" for name in ("hit", "ndcg", "recoveryrate", "recoverybase")]
        ratios = [
            name
            for name in self.columns
            if name.startswith("mixingratio") and "_last" not in name and "_layer" not in name
        ]
        shown = [*factors, *accuracy[:2], f"hrli@{min(self.topk)}", *ratios, *accuracy[2:]]
        return self.frame[shown]

    @property
    def unscaled(self) -> int | None:
        """Row of the unchanged model; None if the sweep does not hold it."""
        for row, setting in enumerate(self.settings):
            if self.distance(setting) == 0:
                return row
        return None

    def distance(self, setting: Setting) -> float:
        """How far a setting is from the unchanged model, summed over its factors.

        Rounded to 12 places, so that equal sums of decimals are equal numbers.
        """
        distances = [abs(self.neutral_alpha - alpha) for alpha in setting.alpha]
        distances += [abs(1 - factor) for factor in setting.feed_forward]
        return round(math.fsum(distances), _DECIMALS)


@dataclass(frozen=True, repr=False)
class LayerGrid(AlphaSweep):
    """A sweep over every combination of one alpha per layer."""

    name: ClassVar[str] = "layer_grid"

    def short_frame(self) -> pd.DataFrame:
        """NDCG with the factor of the last layer across and the others down."""
        k = 10 if 10 in self.topk else self.topk[-1]
        factors = [name for name in self.columns if name.startswith("alpha_")]
        factors = factors or [name for name in self.columns if name.startswith("feed_forward_")]
        if not factors:  # one layer
            return super().short_frame()
        *down, across = factors
        metric = f"ndcg@{k}"
        grid = self.frame.pivot(index=down, columns=across, values=metric).reset_index()
        grid.columns = [
            name if name in down else f"{metric}, {across} = {name}" for name in grid.columns
        ]
        return grid


@dataclass(frozen=True, repr=False)
class FeedForwardSweep(AlphaSweep):
    """A sweep that scales the residual around the feed-forward blocks as well, or only that."""

    name: ClassVar[str] = "feed_forward_sweep"


def sweep_alpha(
    source: Source,
    data: Any = None,
    alphas: Sequence[float] = DEFAULT_ALPHAS,
    topk: Sequence[int] = DEFAULT_TOPK,
    *,
    per_layer: bool = False,
    residual: str | None = None,
    show_progress: bool = False,
) -> AlphaSweep:
    """Evaluate a trained model under residual factors, all of them in one pass.

    Every figure is that of a plain evaluation at that alpha: ranks are equal, mixing ratios to
    1e-5, whatever the batch size.

    Args:
        source: a RecBole sequential model with ``data`` beside it; or a session, the folder of a
            run, or a checkpoint.
        data: a RecBole loader for full ranking; by default the session's ``test_data``.
        alphas: the grid.
        topk: the values of k.
        per_layer: every combination of one alpha per layer instead of one for all layers.
        residual: ``attention``, ``feed_forward`` or ``both``; by default what the model's own
            ``alpha`` scales.
        show_progress: show a progress bar.

    Returns:
        AlphaSweep: a row per setting; a model with alpha out of reach (GRU4Rec) has one row, that
        of the model as it is, and a note.

    Raises:
        ProbeDataError: if the loader ranks sampled items only.
        HistoryMaskedError: if the loader takes items of the input out of the ranking.
        NaNScoreError: if a score is NaN.
        ValueError: if the grid is not usable.

    Example:
        >>> sweep_alpha("output/SASRecResidual-ml-100k-...").to_frame()  # doctest: +SKIP
    """
    model, data = model_and_data(source, data)
    ks = check_topk(topk, model)
    scalable = ScalableResiduals.of(model)
    if scalable.n_alpha:
        settings, notes = sweep_settings(scalable, alphas, residual, per_layer), []
    else:
        settings, notes = [current_setting(model)], [_OUT_OF_REACH.format(type(model).__name__)]
    evaluation = evaluate_settings(
        model, data, settings, ks, title="Sweep alpha", show_progress=show_progress
    )
    frame = pd.concat([_factors(settings), _figures(evaluation, len(settings))], axis=1)
    scaled = residual or ("both" if scalable.joint else "attention")
    unscaled = settings.index(scalable.unscaled) if scalable.unscaled in settings else None
    only = _main_figures(ks) if per_layer else None
    return _kind(scaled, per_layer)(
        frame=frame,
        intervals=_intervals(evaluation, settings, only, unscaled),
        about={
            "model": type(model).__name__,
            "residual": scaled,
            "n_sequences": evaluation.counts.n_sequences,
            "topk": list(ks),
        },
        notes=notes + evaluation.notes + base_notes(evaluation),
        settings=tuple(settings),
        neutral_alpha=scalable.neutral_alpha,
        topk=ks,
        residual=scaled,
    )


def _intervals(
    evaluation: Evaluation,
    settings: Sequence[Setting],
    only: set[str] | None,
    unscaled: int | None,
) -> Intervals | None:
    """Those of every figure, or of some at cut-offs and the mixing ratios over all layers."""
    if evaluation.sequences is None:
        return None
    rows = _RowsOfSettings(evaluation.sequences, len(settings), only)
    return Intervals(_factors(settings), rows, unscaled)


@dataclass(frozen=True)
class _RowsOfSettings:
    """What sequences add under each setting, made when it is asked for: a grid has many."""

    sequences: SequenceFigures
    n_settings: int
    only: set[str] | None

    def __len__(self) -> int:
        return self.n_settings

    def __getitem__(self, row: int, /) -> Columns:
        columns = self.sequences.columns(row)
        if self.only is None:
            return columns
        return {
            name: column
            for name, column in columns.items()
            if name in self.only or ("@" not in name and "_layer_" not in name)
        }


def _main_figures(topk: Sequence[int]) -> set[str]:
    """A grid is long: what its intervals are about."""
    k = 10 if 10 in topk else topk[-1]
    return {f"hit@{k}", f"ndcg@{k}", f"recoveryrate@{k}", f"hrli@{min(topk)}"}


def _kind(residual: str, per_layer: bool) -> type[AlphaSweep]:
    if per_layer:
        return LayerGrid
    return AlphaSweep if residual == "attention" else FeedForwardSweep


def base_notes(evaluation: Evaluation) -> list[str]:
    """A note for every k whose recoverable base is empty."""
    counts = evaluation.counts
    figures = counts.metrics(0)
    empty = [k for k in counts.topk if not figures[f"recoverybase@{k}"]]
    if not empty or not counts.reads_positions:
        return []
    listed = ", ".join(str(k) for k in empty)
    return [f"The recoverable base is empty for k = {listed}: RecoveryRate is not defined there."]


def _figures(evaluation: Evaluation, n_settings: int) -> pd.DataFrame:
    return pd.DataFrame([evaluation.counts.metrics(index) for index in range(n_settings)])


def _factors(settings: Sequence[Setting]) -> pd.DataFrame:
    """The columns that say what a row is."""
    columns: dict[str, list[float]] = {}
    for name in ("alpha", "feed_forward"):
        factors = [getattr(setting, name) for setting in settings]
        if not factors[0]:
            continue
        if all(len(set(of_row)) == 1 for of_row in factors):
            columns[name] = [of_row[0] for of_row in factors]
        else:
            for layer, of_layer in enumerate(zip(*factors), start=1):
                columns[f"{name}_{layer}"] = list(of_layer)
    return pd.DataFrame(columns, index=range(len(settings)))
