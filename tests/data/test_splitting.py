"""The global temporal split against pandas, and the vectorised leave-one-out against RecBole's."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recbole.data.dataset import Dataset

from recbole_residual.data import splitting


def slow_temporal_split(frame: pd.DataFrame, quantiles):
    """Section by section as the papers put it; rows are labelled by their index."""
    frame = frame.sort_values(["user", "time"], kind="stable")

    def cut(data, quantile):
        at = data.time.quantile(quantile)
        before, after = [], []
        for _, rows in data.groupby("user"):
            times = rows.time.tolist()
            if len(times) >= 2 and times[1] <= at:
                before += rows.index[rows.time <= at].tolist()
            if len(times) >= 2 and times[-1] > at:
                after.append(rows.index[-1])
        return data.loc[before], after

    part, test = cut(frame, quantiles[0])
    if len(quantiles) == 1:
        return part, [], test
    train, valid = cut(part, quantiles[1])
    return train, valid, test


def targets_of(train: pd.DataFrame) -> list[int]:
    return [i for _, rows in train.groupby("user") for i in rows.index[1:]]


interactions = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 12)), min_size=2, max_size=60)


@settings(deadline=None, max_examples=200)
@given(
    interactions,
    st.sampled_from([[0.9, 0.9], [0.5, 0.5], [0.8, 0.3], [0.7]]),
)
def test_same_targets_as_pandas(rows, quantiles):
    frame = pd.DataFrame(rows, columns=["user", "time"]).astype({"time": float})
    order = np.lexsort((frame.time, frame.user))
    users = frame.user.to_numpy()[order]
    first = np.searchsorted(users, users)
    train, valid, test = slow_temporal_split(frame, quantiles)
    if len(train) == 0 and len(quantiles) == 2 and not _has_training_part(frame, quantiles):
        with pytest.raises(ValueError, match="larger quantiles"):
            splitting.temporal_split(first, frame.time.to_numpy()[order], quantiles)
        return
    split = splitting.temporal_split(first, frame.time.to_numpy()[order], quantiles)
    assert order[split.train].tolist() == targets_of(train)
    assert order[split.valid].tolist() == valid
    assert order[split.test].tolist() == test


def _has_training_part(frame, quantiles):
    return len(slow_temporal_split(frame, quantiles[:1])[0]) > 0


def test_a_small_file_by_hand():
    # user: times. T = 0.5 quantile = 6, validation cut = 0.5 quantile of the training part
    users = {"a": [1, 2, 3, 9], "b": [4, 8], "c": [5, 6], "d": [7], "e": [10, 11], "f": [0, 2]}
    first, time, label = [], [], []
    for name, times in users.items():
        first += [len(time)] * len(times)
        label += [f"{name}{t}" for t in times]
        time += times
    split = splitting.temporal_split(np.array(first), np.array(time, dtype=float), [0.5, 0.5])
    assert split.test_cut == 5
    # at or before 5, second interaction at or before 5: a (1, 2, 3), f (0, 2)
    assert split.valid_cut == 2
    names = np.array(label)
    assert names[split.train].tolist() == ["a2", "f2"]
    assert names[split.valid].tolist() == ["a3"]  # the only user still active after 2
    assert names[split.test].tolist() == ["a9", "b8", "c6", "e11"]  # d has one interaction


@pytest.mark.parametrize("value", [0.9, [], [0.9, 0.9, 0.9], [0.9, 1.0], [0, 0.5], ["0.9"], None])
def test_unusable_quantiles(value):
    with pytest.raises(ValueError, match="GT"):
        splitting.check_quantiles(value)


@settings(deadline=None)
@given(st.lists(st.integers(0, 6), max_size=40), st.sampled_from([1, 2]))
def test_leave_one_out_is_recboles(keys, parts):
    keys = np.array(keys, dtype=np.int64)
    groups = splitting.group_rows(keys)
    expected_groups = Dataset._grouped_index(None, keys)
    assert [group.tolist() for group in groups] == list(expected_groups)
    expected = Dataset._split_index_by_leave_one_out(None, expected_groups, parts)
    assert [part.tolist() for part in splitting.leave_last_out(groups, parts)] == expected
