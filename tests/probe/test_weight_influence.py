"""Influence of single weights against differences of the losses, and what is left without some."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from recbole.model.sequential_recommender import BERT4Rec, SASRec

from recbole_residual.errors import ProbeError
from recbole_residual.probe import influence, sweep_alpha
from recbole_residual.probe.weight_influence import _share_of_half
from tests.probe.conftest import build, loader


@torch.no_grad()
def losses(model: Any, rows: Any) -> dict[str, float]:
    scores = model.full_sort_predict(rows)
    number = torch.arange(len(rows))
    last = rows["item_id_list"][number, rows["item_length"] - 1]
    log_probability = scores - scores[:, 1:].logsumexp(dim=1, keepdim=True)
    return {
        "accuracy": -log_probability[number, rows["item_id"]].sum().item(),
        "last_item": log_probability[number, last].sum().item(),
    }


def test_shares_are_those_of_differences_of_the_losses() -> None:
    """Every weight of every bias is moved a little, in float64."""
    model, data = build(n_layers=1, hidden_size=8, n_heads=1, inner_size=8).double(), loader(rows=6)
    table = influence(model, data, shares=(0.01,)).frame.set_index("parameter")
    step, found = 1e-6, {}
    for name, weight in model.named_parameters():
        if weight.dim() > 1:
            continue
        found[name] = dict.fromkeys(("accuracy", "last_item"), 0.0)
        for place in range(len(weight)):
            before = weight[place].item()
            sides = []
            for change in (step, -step):
                with torch.no_grad():
                    weight[place] = before + change
                sides.append(losses(model, data.rows))
            with torch.no_grad():
                weight[place] = before
            for loss in found[name]:
                slope = (sides[0][loss] - sides[1][loss]) / (2 * step)
                found[name][loss] += abs(before * slope)
    first = next(iter(found))
    for name, of_name in found.items():
        for loss, value in of_name.items():
            share = table.loc[name, f"{loss}_share"] / table.loc[first, f"{loss}_share"]
            assert share == pytest.approx(value / found[first][loss], rel=1e-4, abs=1e-6)
    assert table[["accuracy_share", "last_item_share"]].sum().tolist() == pytest.approx([1, 1])


def by_hand(model: Any, rows: Any, ranking: str) -> torch.Tensor:
    """The number by which each weight is ranked, laid end to end."""
    size = torch.cat([weight.detach().abs().flatten() for weight in model.parameters()])
    if ranking == "weight":
        return size
    loss = "last_item" if ranking == "last_item" else "accuracy"
    number = torch.arange(len(rows))
    item = rows["item_id"]
    if loss == "last_item":
        item = rows["item_id_list"][number, rows["item_length"] - 1]
    scores = model.full_sort_predict(rows)
    (scores[number, item] - scores[:, 1:].logsumexp(dim=1)).sum().backward()
    gradient = torch.cat([weight.grad.abs().flatten() for weight in model.parameters()])
    model.zero_grad()
    return gradient if ranking == "gradient" else size * gradient


@pytest.mark.parametrize("ranking", ["accuracy", "last_item", "weight", "gradient"])
def test_removal_is_an_evaluation_without_the_weights(model: SASRec, ranking: str) -> None:
    data = loader(rows=40)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    found = influence(model, data, shares=(0.01, 0.2), seed=3)
    for name, weight in model.state_dict().items():
        assert torch.equal(weight, before[name])
    table = found.removal
    assert len(table) == 1 + 5 * 2
    plain = sweep_alpha(model, data, [1.0], (1, 10)).frame.iloc[0]
    assert table["ndcg@10"].iloc[0] == plain["ndcg@10"]
    scores = by_hand(model, data.rows, ranking)
    largest = scores.argsort(descending=True, stable=True)[: round(0.2 * len(scores))]
    gone, start = torch.zeros(len(scores), dtype=torch.bool), 0
    gone[largest] = True
    with torch.no_grad():
        for weight in model.parameters():
            mask = gone[start : start + weight.numel()].view_as(weight)
            start += weight.numel()
            weight[mask] = 0
    expected = sweep_alpha(model, data, [1.0], (1, 10)).frame.iloc[0]
    (row,) = table[(table["ranking"] == ranking) & (table["share"] == 0.2)].to_dict("records")
    assert row["n_weights"] == len(largest)
    assert row["ndcg@10"] == pytest.approx(expected["ndcg@10"], rel=1e-9)
    assert row["hrli@1"] == expected["hrli@1"]


def test_half_of_the_influence() -> None:
    assert _share_of_half(np.array([1.0, 5.0, 2.0, 1.0])) == 0.25
    assert _share_of_half(np.array([1.0, 1.0, 1.0, 1.0])) == 0.5


def test_other_models() -> None:
    found = influence(build(BERT4Rec), loader(rows=8), shares=(0.01,))
    assert found.frame["last_item_share"].sum() == pytest.approx(1)
    assert set(found.tables()) == {
        "influence",
        "influence_modules",
        "influence_layers",
        "influence_removal",
        "influence_removal_differences",
    }


def test_sums_by_module_and_layer(model: SASRec) -> None:
    found = influence(model, loader(rows=8), shares=(0.01,))
    blocks = [
        (layer, f"trm_encoder.{block}")
        for layer in ("1", "2")
        for block in ("multi_head_attention", "feed_forward")
    ]
    outside = [("", name) for name in ("item_embedding", "position_embedding", "LayerNorm")]
    modules = found.modules.set_index(["layer", "module"])
    assert set(modules.index) == {*blocks, *outside}
    parameters = found.frame.set_index("parameter")
    for name, (layer, module) in {
        "trm_encoder.layer.1.feed_forward": ("2", "trm_encoder.feed_forward"),
        "trm_encoder.layer.0.multi_head_attention": ("1", "trm_encoder.multi_head_attention"),
        "LayerNorm": ("", "LayerNorm"),
    }.items():
        own = parameters[[row.startswith(f"{name}.") for row in parameters.index]]
        size = sum(w.numel() for n, w in model.named_parameters() if n.startswith(f"{name}."))
        row = modules.loc[(layer, module)]
        assert row["n_weights"] == size == own["n_weights"].sum()
        for loss in ("accuracy", "last_item"):
            assert row[f"{loss}_share"] == pytest.approx(own[f"{loss}_share"].sum())
            of_weights = size / parameters["n_weights"].sum()
            assert row[f"{loss}_density"] == pytest.approx(row[f"{loss}_share"] / of_weights)
    layers = found.layers.set_index("layer")
    assert list(layers.index) == ["", "1", "2"]
    for layer in layers.index:
        own = found.frame[found.frame["layer"] == layer]["last_item_share"].sum()
        assert layers.loc[layer, "last_item_share"] == pytest.approx(own)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shares": 0.1}, "shares = 0.1"),
        ({"shares": []}, "shares"),
        ({"shares": [1.0]}, "below 1"),
        ({"k": 0}, "k = 0"),
        ({"seed": -1}, "seed = -1"),
    ],
)
def test_mistakes_are_told(model: SASRec, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ProbeError, match=message):
        influence(model, loader(), **options)
