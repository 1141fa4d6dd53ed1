"""What a rank of the target is worth: Hit, NDCG and MRR, the one place where they are defined."""

from __future__ import annotations

import numpy as np

RANK_METRICS = ("hit", "ndcg", "mrr")
"""The metrics that are a function of one target's rank, by RecBole's names."""


def rank_gains(ranks: np.ndarray) -> dict[str, np.ndarray]:
    """The gain of one relevant item at each rank, before any cut-off.

    Args:
        ranks: from 1, of any shape.

    Returns:
        For each of :data:`RANK_METRICS` an array of that shape: 1, ``1 / log2(rank + 1)`` and
        ``1 / rank``. The metric at k is the gain where the rank is at most k, else 0.

    Example:
        >>> {name: gain.round(3).tolist() for name, gain in rank_gains(np.array([1, 3])).items()}
        {'hit': [1.0, 1.0], 'ndcg': [1.0, 0.5], 'mrr': [1.0, 0.333]}
    """
    ranks = np.asarray(ranks, dtype=float)
    return dict(zip(RANK_METRICS, (np.ones_like(ranks), 1 / np.log2(ranks + 1), 1 / ranks)))
