"""Who is in training, validation and test: positions of targets in the flat sequences.

Reference:
    Kozaki et al. "Residual Dominance as a Structural Account of Last-Item Reliance in Causal
    Self-Attention Recommenders", 2026 (global temporal split, last item as target).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from recbole_residual.errors import DataError


@dataclass(frozen=True)
class TemporalSplit:
    """Targets of a global temporal split, as positions in the flat sequences, ascending.

    Attributes:
        train: every interaction in the training part but each user's first.
        valid: the last interaction of each validation user; empty without a validation cut.
        test: the last interaction of each test user.
        test_cut: T, the time after which everything belongs to the test part.
        valid_cut: the same inside the training part; NaN without a validation cut.
    """

    train: np.ndarray
    valid: np.ndarray
    test: np.ndarray
    test_cut: float
    valid_cut: float


def check_quantiles(value: object) -> list[float]:
    """The quantiles of ``split: {GT: [test, validation]}``; the second may be left out.

    Raises:
        ValueError: if it is no list of one or two numbers between 0 and 1.
    """
    if (
        not isinstance(value, (list, tuple))
        or len(value) not in (1, 2)
        or not all(isinstance(q, float) and 0 < q < 1 for q in value)
    ):
        raise DataError(
            f"eval_args: split: {{GT: {value!r}}} is not usable: give the quantile of the test cut "
            "and that of the validation cut inside the training part, each between 0 and 1, e.g. "
            "{GT: [0.9, 0.9]}; {GT: [0.9]} keeps no validation part."
        )
    return list(value)


def temporal_split(
    first: np.ndarray, time: np.ndarray, quantiles: Sequence[float]
) -> TemporalSplit:
    """The global temporal split with the last item as target.

    With T the quantile of all times: training has the interactions at or before T of users whose
    second interaction is at or before T; test users are those whose last interaction is after T
    and who have at least two; their target is the last item, their input all before it. The
    validation part is cut out of the training part in the same way, at its own quantile.

    Args:
        first: position of the same user's first interaction, [N], users one after the other.
        time: time of each interaction, ascending within a user, float64 [N].
        quantiles: that of the test cut, and that of the validation cut if there is one.

    Returns:
        TemporalSplit: positions of the targets.
    """
    position = np.arange(len(first))
    is_target = position != first
    is_last = np.append(first[1:] != first[:-1], True)

    test_cut = float(np.quantile(time, quantiles[0]))
    train = is_target & (time <= test_cut)
    test = is_target & is_last & (time > test_cut)
    if len(quantiles) == 1:
        none = np.zeros(0, dtype=np.int64)
        return TemporalSplit(
            np.flatnonzero(train), none, np.flatnonzero(test), test_cut, float("nan")
        )

    # a user's first interaction is in the training part if the second one is
    in_part = train.copy()
    in_part[:-1] |= train[1:] & ~is_target[:-1]
    if not in_part.any():
        raise DataError(
            "The global temporal split leaves no user with two interactions for training; choose "
            "larger quantiles in eval_args: split: {GT: [test, validation]}."
        )
    valid_cut = float(np.quantile(time[in_part], quantiles[1]))
    last_in_part = train & np.append(~train[1:], True)
    valid = last_in_part & (time > valid_cut)
    return TemporalSplit(
        np.flatnonzero(train & (time <= valid_cut)),
        np.flatnonzero(valid),
        np.flatnonzero(test),
        test_cut,
        valid_cut,
    )


def group_rows(keys: np.ndarray) -> list[np.ndarray]:
    """Rows with equal keys, groups in order of first appearance, rows in their own order.

    Example:
        >>> [group.tolist() for group in group_rows(np.array([5, 3, 5]))]
        [[0, 2], [1]]
    """
    if len(keys) == 0:
        return []
    rows = np.argsort(keys, kind="stable")
    starts = np.flatnonzero(np.append(True, keys[rows][1:] != keys[rows][:-1]))
    groups = np.split(rows, starts[1:])
    return [groups[i] for i in np.argsort(rows[starts])]


def leave_last_out(groups: Sequence[np.ndarray], parts: int) -> list[np.ndarray]:
    """RecBole's leave-one-out: each group's last rows, one to each of the last parts.

    A group of n rows gives at most n - 1 of them away, the last row to the last part.

    Args:
        groups: rows of each user in order of time.
        parts: number of parts that get one row of each user.

    Returns:
        ``parts + 1`` arrays of rows, the training rows first, groups in their order.
    """
    if len(groups) == 0:
        return [np.zeros(0, dtype=np.int64) for _ in range(parts + 1)]
    sizes = np.array([len(group) for group in groups])
    rows = np.concatenate(groups)
    ends = np.repeat(np.cumsum(sizes), sizes)
    from_end = ends - 1 - np.arange(len(rows))
    n_given_away = np.repeat(np.minimum(parts, sizes - 1), sizes)
    part = np.where(from_end < n_given_away, parts - from_end, 0)
    return [rows[part == i] for i in range(parts + 1)]
