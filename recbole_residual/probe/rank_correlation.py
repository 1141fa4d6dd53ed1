"""Rank correlation within sequences, many of them at once."""

from __future__ import annotations

import numpy as np


def average_ranks(values: np.ndarray) -> np.ndarray:
    """Ranks within each row, from 1, equal values sharing their mean rank; NaN has none.

    Example:
        >>> average_ranks(np.array([[0.5, 0.1, 0.5, np.nan]])).tolist()
        [[2.5, 1.0, 2.5, nan]]
    """
    lower = (values[:, None, :] < values[:, :, None]).sum(axis=2)
    equal = (values[:, None, :] == values[:, :, None]).sum(axis=2)
    return np.where(np.isnan(values), np.nan, lower + (equal + 1) / 2)


def rank_correlation(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Spearman's rank correlation of each row.

    Args:
        first, second: [n, T]; a place that is NaN in one of them is left out.

    Returns:
        numpy.ndarray: NaN for a row with fewer than three places, or with all values of one side
        equal, [n].

    Example:
        >>> rank_correlation(np.array([[1.0, 2.0, 3.0]]), np.array([[0.1, 0.7, 0.5]])).tolist()
        [0.5]
    """
    both = ~(np.isnan(first) | np.isnan(second))
    ranks = [average_ranks(np.where(both, values, np.nan)) for values in (first, second)]
    n_places = both.sum(axis=1)
    centre = (n_places[:, None] + 1) / 2
    a, b = (np.where(both, of_side - centre, 0.0) for of_side in ranks)
    size = np.sqrt((a * a).sum(axis=1) * (b * b).sum(axis=1))
    usable = (n_places >= 3) & (size > 0)
    return np.where(usable, (a * b).sum(axis=1) / np.where(usable, size, 1.0), np.nan)
