"""block: ligr, written out; its gate inside the mixing part; post and pre as before."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from recbole.data.interaction import Interaction
from torch import nn

from recbole_residual.decomposition import decompose, score_shares
from recbole_residual.decomposition.blocks import tapped
from recbole_residual.decomposition.states import AttentionState
from recbole_residual.errors import ModelError
from recbole_residual.model import SASRecResidual
from recbole_residual.model.architecture.layers import model_layers
from recbole_residual.model.objective import target_list_field
from recbole_residual.model.residual import scale_residual
from tests.conftest import TinyDataset, random_interaction, tiny_config


def built(block: str | None = "ligr", **changes: Any) -> Any:
    torch.manual_seed(0)
    model = SASRecResidual(tiny_config(block=block, **changes), TinyDataset(30)).eval()
    if block == "ligr":
        for weight in model.parameters():  # so that no bias is 0 and no gain is 1
            weight.data += 0.1 * torch.randn_like(weight)
    return model


def without_hooks(norm: nn.LayerNorm, x: torch.Tensor) -> torch.Tensor:
    return nn.functional.layer_norm(x, norm.normalized_shape, norm.weight, norm.bias, norm.eps)


def written_out(
    model: Any, item_seq: torch.Tensor, alpha: float = 1.0, feed_forward: float = 1.0
) -> torch.Tensor:
    """The formula of the docs; RecBole's LayerNorms stand in the order in which they are read."""
    length = item_seq.shape[1]
    x = model.item_embedding(item_seq) + model.position_embedding.weight[:length]
    causal = torch.full((length, length), -torch.inf).triu(1)
    norm = model.LayerNorm
    for layer in model.trm_encoder.layer:
        block, ffn = layer.multi_head_attention, layer.feed_forward
        heads = (block.num_attention_heads, block.attention_head_size)
        read = without_hooks(norm, x)
        query, key, value = (
            linear(read).unflatten(-1, heads).transpose(1, 2)
            for linear in (block.query, block.key, block.value)
        )
        weights = (query @ key.transpose(-1, -2) / heads[1] ** 0.5 + causal).softmax(-1)
        taken = block.dense((weights @ value).transpose(1, 2).flatten(-2))
        x = alpha * x + taken * torch.sigmoid(block.branch_gate.dense(x))
        first, second = ffn.dense_1(without_hooks(block.LayerNorm, x)).chunk(2, -1)
        written = ffn.dense_2(first * torch.sigmoid(first) * second)
        x = feed_forward * x + written * torch.sigmoid(ffn.branch_gate.dense(x))
        norm = ffn.LayerNorm
    return without_hooks(norm, x)


@torch.no_grad()
def test_scores_are_those_written_out_and_alpha_scales_the_carried_x() -> None:
    model = built()
    interaction = random_interaction(rows=9)
    item_seq, item_seq_len = interaction["item_id_list"], interaction["item_length"]
    for alpha, feed_forward in ((1.0, 1.0), (0.3, 1.0), (0.3, 0.6)):
        hidden = written_out(model, item_seq, alpha, feed_forward)
        expected = hidden[torch.arange(9), item_seq_len - 1] @ model.item_embedding.weight.t()
        with scale_residual(model, alpha, feed_forward=feed_forward):
            scores = model.full_sort_predict(interaction)
        torch.testing.assert_close(scores, expected, rtol=1e-4, atol=1e-4)


@torch.no_grad()
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_the_other_blocks_are_what_norm_says_bit_for_bit(norm: str) -> None:
    interaction = random_interaction()
    plain, named = built(None, norm=norm), built(norm)
    assert plain.block == named.block == norm
    assert plain.state_dict().keys() == named.state_dict().keys()
    assert torch.equal(plain.full_sort_predict(interaction), named.full_sort_predict(interaction))
    with pytest.raises(ModelError, match="block = 'gated' is not usable"):
        built("gated")


