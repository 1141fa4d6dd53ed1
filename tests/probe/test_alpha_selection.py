"""The rule against a search written out, and test data that never reaches the choice."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from recbole.data.interaction import Interaction
from recbole.model.sequential_recommender import GRU4Rec, SASRec

from recbole_residual.model.residual import scale_residual
from recbole_residual.probe import AlphaSweep, choose_alpha, select_alpha
from recbole_residual.probe.engine.setting import Setting
from tests.conftest import random_interaction
from tests.probe.conftest import N_ITEMS, ListLoader, build, loader

ALPHAS = [0.0, 0.25, 0.5, 1.0]


def sweep_of(alphas: list[tuple[float, ...]], hit: list[float], rate: list[float]) -> AlphaSweep:
    """A sweep with given figures at k = 10."""
    return AlphaSweep(
        frame=pd.DataFrame({"hit@10": hit, "recoveryrate@10": rate}),
        about={},
        settings=tuple(Setting(alpha, (1.0,) * len(alpha)) for alpha in alphas),
        topk=(10,),
    )


counts = st.integers(0, 6)


@settings(deadline=None)
@given(st.lists(st.tuples(counts, counts), min_size=4, max_size=4), st.sampled_from([0, 0.1, 0.5]))
def test_choice_is_the_best_feasible_and_nearest_to_one(figures, epsilon) -> None:
    hit = [n / 20 for n, _ in figures]
    rate = [n / 6 for _, n in figures[:3]] + [0.0]
    choice = select_alpha(sweep_of([(a,) for a in ALPHAS], hit, rate), epsilon)
    feasible = [n >= (1 - epsilon) * figures[3][0] - 1e-9 for n, _ in figures]
    assert list(choice.feasible) == feasible
    best = max(rate[i] for i in range(4) if feasible[i])
    nearest = max(ALPHAS[i] for i in range(4) if feasible[i] and rate[i] == best)
    assert choice.alpha == nearest
    assert choice.setting.alpha == (nearest,)


def test_only_alpha_one_feasible() -> None:
    choice = select_alpha(sweep_of([(0.0,), (1.0,)], [0.1, 0.5], [0.9, 0.0]), 0.05)
    assert choice.alpha == 1.0
    assert "nothing else" in choice.reason


def test_per_layer_alphas_follow_the_same_rule() -> None:
    grid = [(0.0, 0.0), (0.0, 1.0), (1.0, 0.5), (1.0, 1.0)]
    choice = select_alpha(sweep_of(grid, [0.5] * 4, [0.4, 0.4, 0.3, 0.0]), 0.05)
    assert choice.alpha == [0.0, 1.0]
    choice = select_alpha(sweep_of(grid, [0.5] * 4, [0.4, 0.4, 0.4, 0.0]), 0.05)
    assert choice.alpha == [1.0, 0.5]


def test_an_empty_base_leaves_alpha_as_it_is() -> None:
    choice = select_alpha(sweep_of([(0.0,), (1.0,)], [0.5, 0.5], [math.nan] * 2))
    assert choice.alpha == 1.0
    assert "no recoverable base" in choice.reason


@pytest.mark.parametrize(
    ("options", "message"),
    [({"epsilon": 1}, "epsilon"), ({"epsilon": -0.1}, "epsilon"), ({"k": 5}, "k = 5")],
)
def test_mistakes_are_told(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        select_alpha(sweep_of([(1.0,)], [0.5], [0.0]), **options)
    with pytest.raises(ValueError, match="add alpha = 1"):
        select_alpha(sweep_of([(0.5,)], [0.5], [0.0]))


@torch.no_grad()
def recovered_only_at(model: SASRec, alpha: float, seed: int) -> Interaction:
    """Sequences whose targets are missed at every alpha of the grid but one, and hit at L-1."""
    rows = random_interaction(400, 8, N_ITEMS, seed)
    rows = rows[rows["item_length"] > 1]

    def hits(part: Interaction, factor: float) -> torch.Tensor:
        with scale_residual(model, factor):
            scores = model.full_sort_predict(part)
        ranks = scores[:, 1:].argsort(dim=1, descending=True).argsort(dim=1)
        return ranks < 10  # [R, items]

    length = rows["item_length"] - 1
    kept = torch.arange(8) < length[:, None]
    shorter = Interaction({"item_id_list": rows["item_id_list"] * kept, "item_length": length})
    usable = hits(rows, alpha) & hits(shorter, 1.0)
    for other in ALPHAS:
        if other != alpha:
            usable &= ~hits(rows, other)
    found = usable.any(dim=1)
    rows["item_id"] = usable.int().argmax(dim=1) + 1
    return rows[found]


def test_test_data_never_reaches_the_choice() -> None:
    model = build(seed=3)
    valid, test = (recovered_only_at(model, alpha, seed=1) for alpha in (0.25, 0.0))
    assert len(valid) > 3
    assert len(test) > 3
    read: list[str] = []

    class Watched(ListLoader):
        name = ""

        def __iter__(self):
            read.append(self.name)
            return super().__iter__()

    valid_data, test_data = Watched(valid, 16), Watched(test, 16)
    valid_data.name, test_data.name = "valid", "test"

    def make_test_data() -> ListLoader:
        read.append("made")
        return test_data

    selection = choose_alpha(model, valid_data, make_test_data, alphas=ALPHAS)
    assert read == ["valid", "made", "test"]
    assert selection.choice.alpha == 0.25
    assert set(selection.frame["alpha"]) == {0.25}
    assert set(selection.frame["oracle_alpha"]) == {0.0}
    # Another test set, another oracle, the same choice.
    other = choose_alpha(model, valid_data, ListLoader(valid, 16), alphas=ALPHAS)
    assert other.choice == selection.choice
    assert set(other.frame["oracle_alpha"]) == {0.25}


def test_curve_over_epsilon_beside_the_oracle(model: SASRec) -> None:
    valid, test = loader(rows=150, seed=5), loader(rows=150, seed=6)
    selection = choose_alpha(model, valid, test, alphas=ALPHAS, epsilon=0.3, epsilons=[0, 0.05])
    frame = selection.frame
    assert frame["epsilon"].tolist() == [0, 0.05, 0.3]
    assert selection.about["alpha"] == selection.choice.alpha == frame["alpha"].iloc[2]
    hits = selection.test_sweep.frame.set_index("alpha")["hit@10"]
    assert frame["test_hit@10"].tolist() == [hits[alpha] for alpha in frame["alpha"]]
    assert frame["oracle_hit@10"].tolist() == [hits[alpha] for alpha in frame["oracle_alpha"]]
    assert frame["unscaled_hit@10"].tolist() == [hits[1.0]] * 3
    rates = selection.valid_sweep.frame.set_index("alpha")["recoveryrate@10"]
    assert frame["valid_recoveryrate@10"].tolist() == [rates[alpha] for alpha in frame["alpha"]]
    assert frame["valid_recoveryrate@10"].is_monotonic_increasing


def test_one_alpha_per_layer(model: SASRec) -> None:
    data = loader(rows=100, seed=7)
    selection = choose_alpha(model, data, data, alphas=[0.0, 1.0], epsilon=0.2, per_layer=True)
    assert len(selection.valid_sweep.frame) == 4
    assert len(selection.choice.setting.alpha) == 2
    assert selection.frame["alpha"].tolist() == selection.frame["oracle_alpha"].tolist()


def test_a_model_with_alpha_out_of_reach_stays_as_it_is() -> None:
    model = build(GRU4Rec, embedding_size=16, num_layers=1, dropout_prob=0.0)
    selection = choose_alpha(model, loader(), loader())
    assert selection.frame["alpha"].isna().all()
    assert any("out of reach" in note for note in selection.notes)


def test_equal_sums_of_decimals_are_a_tie() -> None:
    # 0.8 + 0.1 and 0.2 + 0.7 are 0.9 and 0.8999999999999999 in floats.
    grid = [(0.2, 0.9), (0.8, 0.3), (1.0, 1.0)]
    choice = select_alpha(sweep_of(grid, [0.5] * 3, [0.4, 0.4, 0.0]), 0.05)
    assert choice.alpha == [0.2, 0.9]
    swapped = select_alpha(sweep_of([grid[1], grid[0], grid[2]], [0.5] * 3, [0.4, 0.4, 0.0]), 0.05)
    assert swapped.alpha == [0.8, 0.3]


@pytest.mark.parametrize("residual", ["attention", "feed_forward", "both"])
def test_what_is_shown_is_what_was_chosen(model: SASRec, residual: str) -> None:
    data = loader(rows=100, seed=7)
    selection = choose_alpha(
        model, data, data, alphas=[0.0, 0.5, 1.0], epsilon=0.9, residual=residual
    )
    setting = selection.valid_sweep.settings[selection.choice.row]
    chosen = setting.feed_forward if residual == "feed_forward" else setting.alpha
    assert chosen != (1.0, 1.0)
    assert selection.choice.alpha == selection.about["alpha"] == chosen[0]
    assert selection.frame["alpha"].iloc[-1] == chosen[0]
