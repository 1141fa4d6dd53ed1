"""The table of suspects: every condition is the evaluation it says it is."""

from __future__ import annotations

import pytest
from recbole.model.sequential_recommender import GRU4Rec, SASRec

from recbole_residual.model.switches import uniform_attention, without_position
from recbole_residual.probe import reliance, shuffle, sweep_alpha
from tests.probe.conftest import build, loader

FIGURES = ["hrli@1", "hit@10", "ndcg@10", "mixingratio_attn", "mixingratio_ln_last"]


def test_conditions_are_the_probes_they_name(model: SASRec) -> None:
    result = reliance(model, loader(), alphas=(0.3, 1.0), modes=("shuffle_all",), seeds=(0, 1))
    table = result.frame.set_index("condition")
    assert table.index.tolist() == [
        "original",
        "alpha = 0.3",
        "alpha = 1",
        "uniform attention",
        "without position",
        "shuffle_all",
    ]
    sweep = sweep_alpha(model, loader(), [0.3, 1.0], (1, 10)).frame
    shuffled = shuffle(model, loader(), ["shuffle_all"], (0, 1), topk=(1, 10)).frame
    expected = {"alpha = 0.3": sweep.iloc[0], "original": sweep.iloc[1], "alpha = 1": sweep.iloc[1]}
    expected["shuffle_all"] = shuffled.iloc[1]
    for title, switch in (
        ("uniform attention", uniform_attention),
        ("without position", without_position),
    ):
        with switch(model):
            expected[title] = sweep_alpha(model, loader(), [1.0], (1, 10)).frame.iloc[0]
    for condition, row in expected.items():
        found = table.loc[condition, FIGURES].tolist()
        assert found == pytest.approx(row[FIGURES].tolist(), abs=1e-6), condition
    before, after = table.loc["original", "hrli@1"], table.loc["alpha = 0.3", "hrli@1"]
    assert table.loc["alpha = 0.3", "hrli@1_change"] == pytest.approx((after - before) / before)
    assert table.loc["original", ["hrli@1_change", "ndcg@10_change"]].tolist() == [0, 0]


def test_what_a_model_has_not_is_left_out_with_a_note() -> None:
    model = build(GRU4Rec, embedding_size=16, num_layers=1, dropout_prob=0.0)
    result = reliance(model, loader(), modes=("reverse",))
    assert result.frame["condition"].tolist() == ["original", "reverse"]
    assert result.frame["mixingratio_res"].isna().all()
    for part in ("no residual to scale", "uniform attention is left out", "without position is"):
        assert any(part in note for note in result.notes)


def test_mistakes_are_told(model: SASRec) -> None:
    with pytest.raises(ValueError, match="unknown mode"):
        reliance(model, loader(), modes=("shuffel",))
    with pytest.raises(ValueError, match="topk"):
        reliance(model, loader(), k=100)
