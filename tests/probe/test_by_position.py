"""Positions before the last, against forwards of the shortened input."""

from __future__ import annotations

import pytest
import torch
from recbole.model.sequential_recommender import CORE, BERT4Rec, GRU4Rec, SASRec

from recbole_residual.model.residual import scale_residual
from recbole_residual.probe import positions, sweep_alpha
from recbole_residual.probe.by_position import ANY
from tests.probe.conftest import build, loader
from tests.probe.plain import rank, scores_at

OTHERS = {
    "embedding_size": 16,
    "num_layers": 1,
    "dropout_prob": 0.0,
    "temperature": 0.1,
    "sess_dropout": 0.0,
    "item_dropout": 0.0,
    "dnn_type": "trm",
}


@torch.no_grad()
def test_each_position_is_read_as_if_the_input_ended_there(model: SASRec) -> None:
    data = loader(rows=60)
    with scale_residual(model, 0.3):  # read at alpha = 1 all the same
        result = positions(model, data, topk=(1, 5))
    frame = result.frame.set_index("position")
    target = data.rows["item_id"].tolist()
    ranks = [
        [
            rank(row, item) if row else None
            for row, item in zip(scores_at(model, data.rows, o), target)
        ]
        for o in range(4)
    ]
    for offset, name in enumerate(["L", "L-1", "L-2", "L-3"]):
        there = [r for r in ranks[offset] if r]
        row = frame.loc[name]
        assert row["n_sequences"] == len(there)
        assert row["hit@5"] == pytest.approx(sum(r <= 5 for r in there) / len(there))
        assert row["mrr@5"] == pytest.approx(sum(1 / r for r in there if r <= 5) / len(there))
        missed = [r for r, first in zip(ranks[offset], ranks[0]) if r and first > 5]
        assert row["n_missed@5"] == len(missed)
        assert row["recovers@5"] == pytest.approx(sum(r <= 5 for r in missed) / len(missed))
    base = sum(at[0] > 5 and any(r and r <= 5 for r in at[1:]) for at in zip(*ranks))
    assert frame.loc[ANY, "recovers@5"] * frame.loc[ANY, "n_missed@5"] == pytest.approx(base)
    sweep = sweep_alpha(model, data, [1.0], (1, 5)).frame.iloc[0]
    assert sweep["recoverybase@5"] == base
    for stage in ("attn", "res", "ln"):
        name = f"mixingratio_{stage}"
        assert frame.loc["L", name] == pytest.approx(sweep[f"{name}_last"], abs=1e-6)


def test_ratios_by_position_are_those_of_the_full_input(model: SASRec) -> None:
    # A causal model: at L-1 of the full input stands what stands at the end of the shortened one.
    data = loader(rows=30)
    data.rows["item_length"].clamp_(min=2)
    data.rows["item_id_list"][:, 0].clamp_(min=1)
    data.rows["item_id_list"][:, 1].clamp_(min=1)
    frame = positions(model, data, topk=(1,)).frame.set_index("position")
    length = data.rows["item_length"] - 1
    data.rows["item_id_list"] *= torch.arange(8) < length[:, None]
    data.rows["item_length"] = length
    shorter = positions(model, data, topk=(1,)).frame.set_index("position")
    for stage in ("attn", "res", "ln"):
        name = f"mixingratio_{stage}"
        assert frame.loc["L-1", name] == pytest.approx(shorter.loc["L", name], abs=1e-6)


@pytest.mark.parametrize("model_class", [BERT4Rec, CORE, GRU4Rec])
def test_other_models(model_class: type) -> None:
    result = positions(build(model_class, **OTHERS), loader(batch_size=7), topk=(1, 5))
    whole = positions(build(model_class, **OTHERS), loader(batch_size=50), topk=(1, 5))
    assert result.frame.round(6).equals(whole.frame.round(6))
    assert result.frame["mixingratio_res"].isna().iloc[0] == (model_class is GRU4Rec)
    assert bool(result.notes) == (model_class is not CORE)
    assert result.frame["n_sequences"].iloc[0] == 50
