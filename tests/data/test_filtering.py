"""The filters against a loop that does what the text says, one row at a time."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from recbole_residual.data.filtering import filter_interactions

AT_LEAST = {k: [("[", float(k), float("inf"), ")")] for k in (1, 2, 3)}


def slow_filter(rows, min_user, min_item, repeats):
    """``rows``: list of (user, item, time) in the order of the file. Returns the indices kept."""
    kept = list(range(len(rows)))
    while True:
        before = list(kept)
        if repeats:
            by_time = sorted(kept, key=lambda i: (rows[i][0], rows[i][2]))  # sorted() is stable
            gone = {
                b
                for a, b in zip(by_time, by_time[1:])
                if rows[a][0] == rows[b][0] and rows[a][1] == rows[b][1]
            }
            kept = [i for i in kept if i not in gone]
        for column, least in ((0, min_user), (1, min_item)):
            values = [rows[i][column] for i in kept]
            kept = [i for i in kept if values.count(rows[i][column]) >= least]
        if kept == before:
            return kept


interactions = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(0, 6)), min_size=1, max_size=60
)


@settings(deadline=None, max_examples=200)
@given(interactions, st.sampled_from([1, 2, 3]), st.sampled_from([1, 2, 3]), st.booleans())
def test_same_rows_as_the_loop(rows, min_user, min_item, repeats):
    users, items, times = (np.array(column) for column in zip(*rows))
    order = np.lexsort((times, users)) if repeats else None
    kept = filter_interactions(users, items, AT_LEAST[min_user], AT_LEAST[min_item], order)
    expected = slow_filter(rows, min_user, min_item, repeats)
    assert np.flatnonzero(kept.rows).tolist() == expected
    assert kept.users.tolist() == np.bincount(users[expected], minlength=len(kept.users)).tolist()
    assert kept.items.tolist() == np.bincount(items[expected], minlength=len(kept.items)).tolist()


def test_repeats_that_a_dropped_item_brings_together():
    # 9 is rare: without it 7 follows 7, and only the first one stays
    users = np.array([0, 0, 0, 0, 1, 1])
    items = np.array([7, 9, 7, 5, 7, 5])
    kept = filter_interactions(users, items, None, AT_LEAST[2], np.arange(6))
    assert kept.rows.tolist() == [True, False, False, True, True, True]


def test_ties_in_time_keep_the_order_of_the_file():
    # all at the same time: in the file i comes between the two j, so neither repeats
    users, items = np.zeros(3, dtype=int), np.array([1, 0, 1])
    order = np.lexsort((np.zeros(3), users))
    assert filter_interactions(users, items, order=order).rows.all()


def test_open_intervals_and_unions():
    users, items = np.repeat(np.arange(4), [1, 2, 3, 4]), np.zeros(10, dtype=int)
    intervals = [("(", 0.0, 2.0, ")"), ("(", 2.0, 3.0, "]")]
    kept = filter_interactions(users, items, intervals, None)
    assert sorted(set(users[kept.rows].tolist())) == [0, 2]
    assert kept.dropped_users.tolist() == [False, True, False, True]
