"""Counted ranks against sorted scores, and which of them are uncertain."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from recbole_residual.evaluator.counting import FLOAT32_MARGIN, Ranker


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