def test_training_at_all_positions_trains_the_control() -> None:
    model = built().train()
    interaction = random_interaction(rows=9)
    item_seq = interaction["item_id_list"]
    targets = torch.randint(1, 30, item_seq.shape) * (item_seq > 0)
    batch = Interaction({**interaction.interaction, target_list_field("item_id_list"): targets})
    loss = model.calculate_loss(batch)
    logits = written_out(model, item_seq)[item_seq > 0] @ model.item_embedding.weight.t()
    expected = nn.functional.cross_entropy(logits, targets[item_seq > 0])
    torch.testing.assert_close(loss, expected, rtol=1e-4, atol=0)
    loss.backward()
    for layer in model.trm_encoder.layer:
        assert layer.multi_head_attention.branch_gate.dense.weight.grad.abs().sum() > 0


def direct_parts(state: AttentionState) -> tuple[torch.Tensor, torch.Tensor]:
    """``gate_i * a_ij`` as [B, L, L, D], and what a position keeps, [B, L, D]."""
    n_heads = state.weights.shape[1]
    values = state.values.unflatten(-1, (n_heads, -1))
    output = state.dense.weight.t().unflatten(0, (n_heads, -1))
    taken = torch.einsum("bhij,bjhw,hwd->bijd", state.weights, values, output)
    taken = taken * state.gate.unsqueeze(2)
    own = taken.diagonal(dim1=1, dim2=2).transpose(1, 2)
    return taken, own + state.alpha * state.x


@torch.no_grad()
@pytest.mark.parametrize("alpha", [1.0, 0.3])
def test_the_gate_is_inside_the_mixing_part_and_nothing_is_missing(alpha: float) -> None:
    model = built().double()
    interaction = random_interaction(rows=9)
    states: list[AttentionState] = []
    with scale_residual(model, alpha):
        decomposition = decompose(
            model, interaction, ("attn", "res", "ln", "ffn"), maps=True, heads=True, parts=True
        )
        shares = score_shares(model, interaction)
        with tapped(model, model_layers(model), lambda index, state: states.append(state)):
            model.full_sort_predict(interaction)
    completeness = decomposition.completeness()
    assert (completeness.error <= 1e-10 * completeness.largest).all()
    torch.testing.assert_close(shares.total, shares.score)
    for layer, state in enumerate(states):
        taken, kept = direct_parts(state)
        mask, order = state.mask, torch.arange(taken.shape[1])
        others = taken * (order[:, None] != order)[None, :, :, None] * mask[:, None, :, None]
        mixing, own = others.sum(dim=2), kept - state.alpha * state.x
        sigma = (state.z.var(-1, unbiased=False) + state.norm.eps).sqrt()

        def normed(u: torch.Tensor, state: AttentionState = state) -> torch.Tensor:
            return state.norm.weight * (u - u.mean(-1, keepdim=True))

        for stage, (m, p) in enumerate(
            [(mixing, own), (mixing, kept), (normed(mixing), normed(kept))]
        ):
            m, p = m.norm(dim=-1), p.norm(dim=-1)
            expected = torch.nan_to_num(m / (m + p)) * mask
            torch.testing.assert_close(decomposition.ratios[layer, stage], expected)
        expected = normed(taken).norm(dim=-1) / sigma.unsqueeze(-1)
        expected[:, order, order] = normed(kept).norm(dim=-1) / sigma
        expected = expected * mask[:, :, None] * mask[:, None, :]
        assert decomposition.contributions is not None
        visible = torch.tril(torch.ones(len(order), len(order)))
        torch.testing.assert_close(decomposition.contributions[layer] * visible, expected * visible)


@torch.no_grad()
def test_recent_maps_and_a_copy() -> None:
    model = built()
    interaction = random_interaction(rows=9)
    whole = decompose(model, interaction, maps=True)
    recent = decompose(model, interaction, maps=True, recent=3)
    for row, length in enumerate(interaction["item_length"].tolist()):
        if length >= 3:
            expected = whole.contributions[:, row, length - 3 : length, length - 3 : length]
            torch.testing.assert_close(recent.contributions[:, row], expected)
    twin = copy.deepcopy(model)
    expected = model.full_sort_predict(interaction)
    for weight in model.parameters():
        weight.zero_()
    assert torch.equal(twin.full_sort_predict(interaction), expected)
