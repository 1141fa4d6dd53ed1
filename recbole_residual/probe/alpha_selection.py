"""Choosing alpha on validation data; the test data is read once, afterwards.

Reference:
    Kozaki et al. "Residual Dominance as a Structural Account of Last-Item Reliance in Causal
    Self-Attention Recommenders", 2026 (validation-based choice of alpha).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Callable, ClassVar, Union

import numpy as np
import pandas as pd
import torch

from recbole_residual.decomposition.stages import stages_of
from recbole_residual.errors import ProbeError
from recbole_residual.probe.alpha_sweep import DEFAULT_TOPK, AlphaSweep, sweep_alpha
from recbole_residual.probe.arguments import check_k, check_share, check_topk, several
from recbole_residual.probe.engine.setting import Setting, factors_in_text
from recbole_residual.probe.result import ProbeResult
from recbole_residual.probe.source import model_and_data
from recbole_residual.run.session import Session, Source

DEFAULT_EPSILONS: tuple[float, ...] = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2)
"""Accuracy that may be given up, as shares of HR@k(1): the curve of the report."""

_ROUNDING = 1e-12

_ENDS = ("_low", "_high")


@dataclass(frozen=True)
class AlphaChoice:
    """The row of a sweep that the rule chooses.

    Attributes:
        row: its number.
        unscaled: number of the row of the unchanged model.
        setting: its residual factors.
        epsilon: share of HR@k(1) that may be given up.
        k: the cut-off of RecoveryRate and HR.
        feasible: which rows of the sweep keep enough accuracy.
        reason: in words, why this one.
        residual: which residuals the sweep scales: ``attention``, ``feed_forward`` or ``both``.
    """

    row: int
    unscaled: int
    setting: Setting
    epsilon: float
    k: int
    feasible: tuple[bool, ...]
    reason: str
    residual: str = "attention"

    @property
    def alpha(self) -> Union[float, list[float]]:
        """The chosen factor of the residuals that the sweep scales: one number if it is the same in
        every layer, else one per layer."""
        return self.factors[0] if len(set(self.factors)) == 1 else list(self.factors)

    @property
    def factors(self) -> tuple[float, ...]:
        """The chosen factors, one per layer: those around attention, or those around the
        feed-forward blocks for a sweep over these alone."""
        feed_forward = self.residual == "feed_forward"
        return self.setting.feed_forward if feed_forward else self.setting.alpha


def select_alpha(valid_sweep: AlphaSweep, epsilon: float = 0.05, k: int = 10) -> AlphaChoice:
    r"""Choose alpha from a sweep on validation data.

    .. math::
        \alpha^* = \arg\max_\alpha \mathrm{RecoveryRate@}k(\alpha)
        \quad\text{subject to}\quad \mathrm{HR@}k(\alpha) \ge (1 - \epsilon)\,\mathrm{HR@}k(1)

    Ties go to the alpha closest to 1 (with one per layer, the least sum of distances), between
    equally close ones to the first of the sweep. If only alpha = 1 is feasible, it is chosen.

    Args:
        valid_sweep: a sweep that holds the unchanged model; of any kind (per layer, feed-forward).
        epsilon: share of HR@k(1) that may be given up, from 0 to below 1.
        k: the cut-off; one of the sweep's.

    Raises:
        ValueError: if the sweep does not hold the unchanged model or k, or epsilon is out of range.
    """
    unscaled = valid_sweep.unscaled
    if unscaled is None:
        raise ProbeError("the sweep does not hold the unchanged model: add alpha = 1 to the grid.")
    if k not in valid_sweep.topk:
        raise ProbeError(f"k = {k} is not in the sweep, whose topk is {list(valid_sweep.topk)}.")
    epsilon = check_share("epsilon", epsilon)
    hit = valid_sweep.frame[f"hit@{k}"].tolist()
    rate = valid_sweep.frame[f"recoveryrate@{k}"].tolist()
    needed = (1 - epsilon) * hit[unscaled] - _ROUNDING
    feasible = tuple(value >= needed for value in hit)

    def preference(row: int) -> tuple[float, float]:
        return (-rate[row], valid_sweep.distance(valid_sweep.settings[row]))

    candidates = [row for row, usable in enumerate(feasible) if usable]
    if math.isnan(rate[unscaled]):
        chosen, reason = unscaled, "no recoverable base on validation: alpha stays as it is"
    elif candidates == [unscaled]:
        chosen, reason = unscaled, "nothing else keeps enough accuracy"
    else:
        chosen = min(candidates, key=preference)
        reason = f"highest RecoveryRate@{k} of {len(candidates)} feasible"
    return AlphaChoice(
        row=chosen,
        unscaled=unscaled,
        setting=valid_sweep.settings[chosen],
        epsilon=epsilon,
        k=k,
        feasible=feasible,
        reason=reason,
        residual=valid_sweep.residual,
    )


@dataclass(frozen=True, repr=False)
class AlphaSelection(ProbeResult):
    """The outcome of :func:`choose_alpha`: one row per epsilon.

    Columns: ``epsilon``; ``alpha`` chosen on validation and its ``valid_...`` and ``test_...``
    figures; ``oracle_alpha``, the same rule applied to the test data, and its ``oracle_...``
    figures, for comparison only; ``unscaled_...``, the test figures of the unchanged model. Behind
    a figure stand the ends of its 95 % interval, ``..._low`` and ``..._high``.

    Attributes:
        choice: the choice at the epsilon asked for.
        valid_sweep: the sweep it was made from.
        test_sweep: the sweep on the test data, read after every choice was made.
        chosen: how often each alpha is chosen over bootstrap samples of the validation sequences:
            columns ``epsilon``, ``alpha``, ``share``, the most frequent first.
    """

    name: ClassVar[str] = "alpha_selection"

    choice: AlphaChoice | None = None
    valid_sweep: AlphaSweep | None = None
    test_sweep: AlphaSweep | None = None
    chosen: pd.DataFrame = field(default_factory=pd.DataFrame)

    def short_frame(self) -> pd.DataFrame:
        """Epsilon, the two alphas, and HR and RecoveryRate of each."""
        metrics = ("hit@", "recoveryrate@")
        shown = [
            name
            for name in self.columns
            if "_" not in name
            or name == "oracle_alpha"
            or (name.partition("_")[2].startswith(metrics) and not name.endswith(_ENDS))
        ]
        return self.frame[shown]

    def tables(self) -> dict[str, pd.DataFrame]:
        """The curve over epsilon, and the two sweeps behind it."""
        tables = super().tables()
        for name, sweep in (("valid", self.valid_sweep), ("test", self.test_sweep)):
            if sweep is not None:
                tables[f"{self.name}_{name}_sweep"] = sweep.with_intervals()
        if len(self.chosen):
            tables[f"{self.name}_bootstrap"] = self.chosen
        return tables


def choose_alpha(
    source: Source,
    valid_data: Any = None,
    test_data: Union[Any, Callable[[], Any]] = None,
    *,
    epsilon: float = 0.05,
    epsilons: Sequence[float] = DEFAULT_EPSILONS,
    k: int = 10,
    **sweep_options: Any,
) -> AlphaSelection:
    """Choose alpha on validation data, then read the test data, once.

    Args:
        source: a RecBole sequential model with its loaders beside it; or a session, the folder of
            a run, or a checkpoint.
        valid_data: a RecBole loader for full ranking; by default the session's.
        test_data: another one, or a function that makes it. It is not touched before the choice.
        epsilon: share of HR@k(1) that may be given up.
        epsilons: further values, for the curve.
        k: the cut-off of the rule.
        sweep_options: those of :func:`~recbole_residual.probe.sweep_alpha`: ``alphas`` (with 1),
            ``topk`` (with k), ``per_layer`` to choose one alpha per layer, ``residual``,
            ``show_progress``.

    Returns:
        AlphaSelection: a row for ``epsilon`` and each of ``epsilons``.

    Raises:
        ProbeError: as :func:`select_alpha` and :func:`~recbole_residual.probe.sweep_alpha`.
    """
    if not isinstance(source, torch.nn.Module):
        source = Session.open(source)  # once for both parts of its data
    model, valid_data = model_and_data(source, valid_data, "valid")
    if test_data is None:
        _, test_data = model_and_data(source)
    topk = check_topk(sweep_options.get("topk", DEFAULT_TOPK), model)
    if check_k(k) not in topk:
        raise ProbeError(f"topk = {list(topk)} must hold k = {k}, at which alpha is chosen.")
    curve = {check_share("epsilons", value) for value in several("epsilons", epsilons, "shares")}
    values = sorted({*curve, check_share("epsilon", epsilon)})
    valid_sweep = sweep_alpha(model, valid_data, **sweep_options)
    choices = [select_alpha(valid_sweep, value, k) for value in values]
    # Every choice is made; only now is the test data read.
    test = test_data() if callable(test_data) else test_data
    test_sweep = sweep_alpha(model, test, **sweep_options)
    oracles = [select_alpha(test_sweep, value, k) for value in values]

    choice = choices[values.index(epsilon)]
    about = {
        **{name: value for name, value in valid_sweep.about.items() if name != "n_sequences"},
        "n_valid_sequences": valid_sweep.about["n_sequences"],
        "n_test_sequences": test_sweep.about["n_sequences"],
        "k": k,
        "epsilon": epsilon,
        "alpha": choice.alpha,
        "reason": choice.reason,
    }
    return AlphaSelection(
        frame=_curve(model, choices, oracles, valid_sweep, test_sweep),
        about=about,
        notes=_notes(valid_sweep, test_sweep),
        choice=choice,
        valid_sweep=valid_sweep,
        test_sweep=test_sweep,
        chosen=choices_over_samples(valid_sweep, values, k),
    )


def choices_over_samples(sweep: AlphaSweep, epsilons: Sequence[float], k: int) -> pd.DataFrame:
    """How often the rule of :func:`select_alpha` chooses each alpha over bootstrap samples.

    Args:
        sweep: on validation data.
        epsilons: the rule is applied with each.
        k: the cut-off.

    Returns:
        Columns ``epsilon``, ``alpha``, ``share``; empty for a sweep that holds no sequences.
    """
    unscaled, feed_forward = sweep.unscaled, sweep.residual == "feed_forward"
    has_base = sweep.intervals is not None and f"recoveryrate@{k}" in sweep.intervals.names
    if unscaled is None or sweep.intervals is None or not has_base:
        return pd.DataFrame()
    hit, rate = (sweep.intervals.samples(f"{name}@{k}") for name in ("hit", "recoveryrate"))
    distance = np.array([sweep.distance(setting) for setting in sweep.settings])
    cells = [_cell(s.feed_forward if feed_forward else s.alpha) for s in sweep.settings]
    order = np.argsort(distance, kind="stable")  # the nearest to 1 first
    rows = []
    for epsilon in epsilons:
        feasible = hit >= (1 - epsilon) * hit[:, unscaled, None] - _ROUNDING
        usable = np.where(feasible & ~np.isnan(rate), rate, -1.0)
        chosen = order[np.argmax(usable[:, order], axis=1)]
        chosen = np.where(np.isnan(rate[:, unscaled]), unscaled, chosen)
        times = np.bincount(chosen, minlength=len(cells))
        for index in np.argsort(-times, kind="stable"):
            if times[index]:
                row = {"epsilon": epsilon, "alpha": cells[index]}
                rows.append({**row, "share": times[index] / len(chosen)})
    return pd.DataFrame(rows)


def _notes(valid_sweep: AlphaSweep, test_sweep: AlphaSweep) -> list[str]:
    notes = [f"Validation: {note}" for note in valid_sweep.notes]
    return notes + [f"Test: {note}" for note in test_sweep.notes if note not in valid_sweep.notes]


def _curve(
    model: Any,
    choices: Sequence[AlphaChoice],
    oracles: Sequence[AlphaChoice],
    valid_sweep: AlphaSweep,
    test_sweep: AlphaSweep,
) -> pd.DataFrame:
    """One row per epsilon: what was chosen, what the oracle chooses, and the figures of both."""
    k = choices[0].k
    columns = [f"{name}@{k}" for name in ("hit", "ndcg", "recoveryrate", "recoverybase")]
    # The stage that alpha moves; a GRU has one stage only.
    stage = "res" if "res" in stages_of(model) else stages_of(model)[0]
    columns += [f"hrli@{min(valid_sweep.topk)}", f"mixingratio_{stage}_last"]
    valid, test = valid_sweep.with_intervals(), test_sweep.with_intervals()
    columns = [
        name + end
        for name in columns
        for end in ("", *_ENDS)
        if name + end in test and name + end in valid
    ]
    unscaled = test_sweep.settings.index(valid_sweep.settings[choices[0].unscaled])
    rows = []
    for choice, oracle in zip(choices, oracles):
        row: dict[str, Any] = {"epsilon": choice.epsilon}
        for name, picked in (("alpha", choice), ("oracle_alpha", oracle)):
            row[name] = _cell(picked.factors)
        for prefix, frame, row_at in (
            ("valid", valid, choice.row),
            ("test", test, choice.row),
            ("oracle", test, oracle.row),
            ("unscaled", test, unscaled),
        ):
            row.update({f"{prefix}_{name}": frame[name].iloc[row_at] for name in columns})
        rows.append(row)
    return pd.DataFrame(rows)


def _cell(factors: Sequence[float]) -> Union[float, str]:
    """Factors in a column of numbers, where there is one number for all layers."""
    if not factors:
        return math.nan
    return factors[0] if len(set(factors)) == 1 else factors_in_text(factors)
