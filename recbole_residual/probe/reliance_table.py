"""The suspects side by side: what is left of a model's last-item reliance without each of them.

Reference:
    Kozaki et al. "Residual Dominance as a Structural Account of Last-Item Reliance in Causal
    Self-Attention Recommenders", 2026; Kozaki et al. "Revisiting the Role of Learned Attention
    Weighting in SASRec", SIGIR 2026 (uniform attention).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Callable, ClassVar

import pandas as pd

from recbole_residual.data.perturbation import RANDOM_MODES, check_mode
from recbole_residual.decomposition.stages import stages_of
from recbole_residual.errors import NoAttentionError, NoSwitchError
from recbole_residual.model.switches import uniform_attention, without_position
from recbole_residual.probe.arguments import (
    check_factors,
    check_k,
    check_seeds,
    check_topk,
    several,
)
from recbole_residual.probe.engine.evaluation import Perturbation, evaluate_settings
from recbole_residual.probe.engine.setting import (
    ScalableResiduals,
    Setting,
    current_setting,
    sweep_settings,
)
from recbole_residual.probe.intervals import Columns, Intervals, mean_columns
from recbole_residual.probe.result import ProbeResult
from recbole_residual.probe.shuffles import perturbation
from recbole_residual.probe.source import model_and_data
from recbole_residual.run.session import Source

DEFAULT_ALPHAS = (0.5, 0.3, 0.1, 0.0)
"""Residual factors in the table."""

DEFAULT_MODES = ("shuffle_prefix", "shuffle_all")
"""Perturbations in the table."""

_SWITCHES: dict[str, Callable[[Any], AbstractContextManager]] = {
    "uniform attention": uniform_attention,
    "without position": without_position,
}


@dataclass(frozen=True, repr=False)
class RelianceTable(ProbeResult):
    """One row per condition, all on the same sequences.

    Columns: ``condition``; ``hrli@1``; ``hit@k`` and ``ndcg@k`` at one k (10 by default); the
    mixing ratios by stage over all positions and ``_last``; ``hrli@1_change`` and
    ``ndcg@k_change``, relative to ``original``. Conditions with something random are means over
    seeds.
    """

    name: ClassVar[str] = "reliance"


def reliance(
    source: Source,
    data: Any = None,
    *,
    alphas: Sequence[float] = DEFAULT_ALPHAS,
    modes: Sequence[str] = DEFAULT_MODES,
    seeds: Sequence[int] = (0, 1, 2),
    k: int = 10,
    show_progress: bool = False,
) -> RelianceTable:
    """HRLI@1, mixing ratio and accuracy of a model as it is and with one thing changed at a time.

    What changes: the residual (``alpha``), the learned attention weights (uniform ones instead),
    the position embedding (none), the order of the input (shuffles).

    Args:
        source: a RecBole sequential model with ``data`` beside it; or a session, the folder of a
            run, or a checkpoint.
        data: a RecBole loader for full ranking; by default the session's ``test_data``.
        alphas: residual factors.
        modes: see :func:`~recbole_residual.data.perturbation.perturb`.
        seeds: seeds of the random modes.
        k: the cut-off of accuracy.
        show_progress: show progress bars.

    Returns:
        RelianceTable: conditions that the model does not know are left out, with a note.

    Raises:
        ProbeDataError, HistoryMaskedError, NaNScoreError: as
            :func:`~recbole_residual.probe.sweep_alpha`.
        ValueError: if a mode is unknown or an alpha not usable.
    """
    model, data = model_and_data(source, data)
    now = current_setting(model)
    ks = check_topk(sorted({1, check_k(k)}), model)
    seeds = check_seeds(seeds)
    names: list[str] = [check_mode(mode) for mode in several("modes", modes, "modes")]
    alphas = check_factors("alphas", alphas)
    ask = _Conditions(model, data, ks, show_progress)
    conditions = ask.scaled(now, alphas)
    conditions.update(ask.switched_off(now))
    for mode in names:
        conditions[mode] = ask.perturbed(now, mode, seeds if mode in RANDOM_MODES else [0])
    ratios = [f"mixingratio_{stage}{at}" for at in ("", "_last") for stage in stages_of(model)]
    shown = ["hrli@1", f"hit@{k}", f"ndcg@{k}", *ratios]
    return RelianceTable(
        frame=_table(conditions, k, shown),
        intervals=_intervals(conditions, shown),
        about={
            "model": type(model).__name__,
            "alpha": list(now.alpha),
            "seeds": seeds,
            "k": k,
        },
        notes=ask.notes,
    )


@dataclass(frozen=True)
class _Condition:
    """Figures under one condition, and what each sequence adds to them."""

    figures: dict[str, float]
    columns: Columns


@dataclass
class _Conditions:
    """Evaluates a model under one condition after the other; figures by name of the condition."""

    model: Any
    data: Any
    topk: tuple[int, ...]
    show_progress: bool
    notes: list[str] = field(default_factory=list)

    def scaled(self, now: Setting, alphas: Sequence[float]) -> dict[str, _Condition]:
        """The model as it is, and under residual factors, all in one pass."""
        scalable = ScalableResiduals.of(self.model)
        scaled = sweep_settings(scalable, alphas) if scalable.n_alpha else []
        if not scaled:
            name = type(self.model).__name__
            self.notes.append(f"{name} has no residual to scale: alpha is left out.")
        settings = list(dict.fromkeys([now, *scaled]))
        by_setting = dict(zip(settings, self._figures("alpha", settings)))
        titles = [f"alpha = {alpha:g}" for alpha in alphas]
        return {
            "original": by_setting[now],
            **{title: by_setting[setting] for title, setting in zip(titles, scaled)},
        }

    def switched_off(self, now: Setting) -> dict[str, _Condition]:
        """Without one part of the network at a time."""
        conditions = {}
        for title, switch in _SWITCHES.items():
            try:
                with switch(self.model):
                    conditions[title] = self._figures(title, [now])[0]
            except (NoAttentionError, NoSwitchError) as error:
                self.notes.append(f"{title} is left out: {error}")
        return conditions

    def perturbed(self, now: Setting, mode: str, seeds: Sequence[int]) -> _Condition:
        """On perturbed inputs, means over seeds."""
        runs = [self._figures(mode, [now], perturbation(self.model, mode, s))[0] for s in seeds]
        return _Condition(
            pd.DataFrame([run.figures for run in runs]).mean().to_dict(),
            mean_columns([run.columns for run in runs]),
        )

    def _figures(
        self, title: str, settings: Sequence[Setting], change: Perturbation | None = None
    ) -> list[_Condition]:
        evaluation = evaluate_settings(
            self.model,
            self.data,
            settings,
            self.topk,
            perturbation=change,
            title=title,
            show_progress=self.show_progress,
        )
        self.notes += [note for note in evaluation.notes if note not in self.notes]
        assert evaluation.sequences is not None
        return [
            _Condition(evaluation.counts.metrics(index), evaluation.sequences.columns(index))
            for index in range(len(settings))
        ]


def _table(conditions: dict[str, _Condition], k: int, shown: Sequence[str]) -> pd.DataFrame:
    """One row per condition, and the changes relative to the first."""
    original = conditions["original"].figures
    rows = []
    for title, condition in conditions.items():
        row: dict[str, Any] = {"condition": title}
        row.update({name: condition.figures[name] for name in shown})
        for name in ("hrli@1", f"ndcg@{k}"):
            before = original[name] or float("nan")
            row[f"{name}_change"] = (condition.figures[name] - before) / before
        rows.append(row)
    return pd.DataFrame(rows)


def _intervals(conditions: dict[str, _Condition], shown: Sequence[str]) -> Intervals:
    rows = [
        {name: condition.columns[name] for name in shown if name in condition.columns}
        for condition in conditions.values()
    ]
    return Intervals(pd.DataFrame({"condition": list(conditions)}), rows, reference=0)
