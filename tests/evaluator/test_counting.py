"""Counted ranks against sorted scores, and which of them are uncertain."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from recbole_residual.evaluator import counting
from recbole_residual.evaluator.counting import FLOAT32_MARGIN, CountedRanks, LeftOut, Ranker


@settings(deadline=None, max_examples=30)
@given(
    seed=st.integers(0, 1000),
    n_rows=st.integers(1, 20),
    n_items=st.integers(2, 50),
    at_once=st.sampled_from([1, 100, 2**20]),
)
def test_ranks_are_places_in_the_sorted_scores(seed, n_rows, n_items, at_once) -> None:
    torch.manual_seed(seed)
    weight, hidden = torch.randn(n_items, 8), torch.randn(n_rows, 8)
    items = torch.randint(0, n_items, (n_rows, 3))
    ranker = Ranker(weight)
    ranker._rows = max(1, at_once // n_items)
    counted = ranker.count(hidden, items)
    scores = hidden.double() @ weight.double().t()
    order = scores[:, 1:].argsort(dim=1, descending=True) + 1
    for row in range(n_rows):
        for column, item in enumerate(items[row].tolist()):
            expected = 0 if item == 0 else 1 + order[row].tolist().index(item)
            if not counted.uncertain[row]:
                assert counted.ranks[row, column] == expected


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 1000),
    n_rows=st.integers(0, 20),
    n_items=st.integers(2, 60),
    largest=st.integers(1, 12),
    hides=st.booleans(),
    biased=st.booleans(),
)
def test_ranks_up_to_the_largest_are_those_of_all_scores(
    seed, n_rows, n_items, largest, hides, biased
) -> None:
    torch.manual_seed(seed)
    weight, hidden = torch.randn(n_items, 8), torch.randn(n_rows, 8)
    bias = torch.randn(n_items) if biased else None
    items = torch.randint(0, n_items, (n_rows, 3))
    hidden_pairs = torch.rand(n_rows, n_items) < (0.3 if hides else 0)
    left_out = LeftOut(*hidden_pairs.nonzero().unbind(1)) if hides else None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counting, "_HEADS", (5, 20))
        counted = Ranker(weight, bias, largest=largest).count(hidden, items, left_out)
    scores = hidden.double() @ weight.double().t() + (0 if bias is None else bias.double())
    scores = scores.masked_fill(hidden_pairs, -torch.inf)[:, 1:]
    for row, column in (items > 0).nonzero().tolist():
        rank = 1 + int((scores[row] > scores[row, items[row, column] - 1]).sum())
        found, lowest = int(counted.ranks[row, column]), int(counted.lowest[row, column])
        if rank > largest:
            assert found > largest
        elif hidden_pairs[row, items[row, column]]:
            assert found == rank != lowest  # where it stands among all that are left out, is open
        else:
            assert found <= rank <= lowest
    assert not counted.ranks[items == 0].any()


def test_a_hit_is_uncertain_only_where_rounding_reaches_over_k() -> None:
    counted = CountedRanks(
        torch.tensor([[1, 4], [4, 9], [5, 6], [0, 3]]),
        torch.tensor([[1, 4], [5, 9], [6, 6], [0, 9]]),
    )
    assert counted.uncertain.tolist() == [False, True, True, True]
    assert counted.uncertain_hits([5]).tolist() == [False, False, True, True]
    assert counted.uncertain_hits([4, 10]).tolist() == [False, True, False, True]


def test_only_near_ties_of_wanted_items_are_uncertain() -> None:
    weight = torch.eye(5)
    hidden = torch.tensor(
        [
            [9.0, 4.0, 3.0, 2.0, 1.0],
            [9.0, 4.0, 4.0, 2.0, 1.0],
            [9.0, 4.0, 3.0, 2.0, 2.0],
            [9.0, 4.0, 3.0, 2.0, 2.0 + 1e-6],
            [9.0, 4.0, torch.nan, 2.0, 1.0],
        ]
    )
    counted = Ranker(weight).count(hidden, torch.tensor([[1, 3]] * 5))
    assert counted.uncertain.tolist() == [False, True, True, True, True]
    assert counted.ranks[0].tolist() == [1, 3]
    assert not Ranker(weight).count(hidden[2:3], torch.tensor([[1, 2]])).uncertain


def test_the_margin_is_wider_than_the_rounding_of_a_product() -> None:
    torch.manual_seed(0)
    weight, hidden = torch.randn(500, 64), torch.randn(500, 64)
    error = (hidden @ weight.t()).double() - hidden.double() @ weight.double().t()
    size = hidden.norm(dim=1, keepdim=True) * weight.norm(dim=1).max()
    assert (error / size).abs().max() < FLOAT32_MARGIN / 2
