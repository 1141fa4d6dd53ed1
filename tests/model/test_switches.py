"""Switches on trained models: right while they are on, gone afterwards."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from recbole.model.layers import MultiHeadAttention
from recbole.model.sequential_recommender import BERT4Rec, GRU4Rec, LightSANs, SASRec
from torch import nn

from recbole_residual.errors import NoAttentionError, NoSwitchError
from recbole_residual.model.residual import scale_residual
from recbole_residual.model.switches import uniform_attention, without_position
from tests.conftest import TinyDataset, random_interaction, tiny_config


def hooks_of(model: nn.Module) -> int:
    return sum(
        len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules()
    )


def uniform_block(block: MultiHeadAttention, x: torch.Tensor, valid: torch.Tensor) -> torch.Tensor:
    """Position by position: the plain mean of the values that it may see."""
    value = block.value(x)
    rows = []
    for row in range(len(x)):
        means = [value[row][valid[row, i]].mean(dim=0) for i in range(x.shape[1])]
        rows.append(torch.stack(means))
    return block.LayerNorm(block.dense(torch.stack(rows)) + x)


@settings(deadline=None, max_examples=20)
@given(
    heads=st.sampled_from([1, 2, 4]),
    length=st.integers(1, 7),
    bidirectional=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_uniform_attention_averages_what_is_visible(heads, length, bidirectional, seed) -> None:
    torch.manual_seed(seed)
    block = MultiHeadAttention(heads, 8, 0.0, 0.0, 1e-12).eval().double()
    item_seq = random_interaction(rows=3, length=length, seed=seed)["item_id_list"]
    x = torch.randn(3, length, 8, dtype=torch.float64)
    mask = SASRec.get_attention_mask(None, item_seq, bidirectional)
    valid = (mask[:, 0] == 0).expand(-1, length, -1)
    with uniform_attention(block):
        assert torch.allclose(block(x, mask), uniform_block(block, x, valid), atol=1e-12)
    assert hooks_of(block) == 0


@pytest.mark.parametrize("model_class", [SASRec, BERT4Rec])
@pytest.mark.parametrize("switch", [uniform_attention, without_position])
def test_switch_changes_scores_and_leaves_no_trace(model_class, switch) -> None:
    torch.manual_seed(0)
    model = model_class(tiny_config(), TinyDataset(30)).eval()
    interaction = random_interaction()
    before = model.full_sort_predict(interaction)
    with switch(model):
        during = model.full_sort_predict(interaction)
        with switch(model):
            assert torch.equal(model.full_sort_predict(interaction), during)
        assert torch.equal(model.full_sort_predict(interaction), during)
    assert not torch.allclose(before, during)
    with pytest.raises(KeyError), switch(model):
        raise KeyError
    assert hooks_of(model) == 0
    assert torch.equal(model.full_sort_predict(interaction), before)


def test_without_position_equals_a_table_of_zeros() -> None:
    torch.manual_seed(0)
    model = SASRec(tiny_config(), TinyDataset(30)).eval()
    interaction = random_interaction()
    with without_position(model):
        switched = model.full_sort_predict(interaction)
    with torch.no_grad():
        model.position_embedding.weight.zero_()
    assert torch.equal(switched, model.full_sort_predict(interaction))


def test_switches_nest_with_the_scaled_residual() -> None:
    torch.manual_seed(0)
    model = SASRec(tiny_config(), TinyDataset(30)).eval()
    interaction = random_interaction()
    with uniform_attention(model), scale_residual(model, 0.3):
        one = model.full_sort_predict(interaction)
    with scale_residual(model, 0.3), uniform_attention(model):
        other = model.full_sort_predict(interaction)
    with scale_residual(model, 0.3):
        learned = model.full_sort_predict(interaction)
    assert torch.equal(one, other)
    assert not torch.allclose(one, learned)


def test_models_without_the_part_are_refused() -> None:
    sizes = {"embedding_size": 8, "num_layers": 1, "dropout_prob": 0.0}
    gru = GRU4Rec(tiny_config(**sizes), TinyDataset(30))
    with pytest.raises(NoSwitchError, match="GRU4Rec has no learned position"):
        without_position(gru).__enter__()
    with pytest.raises(NoAttentionError):
        uniform_attention(gru).__enter__()
    light = LightSANs(tiny_config(k_interests=3), TinyDataset(30))
    with pytest.raises(NoSwitchError, match="LightMultiHeadAttention"):
        uniform_attention(light).__enter__()
    assert hooks_of(light) == 0
