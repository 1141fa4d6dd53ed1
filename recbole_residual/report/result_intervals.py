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

    Args:
        values: the metrics of a split.
        per_user: a row for each of its users; a metric whose mean over users is not the one in the
            result is left out.
    """
    from recbole_residual.probe.uncertainty import bootstrap_means, percentile_interval

    names = [
        key
        for key, value in values.items()
        if not _SHARE.match(key)
        and key in per_user
        and value is not None
        and np.isclose(per_user[key].mean(), value, atol=1e-6)
    ]
    if not names:
        return {}
    low, high = percentile_interval(bootstrap_means(per_user[names].to_numpy(dtype=float)))
    return {name: (float(a), float(b)) for name, a, b in zip(names, low, high)}


def sweep_intervals(sweep: pd.DataFrame | None, alpha: list[float] | None) -> Intervals:
    """Intervals that the sweep over alpha holds of the alpha in force.

    Args:
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
    }
