"""Sampled evaluation from one state a sequence, against RecBole's Trainer on all copies of it."""

from __future__ import annotations

import logging
from typing import Any, Callable

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from recbole_residual.evaluator.candidates import Candidates, count_among, top_among
from recbole_residual.evaluator.counting import Ranker
from recbole_residual.model.residual import scale_residual
from tests.evaluator.conftest import SETTINGS
from tests.evaluator.test_counting_evaluation import (
    LISTS,
    TOPK_METRICS,
    counted,
    in_recboles_way,
    recboles,
    with_twins,
)

Sessions = Callable[..., Any]
ALL = [*TOPK_METRICS, "GAUC", *LISTS]


def sampled(mode: str, **more: Any) -> dict[str, Any]:
    return {"eval_args": {**SETTINGS["eval_args"], "mode": mode, **more}}


def both(opened: Any, expected: Callable[[Any], Any] = recboles) -> tuple[Any, Any]:
    """The results of both ways on the same samples."""
    results = []
    for way in (counted, expected):
        # RecBole draws the sampled items from it
        np.random.seed(3)  # noqa: NPY002
        results.append(way(opened))
    return results[0], results[1]


@settings(
    deadline=None,
    max_examples=12,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),  # a session is too dear to shrink
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    mode=st.sampled_from(["uni1", "uni4", "uni20", "pop20", "uni60"]),
    size=st.sampled_from([1, 16, 100, 4096]),
    seed=st.integers(0, 99),
    twins=st.booleans(),
    alpha=st.sampled_from([0.0, 0.3, 1.0]),
)
def test_random_models_samples_batches_and_ties(
    session: Sessions, mode: str, size: int, seed: int, twins: bool, alpha: float
) -> None:
    opened = session(
        metrics=ALL, metric_decimal_place=15, eval_batch_size=size, seed=seed, **sampled(mode)
    )
    with_twins(opened.model, twins)
    with scale_residual(opened.model, alpha):
        found, expected = both(opened)
    assert found == expected


@pytest.mark.parametrize("model", ["SASRec", "GRU4Rec", "BERT4Rec", "CORE", "NARM", "RepeatNet"])
def test_recboles_models(session: Sessions, model: str, caplog: pytest.LogCaptureFixture) -> None:
    opened = session(model, metrics=ALL, metric_decimal_place=15, **sampled("uni20"))
    caplog.set_level(logging.DEBUG)
    found, expected = both(opened)
    assert found == expected
    if model not in ("RepeatNet", "CORE"):  # no product; another function than full_sort_predict
        assert "in RecBole's way, because" not in caplog.text


@pytest.mark.parametrize("alpha", [0.2, 1.0])
def test_our_metrics_are_those_of_the_plain_way(session: Sessions, alpha: float) -> None:
    metrics = ["NDCG", "MixingRatio", "RecoveryRate"]
    opened = session(metrics=metrics, metric_decimal_place=15, **sampled("uni20"))
    with scale_residual(opened.model, alpha):
        found, expected = both(opened, in_recboles_way)
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        tolerance = 1e-6 if key.startswith("mixing") else 0
        assert found[key] == pytest.approx(value, abs=tolerance, rel=0, nan_ok=True), key


def test_users_with_several_sequences_are_ranked_in_recboles_way(
    session: Sessions, caplog: pytest.LogCaptureFixture
) -> None:
    split = {"RS": [0.4, 0.2, 0.4]}
    opened = session(metrics=ALL, metric_decimal_place=15, **sampled("uni20", split=split))
    caplog.set_level(logging.DEBUG)
    found, expected = both(opened)
    assert "because a user has several sequences" in caplog.text
    assert found == expected


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 1000), n_rows=st.integers(1, 9), n_items=st.integers(1, 30))
def test_ranks_and_lists_are_those_of_the_sorted_candidates(seed, n_rows, n_items) -> None:
    torch.manual_seed(seed)
    weight, states = torch.randn(20, 8), torch.randn(n_rows, 8)
    items = torch.randint(1, 20, (n_rows, n_items))
    first = [[item not in row[:at] for at, item in enumerate(row)] for row in items.tolist()]
    candidates = Candidates(items, torch.tensor(first), None, 0)  # type: ignore[arg-type]
    rows, ranker = torch.arange(n_rows), Ranker(weight)
    ranks = count_among(ranker, states, torch.ones(n_rows, dtype=torch.bool), candidates, rows)
    lists = top_among(ranker, states, 3, candidates, rows)
    scores = states.double() @ weight.double().t()
    for row in range(n_rows):
        ordered = sorted(set(items[row].tolist()), key=lambda item: -scores[row, item])
        if not ranks.uncertain[row]:
            assert ranks.ranks[row, 0] == 1 + ordered.index(int(items[row, 0]))
        if not lists.uncertain[row]:
            assert lists.items[row].tolist() == ordered[:3]
        assert lists.uncertain[row] or len(ordered) >= 3
