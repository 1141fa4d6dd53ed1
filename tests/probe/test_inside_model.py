"""The internals of a model against its own scores and decompositions, one sequence at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from recbole.model.sequential_recommender import BERT4Rec, GRU4Rec, SASRec

from recbole_residual.decomposition import decompose_dataset
from recbole_residual.model import GRU4RecResidual, SASRecResidual
from recbole_residual.probe import internals
from recbole_residual.probe.inside_model import rank_bins
from tests.probe.conftest import build, loader


def count_of_bins(ranks: list[int], table: Any) -> list[int]:
    """One rank after the other."""
    counts = [0] * len(table)
    for rank in ranks:
        for row, (low, high) in enumerate(zip(table["rank_from"], table["rank_to"])):
            counts[row] += low <= rank <= high
    return counts


@settings(deadline=None)
@given(st.lists(st.integers(0, 70), max_size=30), st.integers(70, 300))
def test_bins_against_a_loop(ranks: list[int], n_items: int) -> None:
    table = rank_bins(ranks, n_items)
    ranked = [rank for rank in ranks if rank]
    assert list(table["n_sequences"]) == count_of_bins(ranked, table)
    assert table["rank_from"].iloc[0] == 1
    assert table["rank_to"].iloc[-1] == n_items
    assert list(table["rank_from"].iloc[1:]) == [end + 1 for end in table["rank_to"].iloc[:-1]]
    if ranked:
        assert table["share"].sum() == pytest.approx(1)
    else:
        assert table["share"].isna().all()


def test_weights_that_do_not_sum_to_one_are_told() -> None:
    (note,) = internals(build(SASRecResidual, attention_norm_p=2.0), loader(rows=8)).notes
    assert note.startswith("attention_norm_p = 2: the attention weights of a position do not sum")
    assert internals(build(SASRecResidual), loader(rows=8)).notes == []


@torch.no_grad()
def test_everything_of_a_model_with_attention() -> None:
    model, data = build(SASRec), loader(batch_size=16)
    found = internals(model, data)

    slow = decompose_dataset(model, (batch[0] for batch in loader(batch_size=7)))
    tidy = slow.statistics.to_frame().set_index(["layer", "stage", "position", "statistic"])
    for row in found.frame.to_dict("records"):
        for statistic in ("mean", "median", "std", "count"):
            expected = tidy.loc[(row["layer"], row["stage"], row["position"], statistic), "value"]
            assert row[statistic] == pytest.approx(expected, abs=2e-4)  # the median's bins
    assert set(found.frame["last_position"]) == {"item"}
    maps = slow.recent_map.to_frame()
    for name in ("contribution", "attention"):
        np.testing.assert_allclose(found.maps[name], maps[name], rtol=1e-5, atol=1e-7)

    interaction = data.rows
    scores = model.full_sort_predict(interaction)
    rows, length = torch.arange(len(scores)), interaction["item_length"]
    items = {
        "last input item": interaction["item_id_list"][rows, length - 1],
        "target": interaction["item_id"],
    }
    for name, item in items.items():
        ranks = (scores[:, 1:] > scores[rows, item][:, None]).sum(dim=1) + 1
        table = found.ranks[found.ranks["item"] == name]
        assert list(table["n_sequences"]) == count_of_bins(ranks.tolist(), table)
    assert list(found.tables()) == ["internals", "internals_maps", "internals_ranks"]
    assert "mean" in str(found)


def test_what_stands_at_the_mask_is_said() -> None:
    found = internals(build(BERT4Rec, mask_ratio=0.2), loader(batch_size=20))
    assert set(found.frame["last_position"]) == {"[MASK]"}
    assert any("[MASK]" in note for note in found.notes)
    last = found.ranks[found.ranks["item"] == "last input item"]
    # RecBole's BERT4Rec drops the only item of a sequence of length 1: it has no rank.
    one_item = (loader().rows["item_length"] == 1).sum().item()
    assert last["n_sequences"].sum() == 50 - one_item


def test_a_gated_model_has_ratios_and_no_maps() -> None:
    shape = {"embedding_size": 16, "num_layers": 1, "dropout_prob": 0.0}
    found = internals(build(GRU4RecResidual, alpha=0.0, alpha_train=0.0, **shape), loader())
    assert set(found.frame["stage"]) == {"gate"}
    assert found.maps.empty
    plain = internals(build(GRU4Rec, **shape), loader())
    assert plain.frame.empty
    assert any("no attention block" in note for note in plain.notes)
    assert plain.ranks["n_sequences"].sum() == 100
