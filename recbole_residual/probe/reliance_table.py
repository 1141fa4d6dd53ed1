"""The suspects side by side: what is left of a model's last-item reliance without each of them.

Reference:
    Kozaki et al. "Residual Dominance as a Structural Account of Last-Item Reliance in Causal
    Self-Attention Recommenders", 2026; Kozaki et al. "Revisiting the Role of Learned Attention
    Weighting in SASRec", SIGIR 2026 (uniform attention).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Callable, ClassVar

import pandas as pd

from recbole_residual.data.perturbation import RANDOM_MODES, check_mode
from recbole_residual.decomposition.stages import stages_of
from recbole_residual.errors import NoAttentionError, NoSwitchError
from recbole_residual.model.switches import uniform_attention, without_position
from recbole_residual.probe.arguments import check_k, check_seeds, check_topk, several
from recbole_residual.probe.engine.evaluation import evaluate_settings
from recbole_residual.probe.engine.setting import ScalableResiduals, current_setting, sweep_settings
from recbole_residual.probe.result import ProbeResult
from recbole_residual.probe.shuffles import perturbation

DEFAULT_ALPHAS = (0.5, 0.3, 0.1, 0.0)
"""Residual factors in the table."""

DEFAULT_MODES = ("shuffle_prefix", "shuffle_all")
"""Perturbations in the table."""

_SWITCHES: dict[str, Callable[[Any], AbstractContextManager]] = {
    "uniform attention": uniform_attention,
    "without position": without_position,
}


@dataclass(frozen=True)
class RelianceTable(ProbeResult):
    """One row per condition, all on the same sequences.

    Columns: ``condition``; ``hrli@1``; ``hit@k`` and ``ndcg@k`` at one k (10 by default); the
    mixing ratios by stage over all positions and ``_last``; ``hrli@1_change`` and
    ``ndcg@k_change``, relative to ``original``. Conditions with something random are means over
    seeds.
    """

    name: ClassVar[str] = "reliance"


def reliance(
    model: Any,
    data: Any,
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
        model: a RecBole sequential model.
        data: a RecBole loader for full ranking.
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
    scalable, now = ScalableResiduals.of(model), current_setting(model)
    ks = check_topk(sorted({1, check_k(k, model)}), model)
    seeds = check_seeds(seeds)
    names: list[str] = [check_mode(mode) for mode in several("modes", modes, "modes")]
    notes: list[str] = []

    def figures(title: str, settings: Sequence[Any], mode: str = "original", seed: int = 0) -> Any:
        evaluation = evaluate_settings(
            model,
            data,
            settings,
            ks,
            perturbation=perturbation(model, mode, seed),
            title=title,
            show_progress=show_progress,
        )
        notes.extend(note for note in evaluation.notes if note not in notes)
        return [evaluation.counts.metrics(index) for index in range(len(settings))]

    scaled = sweep_settings(scalable, alphas) if scalable.n_alpha else []
    if not scaled:
        notes.append(f"{type(model).__name__} has no residual to scale: alpha is left out.")
    settings = list(dict.fromkeys([now, *scaled]))
    by_setting = dict(zip(settings, figures("alpha", settings)))
    conditions = {"original": by_setting[now]}
    conditions.update({f"alpha = {alpha:g}": by_setting[at] for alpha, at in zip(alphas, scaled)})
    for title, switch in _SWITCHES.items():
        try:
            with switch(model):
                conditions[title] = figures(title, [now])[0]
        except (NoAttentionError, NoSwitchError) as error:
            notes.append(f"{title} is left out: {error}")
    for mode in names:
        runs = [
            figures(mode, [now], mode, seed)[0]
            for seed in (seeds if mode in RANDOM_MODES else (0,))
        ]
        conditions[mode] = pd.DataFrame(runs).mean().to_dict()
    original = conditions["original"]
    ratios = [f"mixingratio_{stage}{at}" for at in ("", "_last") for stage in stages_of(model)]
    columns = ["hrli@1", f"hit@{k}", f"ndcg@{k}", *ratios]
    rows = []
    for condition, values in conditions.items():
        row: dict[str, Any] = {"condition": condition}
        row.update({name: values[name] for name in columns})
        for name in ("hrli@1", f"ndcg@{k}"):
            before = original[name] or float("nan")
            row[f"{name}_change"] = (values[name] - before) / before
        rows.append(row)
    return RelianceTable(
        frame=pd.DataFrame(rows),
        about={
            "model": type(model).__name__,
            "alpha": list(now.alpha),
            "seeds": list(seeds),
            "k": k,
        },
        notes=notes,
    )
