"""The tables of the faithfulness probe, with intervals over sequences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from recbole_residual.evaluator.gains import rank_gains
from recbole_residual.probe.engine.ablation_run import SCORED, Ablated
from recbole_residual.probe.rank_correlation import rank_correlation
from recbole_residual.probe.uncertainty import bootstrap_means, percentile_interval


def mean_and_interval(columns: dict[str, np.ndarray]) -> dict[str, float]:
    """Means over sequences, and the ends of their 95 % intervals, in one bootstrap.

    Args:
        columns: a value for each sequence, NaN where it has none, [n] each.

    Returns:
        ``name``, ``name_low`` and ``name_high`` for every column.
    """
    values = np.stack(list(columns.values()), axis=1)
    low, high = percentile_interval(bootstrap_means(values))
    row: dict[str, float] = {}
    for index, name in enumerate(columns):
        defined = values[~np.isnan(values[:, index]), index]
        row[name] = float(defined.mean()) if len(defined) else float("nan")
        row[f"{name}_low"], row[f"{name}_high"] = float(low[index]), float(high[index])
    return row


def agreement(found: Ablated) -> pd.DataFrame:
    """One row per attribution: correlations with every ablation, and areas under the curves."""
    rows = []
    for name, parts in found.attributions.items():
        values = np.concatenate(parts)
        columns, counts = {}, {}
        for ablation, falls in found.explained_fall.items():
            correlation = rank_correlation(values, np.concatenate(falls))
            columns[f"correlation_{ablation}"] = correlation
            counts[f"n_sequences_{ablation}"] = int((~np.isnan(correlation)).sum())
        for kind, table in (("deletion", found.deletion), ("insertion", found.insertion)):
            columns[f"{kind}_area"] = area(np.concatenate(table[name]))
        rows.append({"attribution": name, **mean_and_interval(columns), **counts})
    return pd.DataFrame(rows)


def area(curve: np.ndarray) -> np.ndarray:
    """Area under curves over the share of changed items, from 0 to 1, by trapezoids.

    Args:
        curve: [n, T + 1].

    Example:
        >>> area(np.array([[0.0, 1.0, 1.0]])).tolist()
        [0.75]
    """
    return (curve[:, :-1] + curve[:, 1:]).sum(axis=1) / (2 * (curve.shape[1] - 1))


def curves(found: Ablated) -> pd.DataFrame:
    """One row per attribution and number of changed items."""
    rows: list[dict[str, Any]] = []
    for name in found.deletion:
        deletion, insertion = (
            np.concatenate(table[name]) for table in (found.deletion, found.insertion)
        )
        for n_items in range(deletion.shape[1]):
            columns = {"deletion": deletion[:, n_items], "insertion": insertion[:, n_items]}
            rows.append({"attribution": name, "n_items": n_items, **mean_and_interval(columns)})
    return pd.DataFrame(rows)


def reliance_curve(found: Ablated, alpha: str, k: int) -> pd.DataFrame:
    """One row per ablation and distance from the end.

    Args:
        found: what was found under one setting.
        alpha: its residual factors, in words.
        k: the cut-off of NDCG.
    """
    ranks, scale = np.concatenate(found.ranks), np.concatenate(found.scale)
    before = _ndcg(ranks[:, 0], k)
    rows: list[dict[str, Any]] = []
    for ablation in found.new_ranks:
        new_ranks, falls, log_falls = (
            np.concatenate(table[ablation])
            for table in (found.new_ranks, found.score_fall, found.log_probability_fall)
        )
        for offset in range(new_ranks.shape[1]):
            taken_out = ~np.isnan(log_falls[:, offset])
            columns = {
                f"ndcg@{k}_fall": before - _ndcg(new_ranks[:, offset, 0], k),
                "log_probability_fall": log_falls[:, offset],
            }
            for column, name in enumerate(SCORED):
                columns[f"score_fall_{name}"] = falls[:, offset, column] / scale
                columns[f"rank_change_{name}"] = new_ranks[:, offset, column] - ranks[:, column]
            n_sequences = int(taken_out.sum())
            rows.append(
                {
                    "alpha": alpha,
                    "ablation": ablation,
                    "from_end": offset,
                    "n_sequences": n_sequences,
                    f"ndcg@{k}": before[taken_out].mean() if n_sequences else float("nan"),
                    **mean_and_interval(columns),
                }
            )
    return pd.DataFrame(rows)


def _ndcg(ranks: np.ndarray, k: int) -> np.ndarray:
    """NaN where there is no rank."""
    gain = np.where(ranks <= k, rank_gains(np.where(np.isnan(ranks), 1, ranks))["ndcg"], 0.0)
    return np.where(np.isnan(ranks), np.nan, gain)
