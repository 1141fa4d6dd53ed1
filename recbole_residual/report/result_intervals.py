"""95 % intervals of the metrics in a run's result."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from recbole_residual.report.intervals import HIGH, LOW, has_interval, share_interval

Intervals = dict[str, tuple[float, float]]
"""By the key of the metric, as in the result: the ends."""

_SHARE = re.compile(r"(hit|recall|hrli|hrl2i)@\d+$")


def share_intervals(values: dict[str, float], n_sequences: int, left_out: dict) -> Intervals:
    """Wilson's intervals of the shares in a result.

    Args:
        values: the metrics of a split.
        n_sequences: how many sequences it has.
        left_out: how many of them have no HRLI, no HRL2I.
    """
    intervals = {}
    for key, value in values.items():
        if _SHARE.match(key) and value is not None:
            n = n_sequences - left_out.get(key.partition("@")[0], 0)
            low, high = share_interval(value, n)
            intervals[key] = (float(low), float(high))
    return intervals


def mean_intervals(values: dict[str, float], per_user: pd.DataFrame) -> Intervals:
    """Bootstrap intervals of the other metrics, from the values of every user.

    A user counts once (NDCG, MRR, a ratio at the last position) or by the length of the sequence
    (a ratio over all positions): whichever gives the figure of the result.

    Args:
        values: the metrics of a split.
        per_user: a row for each of its users; a metric whose mean over them is not the figure in
            the result is left out.
    """
    from recbole_residual.probe.uncertainty import bootstrap_means, percentile_interval

    weights = [np.ones(len(per_user))]
    if "sequence_length" in per_user:
        weights.append(per_user["sequence_length"].to_numpy(dtype=float))
    columns: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    for key, value in values.items():
        if not _SHARE.match(key) and key in per_user and value is not None:
            column = per_user[key].to_numpy(dtype=float)
            for weight in weights:
                defined = np.where(np.isnan(column), np.nan, weight)
                if np.isclose(np.nansum(column * weight) / np.nansum(defined), value, rtol=1e-6):
                    columns[key] = (column * weight, weight)
                    break
    if not columns:
        return {}
    sums, counts = (np.stack(arrays, axis=1) for arrays in zip(*columns.values()))
    low, high = percentile_interval(bootstrap_means(sums, counts))
    return {name: (float(a), float(b)) for name, a, b in zip(columns, low, high)}


def sweep_intervals(
    values: dict[str, float], sweep: pd.DataFrame | None, alpha: list[float] | None
) -> Intervals:
    """Intervals that the sweep over alpha holds of the alpha in force.

    Args:
        values: the metrics of a split; one that the sweep has otherwise is left out.
        sweep: of the same data; None if it was not run.
        alpha: in force, by layer.
    """
    if sweep is None or "alpha" not in sweep or not alpha or len(set(alpha)) > 1:
        return {}
    row = sweep[sweep["alpha"] == alpha[0]]
    if row.empty:
        return {}
    return {
        name: (float(row[name + LOW].iloc[0]), float(row[name + HIGH].iloc[0]))
        for name in map(str, sweep)
        if has_interval(sweep, name)
        and values.get(name) is not None
        and np.isclose(row[name].iloc[0], values[name], rtol=1e-3)
    }
