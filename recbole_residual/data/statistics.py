"""What a dataset and its split hold, in numbers to print, save and compare with the papers."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd

from recbole_residual.errors import DataError

SECONDS_PER_DAY = 86_400


@dataclass(frozen=True)
class DatasetStatistics:
    """A dataset after preprocessing.

    Attributes:
        users: users with an interaction.
        items: items with an interaction.
        interactions: number of interactions.
        avg_length: interactions per user.
        density: share of user-item pairs that an interaction fills, interactions / (users * items).
        days: days between the first and the last interaction, for times in seconds; NaN if the
            dataset has no time.
    """

    users: int
    items: int
    interactions: int
    avg_length: float
    density: float
    days: float

    def to_dict(self) -> dict[str, float]:
        return asdict(self)

    def __str__(self) -> str:
        days = "" if np.isnan(self.days) else f", {self.days:,.0f} days"
        return (
            f"{self.users:,} users, {self.items:,} items, {self.interactions:,} interactions, "
            f"average length {self.avg_length:.1f}, density {self.density:.2%}{days}"
        )


def count_statistics(
    users: np.ndarray, items: np.ndarray, time: np.ndarray | None = None
) -> DatasetStatistics:
    """Statistics of interactions given as arrays of equal length.

    Args:
        users: user id of each interaction, non-negative integers, [N].
        items: item id of each interaction, [N].
        time: its time in seconds, [N].
    """
    n_users = int(np.count_nonzero(np.bincount(users)))
    n_items = int(np.count_nonzero(np.bincount(items)))
    days = float(np.ptp(time)) / SECONDS_PER_DAY if time is not None else float("nan")
    return DatasetStatistics(
        users=n_users,
        items=n_items,
        interactions=len(users),
        avg_length=len(users) / n_users,
        density=len(users) / (n_users * n_items),
        days=days,
    )


def dataset_statistics(dataset: Any) -> DatasetStatistics:
    """Statistics of a RecBole dataset after preprocessing, before it is split.

    Args:
        dataset: what ``create_dataset`` gives, ours or RecBole's.

    Raises:
        ValueError: if RecBole has already turned the interactions of its own dataset into rows.
    """
    if hasattr(dataset, "statistics"):
        return dataset.statistics
    feat = dataset.inter_feat
    if not isinstance(feat, pd.DataFrame):
        raise DataError("Ask for the statistics before data_preparation splits the dataset.")
    # RecBole may have normalised its times: they no longer say how many days there are
    return count_statistics(feat[dataset.uid_field].to_numpy(), feat[dataset.iid_field].to_numpy())


@dataclass(frozen=True)
class SplitStatistics:
    """Who and what is in each part of a split.

    Attributes:
        train_users: users with a training target.
        train_targets: interactions that training predicts.
        valid_users: users that are evaluated for validation.
        valid_cold_targets: of their targets, those whose item no training sequence holds. They
            stay in and count as misses.
        test_users: users that are evaluated for the test.
        test_cold_targets: the same for the test.
    """

    train_users: int
    train_targets: int
    valid_users: int
    valid_cold_targets: int
    test_users: int
    test_cold_targets: int

    def to_dict(self) -> dict[str, int]:
        return asdict(self)

    def __str__(self) -> str:
        return (
            f"train {self.train_users:,} users, {self.train_targets:,} targets; validation "
            f"{self.valid_users:,} users ({self.valid_cold_targets:,} cold targets); test "
            f"{self.test_users:,} users ({self.test_cold_targets:,} cold targets)"
        )


def split_statistics(train: Any, valid: Any, test: Any) -> SplitStatistics:
    """Statistics of a split.

    Args:
        train: the training part, a :class:`~recbole_residual.data.dataset.SequenceDataset`.
        valid: the validation part.
        test: the test part.
    """
    rows = train.inter_feat
    sequences = train.sequences
    in_training = np.zeros(train.item_num, dtype=bool)
    for positions in (rows.positions, sequences.first[rows.positions].long()):
        in_training[sequences.at(train.iid_field, positions).numpy()] = True

    def users(part: Any) -> int:
        return len(np.unique(part.inter_feat[part.uid_field].numpy()))

    def cold(part: Any) -> int:
        return int(np.count_nonzero(~in_training[part.inter_feat[part.iid_field].numpy()]))

    return SplitStatistics(
        train_users=users(train),
        train_targets=len(rows),
        valid_users=users(valid),
        valid_cold_targets=cold(valid),
        test_users=users(test),
        test_cold_targets=cold(test),
    )
