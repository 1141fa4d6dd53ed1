"""What is computed of a set for the claims of the papers."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from recbole_residual.errors import ConfigError
from recbole_residual.probe.uncertainty import paired_test
from recbole_residual.report.measured import Measured, cell
from recbole_residual.study.row import Row
from recbole_residual.study.sets import LEARNED, UNIFORM, Set

EPSILON = 0.05
"""Of HR@10, which may be given up where one choice of alpha is spoken of."""

NOTHING = Measured(math.nan)


def metric(name: str, of: str = "test") -> Callable[[Row], Measured]:
    """What reads a metric of a row."""
    return lambda row: Measured(row.value(name, of), *row.interval(name, of))


def drop(mode: str, name: str = "ndcg@10_drop") -> Callable[[Row], Measured]:
    """What reads the share of accuracy that a perturbation costs."""

    def read(row: Row) -> Measured:
        frame = row.table("shuffle")
        if frame is None or mode not in set(frame["mode"]):
            return NOTHING
        return cell(frame, list(frame["mode"]).index(mode), name)

    return read


def ratio(stage: str, position: str = "all") -> Callable[[Row], Measured]:
    """What reads the mixing ratio of a stage, the mean over layers.

    Args:
        stage: ``attn``, ``res``, ``ln`` or ``gate``.
        position: ``all``, ``last``, ``last-1`` or ``last-2``.
    """

    def read(row: Row) -> Measured:
        frame = row.table("internals")
        if frame is None:
            return NOTHING
        of = (frame["stage"] == stage) & (frame["position"] == position) & (frame["layer"] == "all")
        if not of.any():
            return NOTHING
        suffix = {"all": "", "last": "_last"}.get(position)
        ends = (math.nan, math.nan)
        if suffix is not None:
            ends = row.interval(f"mixingratio_{stage}{suffix}")
        return Measured(float(frame.loc[of, "mean"].iloc[0]), *ends)

    return read


def at_alpha(alpha: float, name: str) -> Callable[[Row], Measured]:
    """What reads a column of the alpha sweep at one alpha."""

    def read(row: Row) -> Measured:
        frame = row.table("alpha_sweep")
        if frame is None or name not in frame:
            return NOTHING
        near = np.flatnonzero(np.isclose(frame["alpha"].astype(float), alpha))
        return cell(frame, int(near[0]), name) if len(near) else NOTHING

    return read


def selection(name: str, epsilon: float = EPSILON) -> Callable[[Row], Measured]:
    """What reads a column of the choice of alpha at one epsilon."""

    def read(row: Row) -> Measured:
        frame = row.table("alpha_selection")
        if frame is None or name not in frame:
            return NOTHING
        near = np.flatnonzero(np.isclose(frame["epsilon"].astype(float), epsilon))
        return cell(frame, int(near[0]), name) if len(near) else NOTHING

    return read


def _of_learned(read: Callable[[Row], Measured]) -> Callable[[Set], Measured]:
    return lambda one: one.measured(read)


def _hrli_minus_hit(row: Row) -> Measured:
    """The ends are those that the two intervals allow at worst."""
    hrli, hit = metric("hrli@1")(row), metric("hit@1")(row)
    return Measured(hrli.value - hit.value, hrli.low - hit.high, hrli.high - hit.low)


def _ln_minus_res(row: Row) -> Measured:
    return Measured(abs(ratio("ln")(row).value - ratio("res")(row).value))


def _position_spread(row: Row) -> Measured:
    if row.predicts_at_mask:
        return NOTHING
    values = [ratio("res", position)(row).value for position in ("last", "last-1", "last-2")]
    return Measured(max(values) - min(values))


def _correlation(name: str) -> Callable[[Row], Measured]:
    def read(row: Row) -> Measured:
        frame = row.table("alpha_sweep")
        if frame is None or name not in frame or frame[name].nunique() < 2:
            return NOTHING
        return Measured(float(frame["alpha"].astype(float).rank().corr(frame[name].rank())))

    return read


def _recovery(row: Row) -> Measured:
    figures = [at_alpha(alpha, "recoveryrate@10")(row) for alpha in (0.1, 0.2, 0.3)]
    return max((one for one in figures if one.known), key=lambda one: one.value, default=NOTHING)


def _oracle_minus_choice(row: Row) -> Measured:
    name = "recoveryrate@10"
    return Measured(selection(f"oracle_{name}")(row).value - selection(f"test_{name}")(row).value)


def uniform_loss(one: Set) -> Measured:
    """The share of NDCG@10 that uniform attention loses, paired by test sequence, over the seeds
    that both have; the figure of learned attention is taken as it is."""
    learned = {row.cell.seed: row.ndcg10 for row in one.models.get(LEARNED, ())}
    uniform = {row.cell.seed: row.ndcg10 for row in one.models.get(UNIFORM, ())}
    seeds = sorted(learned.keys() & uniform.keys())
    if not seeds:
        return NOTHING
    if len({len(ranks) for ranks in (*learned.values(), *uniform.values())}) > 1:
        raise ConfigError(
            f"rows of {one.label} were measured on different test data, and cannot be compared "
            "sequence by sequence: measure those of one data file."
        )
    first = np.mean([learned[seed] for seed in seeds], axis=0)
    second = np.mean([uniform[seed] for seed in seeds], axis=0)
    test = paired_test(first, second)
    if test is None or not test.mean_a:
        return NOTHING
    return Measured(*(end / test.mean_a for end in (test.difference, test.low, test.high)))


MEASURES: dict[str, Callable[[Set], Measured]] = {
    "hrli_minus_hit": _of_learned(_hrli_minus_hit),
    "prefix_drop": _of_learned(drop("shuffle_prefix")),
    "all_drop": _of_learned(drop("shuffle_all")),
    "mixing_attn": _of_learned(ratio("attn")),
    "mixing_res": _of_learned(ratio("res")),
    "ln_minus_res": _of_learned(_ln_minus_res),
    "position_spread": _of_learned(_position_spread),
    "alpha_mixing": _of_learned(_correlation("mixingratio_res")),
    "alpha_hrli": _of_learned(_correlation("hrli@1")),
    "recovery": _of_learned(_recovery),
    "oracle_minus_choice": _of_learned(_oracle_minus_choice),
    "uniform_loss": uniform_loss,
}
"""By the name that claims.yaml gives them."""
