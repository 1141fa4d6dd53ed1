"""Whether a metric differs between two configurations, tested across their users."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from recbole_residual.report.intervals import HIGH, LOW
from recbole_residual.report.record import RunRecord


def values_per_user(group: Sequence[RunRecord]) -> pd.DataFrame | None:
    """Mean over the runs of a configuration, by user and target; None unless all have them."""
    tables = []
    for record in group:
        table = record.per_user()
        if table is None:
            return None
        index = pd.MultiIndex.from_arrays([table.index.astype(str), table["target"].astype(str)])
        tables.append(table.drop(columns=["target"]).set_axis(index))
    return pd.concat(tables).groupby(level=[0, 1]).mean()


def paired_test(first: pd.DataFrame, second: pd.DataFrame, metric: str) -> dict[str, float] | None:
    """Test whether a metric differs between two tables of values per user.

    Args:
        first, second: one row per user and target.
        metric: a column; users for whom it is not defined in both are left out.

    Returns:
        ``users``, ``mean a``, ``mean b``, ``difference`` with its interval, ``p (t)``,
        ``p (Wilcoxon)``; None if a table lacks the metric or no user is in both. The p-values are
        NaN where the difference is the same for every user.
    """
    from recbole_residual.probe import uncertainty

    if metric not in first or metric not in second:
        return None
    both = pd.concat([first[metric], second[metric]], axis=1, join="inner").dropna().to_numpy()
    test = uncertainty.paired_test(both[:, 0], both[:, 1])
    if test is None:
        return None
    return {
        "users": test.n,
        "mean a": test.mean_a,
        "mean b": test.mean_b,
        "difference": test.difference,
        f"difference{LOW}": test.low,
        f"difference{HIGH}": test.high,
        "p (t)": test.p_t,
        "p (Wilcoxon)": test.p_wilcoxon,
    }
