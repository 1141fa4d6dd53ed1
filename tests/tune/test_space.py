from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from recbole_residual.config.property_files import properties_dir
from recbole_residual.errors import SpaceError
from recbole_residual.model import GRU4RecResidual, SASRecResidual
from recbole_residual.tune.space import AlphaSearch, Space, default_space, is_run_hyper


def test_a_yaml_space_is_read(tmp_path: Path) -> None:
    path = tmp_path / "space.yaml"
    path.write_text(
        """
search: random
num_samples: 7
scheduler: asha
space:
  learning_rate: {loguniform: [1e-4, 1e-2]}
  hidden_dropout_prob: [0.1, 0.5]
  n_layers: 2
alpha_search: {epsilon: 0.1, alphas: [0, 1], per_layer: False}
"""
    )
    space = Space.load(path)
    assert (space.search, space.num_samples, space.scheduler) == ("random", 7, "asha")
    assert space.parameters["learning_rate"].arguments == (1e-4, 1e-2)
    assert space.parameters["n_layers"].arguments == (2,)
    assert space.alpha_search == AlphaSearch((0, 1), 0.1, per_layer=False)


def test_a_space_survives_its_own_writing() -> None:
    for path in sorted((properties_dir() / "tune").glob("*.yaml")):
        space = Space.load(path)
        assert Space.read(yaml.safe_load(yaml.safe_dump(space.to_plain()))) == space


def test_only_lists_make_a_grid_with_every_combination() -> None:
    space = Space.read({"space": {"a": [1, 2], "b": ["x", "y"], "c": [0]}})
    assert space.search == "grid"
    assert space.grid() == [{"a": a, "b": b, "c": 0} for a in (1, 2) for b in ("x", "y")]


def test_recboles_format_means_what_it_means_there(tmp_path: Path) -> None:
    text = """learning_rate loguniform -8,0
hidden_dropout_prob uniform 0.1,0.5
n_layers choice [1, 2]
hidden_size quniform 32,128,32
MLP choice ['[64,64]', '[32]']
"""
    assert is_run_hyper(text)
    path = tmp_path / "hyper.test"
    path.write_text(text)
    space = Space.load(path)
    assert space.search == "random"
    assert space.parameters["learning_rate"].arguments == (math.exp(-8), 1.0)
    assert space.parameters["MLP"].arguments == ([64, 64], [32])
    hyperopt = pytest.importorskip("hyperopt")
    from recbole.trainer import HyperTuning

    theirs = HyperTuning(None, params_file=str(path)).space
    for seed in range(20):
        drawn = hyperopt.pyll.stochastic.sample(
            theirs["learning_rate"], rng=_hyperopt_generator(hyperopt, seed)
        )
        assert math.exp(-8) <= drawn <= 1


def _hyperopt_generator(hyperopt, seed: int):
    if hyperopt.__version__.startswith("0.2.5"):
        return np.random.RandomState(seed)
    return np.random.default_rng(seed)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**32 - 1))
def test_draws_are_in_range_plain_and_reproducible(seed: int) -> None:
    pytest.importorskip("ray")
    space = Space.read(
        {
            "space": {
                "a": {"uniform": [0.1, 0.5]},
                "b": {"loguniform": [1e-4, 1e-2]},
                "c": {"quniform": [32, 128, 32]},
                "d": {"randint": [1, 4]},
                "e": ["x", 3, None],
            }
        }
    )
    point = space.draw(np.random.default_rng(seed))
    assert 0.1 <= point["a"] <= 0.5
    assert 1e-4 <= point["b"] <= 1e-2
    assert point["c"] in (32, 64, 96, 128)
    assert point["d"] in (1, 2, 3)
    assert point["e"] in ("x", 3, None)
    assert {type(point[name]) for name in "ab"} == {float}
    assert {type(point[name]) for name in "cd"} == {int}
    assert point == space.draw(np.random.default_rng(seed))


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        ({"spaec": {}}, "expected 'space:'"),
        ({"space": {"a": [1]}, "serach": "grid"}, "did you mean 'search'"),
        ({"space": {"a": {"unifrom": [0, 1]}}}, "did you mean 'uniform'"),
        ({"space": {"a": {"uniform": [0.1]}}}, "takes 2 numbers"),
        ({"space": {"a": {"uniform": [1, 0]}}}, "cannot go from 1 to 0"),
        ({"space": {"a": {"loguniform": [0, 1]}}}, "cannot go from 0"),
        ({"space": {"a": []}}, "empty list"),
        ({"space": {"a": {"uniform": [0, 1]}}, "search": "grid"}, "a grid needs lists"),
        ({"space": {"a": [1]}, "search": "bayes"}, "search = 'bayes'"),
        ({"space": {"a": [1]}, "scheduler": "pbt"}, "scheduler = 'pbt'"),
        ({"space": {"a": [1]}, "num_samples": 0}, "num_samples = 0"),
        ({"space": {"alpha": [0.1, 1]}}, "alpha needs no trials"),
        ({"space": {"dataset": ["a", "b"]}, "search": "optuna"}, "do not compare"),
        ({"space": {"a": [1]}, "alpha_search": {"epsilon": 1}}, "share from 0"),
        ({"space": {"a": [1]}, "alpha_search": {"epsilom": 1}}, "did you mean 'epsilon'"),
    ],
)
def test_mistakes_are_told(given_, message: str) -> None:
    with pytest.raises(SpaceError, match=message):
        Space.read(given_)


def test_a_missing_file_and_broken_yaml_are_told(tmp_path: Path) -> None:
    with pytest.raises(SpaceError, match="cannot be read"):
        Space.load(tmp_path / "none.yaml")
    (tmp_path / "broken.yaml").write_text("space: [1")
    with pytest.raises(SpaceError, match="not yaml"):
        Space.load(tmp_path / "broken.yaml")


def test_the_default_space_is_the_nearest_parents() -> None:
    assert default_space(SASRecResidual).name == "default.yaml"
    assert default_space(GRU4RecResidual).name == "GRU4Rec.yaml"


@pytest.mark.parametrize(
    ("space", "message"),
    [
        ({"hidden_size": {"quniform": [32, 128, 0.5]}}, "hidden_size is a whole number"),
        ({"n_layers": {"uniform": [1, 3]}}, "n_layers is a whole number"),
        ({"hidden_dropout_prob": [0.1, 1.5]}, "hidden_dropout_prob"),
        ({"hidden_dropout_prob": {"uniform": [0.1, 1.5]}}, "hidden_dropout_prob"),
        ({"loss_positions": ["all", "some"]}, "loss_positions"),
    ],
)
def test_values_that_every_trial_would_refuse_are_refused_at_once(
    space: dict[str, Any], message: str
) -> None:
    with pytest.raises(SpaceError, match=message):
        Space.read({"space": space})


def test_whole_numbers_are_drawn_whole() -> None:
    space = Space.read({"space": {"hidden_size": {"quniform": [32, 128, 32]}}})
    drawn = {space.draw(np.random.default_rng(seed))["hidden_size"] for seed in range(20)}
    assert drawn <= {32, 64, 96, 128}
    assert all(type(size) is int for size in drawn)


def test_a_space_in_another_encoding_is_one_message(tmp_path: Path) -> None:
    (tmp_path / "space.yaml").write_bytes("# café\nspace:\n  n_layers: [1]\n".encode("latin-1"))
    with pytest.raises(SpaceError, match="not UTF-8"):
        Space.load(tmp_path / "space.yaml")
