"""What a user can pass by mistake is one message, before anything is computed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from recbole.model.sequential_recommender import SASRec

from recbole_residual.errors import ProbeError
from recbole_residual.probe import (
    choose_alpha,
    internals,
    positions,
    reliance,
    run_probes,
    shuffle,
    sweep_alpha,
)
from tests.probe.conftest import ListLoader, loader


class Unread(ListLoader):
    """Data that nobody may read."""

    def __iter__(self) -> Any:
        raise AssertionError("the data was read before the arguments were checked")


@pytest.mark.parametrize(
    ("ask", "options", "message"),
    [
        (sweep_alpha, {"alphas": "0.5"}, "alphas = '0.5'.*give a list of numbers"),
        (sweep_alpha, {"alphas": 0.5}, "alphas = 0.5.*such as \\[0.5\\]"),
        (sweep_alpha, {"alphas": ["0.5"]}, "numbers only"),
        (sweep_alpha, {"alphas": [True]}, "numbers only"),
        (sweep_alpha, {"alphas": [float("nan")]}, "finite"),
        (sweep_alpha, {"topk": 10}, "topk = 10"),
        (sweep_alpha, {"topk": "10"}, "topk = '10'"),
        (sweep_alpha, {"topk": [1.5]}, "whole numbers"),
        (sweep_alpha, {"topk": [True]}, "whole numbers"),
        (positions, {"topk": 10}, "topk = 10"),
        (shuffle, {"modes": "reverse"}, "modes = 'reverse'"),
        (shuffle, {"seeds": 3}, "seeds = 3"),
        (shuffle, {"seeds": "3"}, "seeds = '3'"),
        (shuffle, {"seeds": [-1]}, "seeds = -1"),
        (shuffle, {"seeds": [0.5]}, "seeds = 0.5"),
        (shuffle, {"k": 0}, "k = 0"),
        (shuffle, {"k": "10"}, "k = '10'"),
        (reliance, {"k": 0}, "k = 0"),
        (reliance, {"seeds": []}, "at least one"),
        (reliance, {"modes": "reverse"}, "modes = 'reverse'"),
        (reliance, {"alphas": 0.5}, "alphas = 0.5"),
    ],
)
def test_mistakes(model: SASRec, ask: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ask(model, Unread(loader().rows, 8), **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 0}, "k = 0"),
        ({"k": 7}, "must hold k = 7"),
        ({"epsilon": 1.0}, "epsilon = 1.0"),
        ({"epsilon": "0.1"}, "epsilon = '0.1'"),
        ({"epsilon": float("nan")}, "epsilon = nan"),
        ({"epsilons": 0.1}, "epsilons = 0.1"),
        ({"epsilons": "0.1"}, "epsilons = '0.1'"),
        ({"epsilons": [2]}, "epsilons = 2"),
    ],
)
def test_mistakes_of_a_choice(model: SASRec, options: dict[str, Any], message: str) -> None:
    data = Unread(loader().rows, 8)
    with pytest.raises(ProbeError, match=message):
        choose_alpha(model, data, data, **options)


def test_a_name_is_no_list_of_names(model: SASRec, tmp_path: Any) -> None:
    data = Unread(loader().rows, 8)
    with pytest.raises(ValueError, match="names = 'shuffle'"):
        run_probes(model, data, data, tmp_path, "shuffle")


def test_arrays_and_ranges_are_lists(model: SASRec) -> None:
    sweep = sweep_alpha(model, loader(rows=5), np.linspace(0, 1, 3), range(1, 3))
    assert sweep.frame["alpha"].tolist() == [0.0, 0.5, 1.0]
    assert sweep.topk == (1, 2)
    assert shuffle(model, loader(rows=5), [], range(2), topk=np.array([10])).about["seeds"] == [
        0,
        1,
    ]
    assert internals(model, loader(rows=5)).about["n_sequences"] == 5
