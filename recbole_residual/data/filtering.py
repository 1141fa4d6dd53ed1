"""Which interactions stay: consecutive repeats and the numbers of interactions, until stable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from recbole_residual.data.intervals import Interval


@dataclass(frozen=True)
class Filtered:
    """What :func:`filter_interactions` leaves.

    Attributes:
        rows: which rows stay, bool [N].
        users: how many rows each user keeps, [n_users].
        items: how many rows each item keeps, [n_items].
        dropped_users: users that were filtered out, bool [n_users].
        dropped_items: items that were filtered out, bool [n_items].
    """

    rows: np.ndarray
    users: np.ndarray
    items: np.ndarray
    dropped_users: np.ndarray
    dropped_items: np.ndarray


def outside(counts: np.ndarray, intervals: Sequence[Interval] | None) -> np.ndarray:
    """Which counts lie in none of the intervals, bool; a count of 0 is never outside.

    Example:
        >>> outside(np.array([0, 4, 5, 9]), [("[", 5.0, float("inf"), ")")]).tolist()
        [False, True, False, False]
    """
    if not intervals:
        return np.zeros(len(counts), dtype=bool)
    inside = np.zeros(len(counts), dtype=bool)
    for opening, left, right, closing in intervals:
        above = counts >= left if opening == "[" else counts > left
        below = counts <= right if closing == "]" else counts < right
        inside |= above & below
    return ~inside & (counts > 0)


def filter_interactions(
    users: np.ndarray,
    items: np.ndarray,
    user_intervals: Sequence[Interval] | None = None,
    item_intervals: Sequence[Interval] | None = None,
    order: np.ndarray | None = None,
) -> Filtered:
    """Drop users and items by their number of interactions, and consecutive repeats.

    Every round drops, from each user's sequence, the items that repeat the item right before them
    (i-i-j becomes i-j, the first stays), then all users and all items whose number of interactions
    lies outside its intervals; rounds go on until nothing changes. Without ``order`` repeats stay,
    and the result is RecBole's k-core filter.

    Args:
        users: user code of every row, from 0, [N].
        items: item code of every row, from 0, [N].
        user_intervals: allowed numbers of interactions of a user, None for any.
        item_intervals: allowed numbers of interactions of an item, None for any.
        order: the rows sorted by user, then time; given to drop consecutive repeats, [N].

    Returns:
        Filtered: what stays, in the order of the input.

    Reference:
        Kozaki et al. "Residual Dominance ...", 2026 (preprocessing of the experiments).

    Example:
        >>> users, items = np.array([0, 0, 0, 1]), np.array([7, 7, 5, 5])
        >>> filter_interactions(users, items, order=np.arange(4)).rows.tolist()
        [True, False, True, True]
    """
    n_users = int(users.max(initial=-1)) + 1
    n_items = int(items.max(initial=-1)) + 1
    alive = np.ones(len(users), dtype=bool)
    dropped_users = np.zeros(n_users, dtype=bool)
    dropped_items = np.zeros(n_items, dtype=bool)
    while True:
        if order is not None:
            order = _without_repeats(users, items, alive, order)
        user_counts = np.bincount(users[alive], minlength=n_users)
        item_counts = np.bincount(items[alive], minlength=n_items)
        bad_users = outside(user_counts, user_intervals)
        bad_items = outside(item_counts, item_intervals)
        if not bad_users.any() and not bad_items.any():
            return Filtered(alive, user_counts, item_counts, dropped_users, dropped_items)
        dropped_users |= bad_users
        dropped_items |= bad_items
        alive &= ~(bad_users[users] | bad_items[items])


def _without_repeats(
    users: np.ndarray, items: np.ndarray, alive: np.ndarray, order: np.ndarray
) -> np.ndarray:
    """Mark consecutive repeats in ``alive`` (in place); return the order of what is left."""
    order = order[alive[order]]
    user, item = users[order], items[order]
    repeats = np.zeros(len(order), dtype=bool)
    repeats[1:] = (user[1:] == user[:-1]) & (item[1:] == item[:-1])
    alive[order[repeats]] = False
    return order[~repeats]
