"""Gains of a rank against RecBole's own metrics, one list at a time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recbole.evaluator.metrics import MRR, NDCG, Hit

from recbole_residual.evaluator.gains import rank_gains


@settings(deadline=None)
@given(rank=st.integers(1, 30), k=st.integers(1, 30))
def test_gains_are_those_of_recbole(rank: int, k: int) -> None:
    found = np.zeros((1, 30), dtype=bool)
    found[0, rank - 1] = True
    gains = rank_gains(np.array([rank]))
    for name, metric in (("hit", Hit), ("ndcg", NDCG), ("mrr", MRR)):
        one = metric({"topk": [k], "metric_decimal_place": 10})
        length = np.array([1])
        value = one.metric_info(found, length) if name == "ndcg" else one.metric_info(found)
        assert gains[name][0] * (rank <= k) == pytest.approx(value[0, k - 1])
