"""Shuffled and otherwise perturbed inputs: what order and the last item are worth to a model.

Reference:
    Kozaki et al. "Residual Dominance as a Structural Account of Last-Item Reliance in Causal
    Self-Attention Recommenders", 2026 (order-perturbation probes).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any, ClassVar

import pandas as pd

from recbole_residual.data.perturbation import (
    RANDOM_MODES,
    SequenceFields,
    check_mode,
    perturb,
)
from recbole_residual.errors import ProbeError
from recbole_residual.probe.alpha_sweep import DEFAULT_TOPK
from recbole_residual.probe.arguments import check_k, check_seeds, check_topk, several
from recbole_residual.probe.engine.evaluation import Perturbation, evaluate_settings
from recbole_residual.probe.engine.outcome import Evaluation
from recbole_residual.probe.engine.rows import Rows
from recbole_residual.probe.engine.setting import current_setting
from recbole_residual.probe.intervals import Columns, Intervals, mean_columns
from recbole_residual.probe.result import ProbeResult
from recbole_residual.probe.source import model_and_data
from recbole_residual.run.session import Source

DEFAULT_MODES = (
    "original",
    "shuffle_prefix",
    "shuffle_all",
    "reverse",
    "drop_last",
    "random_last",
    "keep_last_1",
    "keep_last_5",
)
"""Every kind of perturbation."""

DEFAULT_SEEDS = (0, 1, 2, 3, 4)
"""Seeds of the modes that are random."""


@dataclass(frozen=True, repr=False)
class ShuffleResult(ProbeResult):
    """One row per mode: mean over seeds, standard deviation, and relative drop from ``original``.

    Columns: ``mode``; ``n_runs``; each metric and its ``..._std`` over seeds; for ``hit`` and
    ``ndcg`` at one k (10 by default) also ``..._drop``, ``(original - perturbed) / original``, and
    ``..._drop_std``. The standard deviation is that of the sample; it is 0 for modes without
    anything random, and NaN for a random mode with one seed.

    Attributes:
        runs: one row per mode and seed, with every metric and the ends of its interval.
    """

    name: ClassVar[str] = "shuffle"

    runs: pd.DataFrame = field(default_factory=pd.DataFrame)

    def short_frame(self) -> pd.DataFrame:
        """The drops, HRLI at the least k, and their spread."""
        shown = [
            name
            for name in self.columns
            if name in ("mode", "n_runs", "hrli@1")
            or "_drop" in name
            or f"{name}_drop" in self.columns
        ]
        return self.frame[shown]

    def tables(self) -> dict[str, pd.DataFrame]:
        """The summary, and the runs behind it."""
        return {**super().tables(), f"{self.name}_runs": self.runs}


def shuffle(
    source: Source,
    data: Any = None,
    modes: Sequence[str] = DEFAULT_MODES,
    seeds: Sequence[int] = DEFAULT_SEEDS,
    *,
    k: int = 10,
    topk: Sequence[int] = DEFAULT_TOPK,
    show_progress: bool = False,
) -> ShuffleResult:
    """Evaluate a model, as it is, on perturbed input sequences.

    Args:
        source: a RecBole sequential model with ``data`` beside it; or a session, the folder of a
            run, or a checkpoint.
        data: a RecBole loader for full ranking; by default the session's ``test_data``.
        modes: see :func:`~recbole_residual.data.perturbation.perturb`; ``original`` is always run.
        seeds: seeds of the random modes.
        k: the cut-off of the relative drops.
        topk: the values of k; ``k`` is one of them.
        show_progress: show a progress bar per run.

    Raises:
        ValueError: for an unknown mode, no seed, or a topk without k.
        ProbeDataError, HistoryMaskedError, NaNScoreError: as
            :func:`~recbole_residual.probe.sweep_alpha`.
    """
    model, data = model_and_data(source, data)
    ks = check_topk(topk, model)
    if check_k(k) not in ks:
        raise ProbeError(f"topk = {list(ks)} must hold k = {k}, at which drops are taken.")
    seeds = check_seeds(seeds)
    asked = [check_mode(mode) for mode in several("modes", modes, "modes")]
    names = list(dict.fromkeys(["original", *asked]))
    setting = current_setting(model)
    runs: list[dict[str, Any]] = []
    by_mode: dict[str, list[Columns]] = {}
    for mode in names:
        for seed in seeds if mode in RANDOM_MODES else [None]:
            evaluation = evaluate_settings(
                model,
                data,
                [setting],
                ks,
                perturbation=perturbation(model, mode, seed or 0),
                title=mode if seed is None else f"{mode}, seed {seed}",
                show_progress=show_progress,
            )
            runs.append({"mode": mode, "seed": seed, **evaluation.counts.metrics(0)})
            by_mode.setdefault(mode, []).append(sequence_columns(evaluation, ks))
    table = pd.DataFrame(runs).drop(columns=_recovery_columns(ks))
    drops = (f"hit@{k}", f"ndcg@{k}")
    return ShuffleResult(
        frame=_summaries(table, names, drops),
        about={
            "model": type(model).__name__,
            "n_sequences": evaluation.counts.n_sequences,
            "topk": list(ks),
            "seeds": list(seeds),
            "alpha": list(setting.alpha),
        },
        notes=[*evaluation.notes, *_notes(names, table.iloc[0], drops)],
        runs=Intervals(table[["mode", "seed"]], list(chain(*by_mode.values()))).beside(table),
        intervals=Intervals(
            pd.DataFrame({"mode": names}), [mean_columns(by_mode[mode]) for mode in names], 0
        ),
    )


def sequence_columns(evaluation: Evaluation, topk: Sequence[int]) -> Columns:
    """What each sequence adds to the figures of one setting; recovery left out, whose base belongs
    to the unchanged input."""
    assert evaluation.sequences is not None
    columns = evaluation.sequences.columns(0)
    return {name: columns[name] for name in columns if name not in _recovery_columns(topk)}


def _notes(modes: Sequence[str], original: pd.Series, drops: Sequence[str]) -> list[str]:
    notes = []
    if "drop_last" in modes:
        notes.append("drop_last leaves sequences of one item as they are.")
    zero = [metric for metric in drops if not original[metric]]
    if zero:
        notes.append(f"{', '.join(zero)} of the original is 0: its relative drop is not defined.")
    return notes


def perturbation(model: Any, mode: str, seed: int) -> Perturbation | None:
    """What :func:`~recbole_residual.probe.engine.evaluation.evaluate_settings` does to its rows."""
    if mode == "original":
        return None
    fields = SequenceFields(model.ITEM_SEQ, model.ITEM_SEQ_LEN, model.n_items)
    return partial(_perturb_rows, mode=mode, seed=seed, fields=fields)


def _perturb_rows(rows: Rows, mode: str, seed: int, fields: SequenceFields) -> Rows:
    changed = perturb(rows.interaction, mode, fields, seed=seed, first_row=rows.first)
    return Rows(changed, rows.target, rows.first)


def _recovery_columns(topk: Sequence[int]) -> list[str]:
    # The recoverable base belongs to the unchanged input.
    return [f"{name}@{k}" for name in ("recoveryrate", "recoverybase") for k in topk]


def _summaries(runs: pd.DataFrame, modes: Sequence[str], drops: Sequence[str]) -> pd.DataFrame:
    original = runs.iloc[0]
    return pd.DataFrame([_summary(runs[runs["mode"] == mode], original, drops) for mode in modes])


def _summary(runs: pd.DataFrame, original: pd.Series, drops: Sequence[str]) -> dict[str, Any]:
    """Mean, spread and relative drop over the runs of one mode."""
    mode = runs["mode"].iloc[0]
    row: dict[str, Any] = {"mode": mode, "n_runs": len(runs)}

    def add(name: str, values: pd.Series) -> None:
        row[name] = values.mean()
        row[f"{name}_std"] = values.std(ddof=1) if mode in RANDOM_MODES else 0.0

    for metric in runs.columns[2:]:
        add(metric, runs[metric])
        if metric in drops:
            before = original[metric] or float("nan")
            add(f"{metric}_drop", (before - runs[metric]) / before)
    return row
