from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from recbole_residual.errors import NaNScoreError
from recbole_residual.evaluator import ranks
from recbole_residual.evaluator.ranks import rank_of, refuse_nan
from tests.evaluator import naive


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 10**6),
    rows=st.integers(1, 9),
    n_items=st.integers(2, 40),
    levels=st.sampled_from([1, 2, 3, 1000]),
    dtype=st.sampled_from([torch.float32, torch.float64, torch.float16]),
    at_once=st.sampled_from([1, 70, 2**20]),
)
def test_ranks_are_those_of_a_loop(
    seed: int, rows: int, n_items: int, levels: int, dtype: torch.dtype, at_once: int
) -> None:
    random = np.random.default_rng(seed)
    scores = random.integers(0, levels, (rows, n_items)).astype(float)
    scores[random.random((rows, n_items)) < 0.1] = -np.inf
    scores[:, 0] = random.choice([-np.inf, 1e4, np.nan])  # padding has no say, whatever its score
    items = random.integers(0, n_items, (rows, 2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranks, "_ELEMENTS_AT_ONCE", at_once)
        found = rank_of(torch.tensor(scores, dtype=dtype), torch.tensor(items))
    expected = [
        [naive.rank(row, item) if item else 0 for item in pair] for row, pair in zip(scores, items)
    ]
    assert found.tolist() == expected


def test_one_item_per_row_gives_one_rank_per_row() -> None:
    scores = torch.tensor([[0.0, 1.0, 2.0], [0.0, 2.0, 1.0]])
    assert rank_of(scores, torch.tensor([1, 1])).tolist() == [2, 1]


def test_a_nan_score_is_an_error_and_padding_is_not_looked_at() -> None:
    scores = torch.randn(4, 6)
    scores[:, 0] = torch.nan
    refuse_nan(scores)
    scores[1, 5] = torch.nan
    scores[3, 1] = torch.nan
    scores[3, 2] = torch.inf
    with pytest.raises(NaNScoreError, match="2 of the evaluated sequences have NaN scores"):
        refuse_nan(scores)
