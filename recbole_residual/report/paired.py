"""Whether a metric differs between two configurations, tested across their users."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from recbole_residual.report.record import RunRecord

_PLACES = 12
"""Decimal places of differences: enough for any metric, few enough that 1/3 - 0 and 1 - 2/3 are the
same number, as they are in exact arithmetic."""


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


def paired_test(first: pd.DataFrame, second: pd.DataFrame, metric: str) -> dict[str, Any] | None:
    """Test whether a metric differs between two tables of values per user.

    Differences are rounded to 12 decimal places first, so that users whose differences are equal
    fractions tie.

    Args:
        first, second: one row per user and target.
        metric: a column; users for whom it is not defined in both are left out.

    Returns:
        ``users``, ``mean a``, ``mean b``, ``difference``, ``p (t)``, ``p (Wilcoxon)``; None if a
        table lacks the metric or no user is in both. The p-values are NaN where the difference is
        the same for every user.
    """
    from scipy import stats

    if metric not in first or metric not in second:
        return None
    both = pd.concat([first[metric], second[metric]], axis=1, join="inner").dropna().to_numpy()
    if not len(both):
        return None
    a, b = both.T
    difference = np.round(a - b, _PLACES)
    result: dict[str, Any] = {
        "users": len(both),
        "mean a": float(a.mean()),
        "mean b": float(b.mean()),
        "difference": float((a - b).mean()),
        "p (t)": float("nan"),
        "p (Wilcoxon)": float("nan"),
    }
    if np.ptp(difference) > 0:
        result["p (t)"] = float(stats.ttest_1samp(difference, 0.0).pvalue)
        result["p (Wilcoxon)"] = float(stats.wilcoxon(difference).pvalue)
    return result
