"""The fast ratios against the [B, L, L, D] form."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings

from recbole_residual.decomposition.blocks import tapped
from recbole_residual.decomposition.ratios import (
    attention_ratios,
    feed_forward_ratios,
    gained_norm,
    head_ratios,
)
from recbole_residual.decomposition.stages import ATTENTION_STAGES, FEED_FORWARD_STAGES
from recbole_residual.decomposition.states import FeedForwardState
from recbole_residual.model.architecture.layers import model_layers
from recbole_residual.model.residual import scale_residual
from tests.decomposition.cases import Case, cases, make_case
from tests.decomposition.direct import direct_contributions, direct_ratios


@torch.no_grad()
def slow(case: Case) -> torch.Tensor:
    block, direct = case.direct()
    return direct_ratios(
        direct.contributions, direct.residual, block.dense, block.LayerNorm, case.mask
    )


@settings(deadline=None, max_examples=150)
@given(cases())
def test_ratios_are_those_of_the_direct_form(case: Case) -> None:
    ratios = attention_ratios(case.state(), ATTENTION_STAGES)
    assert ratios.dtype == case.x.dtype
    tolerance = 1e-5 if case.x.dtype == torch.float32 else 1e-10
    torch.testing.assert_close(ratios.double(), slow(case), rtol=0, atol=tolerance)


@settings(deadline=None, max_examples=30)
@given(cases())
def test_any_choice_and_order_of_stages(case: Case) -> None:
    state = case.state()
    every = dict(zip(ATTENTION_STAGES, attention_ratios(state, ATTENTION_STAGES)))
    for stages in [("ln",), ("res",), ("attn",), ("ln", "attn"), ("res", "ln", "attn")]:
        for name, ratios in zip(stages, attention_ratios(state, stages)):
            assert torch.equal(ratios, every[name])


@settings(deadline=None, max_examples=30)
@given(cases())
def test_first_position_of_a_causal_model_takes_exactly_nothing(case: Case) -> None:
    ratios = attention_ratios(case.state(), ATTENTION_STAGES)
    causal = case.attention_mask.shape[2] > 1 or case.mask.shape[1] == 1
    alone = case.mask.sum(dim=1) == 1
    chosen = ratios[:, :, 0] if causal else ratios[:, alone, 0]
    assert (chosen == 0).all()
    assert causal or bool((ratios[0, ~alone, 0] > 0).all())


def test_chunks_and_picked_rows_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    case = make_case([7, 1, 3], n_heads=2, head_size=4, dtype=torch.float64)
    whole = attention_ratios(case.state(), ATTENTION_STAGES)
    for share in (0.0, 1.1):
        monkeypatch.setattr("recbole_residual.decomposition.ratios._DENSE", share)
        monkeypatch.setattr("recbole_residual.decomposition.ratios._ROWS", {"cpu": 2})
        again = attention_ratios(case.state(), ATTENTION_STAGES)
        torch.testing.assert_close(again, whole, rtol=0, atol=1e-14)


def test_padding_changes_nothing() -> None:
    short = make_case([2, 4], n_heads=2, head_size=4)
    long = make_case([2, 4, 9], extra=5, n_heads=2, head_size=4)
    long.x[:2, :4] = short.x
    ratios = [attention_ratios(case.state(), ATTENTION_STAGES) for case in (short, long)]
    torch.testing.assert_close(ratios[1][:, :2, :4], ratios[0], rtol=0, atol=1e-6)
    assert (ratios[1][:, :2, 4:] == 0).all()


def test_nothing_kept_and_nothing_taken_is_ratio_0() -> None:
    case = make_case([3], head_size=4, alpha=0.0)
    torch.nn.init.zeros_(case.block.dense.weight)
    assert (attention_ratios(case.state(), ATTENTION_STAGES) == 0).all()


@settings(deadline=None, max_examples=40)
@given(cases())
def test_head_ratios_are_those_of_the_direct_form(case: Case) -> None:
    block, direct = case.direct()
    ratios = head_ratios(case.state())
    for head in range(block.num_attention_heads):
        alone = torch.zeros_like(direct.weights)
        alone[:, head] = direct.weights[:, head]
        contributions = direct_contributions(alone, direct.values, block.dense).detach()
        expected = direct_ratios(
            contributions, direct.residual, block.dense, block.LayerNorm, case.mask
        )[0]
        torch.testing.assert_close(ratios[head].double(), expected, rtol=0, atol=1e-5)


@settings(deadline=None, max_examples=40)
@given(cases())
def test_feed_forward_pair(case: Case) -> None:
    states: list[FeedForwardState] = []
    watching = tapped(
        case.encoder,
        model_layers(case.encoder),
        lambda index, state: None,
        lambda index, state: states.append(state),
    )
    with (
        torch.no_grad(),
        scale_residual(case.encoder, case.alpha, feed_forward=case.alpha),
        watching,
    ):
        output = case.encoder(case.x, case.attention_mask)[0]
    ratios = feed_forward_ratios(states[0], FEED_FORWARD_STAGES)
    block = case.encoder.layer[0].feed_forward
    norm = block.LayerNorm
    with torch.no_grad(), scale_residual(case.encoder, case.alpha):
        x = case.block(case.x, case.attention_mask)
    with torch.no_grad():
        written = block.intermediate_act_fn(block.dense_1(x)) @ block.dense_2.weight.t()
        kept = case.alpha * x
        z = kept + written + block.dense_2.bias
        torch.testing.assert_close(norm(z), output, rtol=1e-3, atol=1e-3)
        sigma = torch.sqrt(z.var(-1, unbiased=False, keepdim=True) + norm.eps)
        normed = [
            norm.weight * (part - part.mean(-1, keepdim=True)) / sigma for part in (written, kept)
        ]
    for ratio, (mixing, preserving) in zip(ratios, [(written, kept), normed]):
        expected = mixing.norm(dim=-1) / (mixing.norm(dim=-1) + preserving.norm(dim=-1))
        torch.testing.assert_close(ratio, expected * case.mask, rtol=0, atol=1e-5)


def test_gained_norm_of_constant_and_huge_vectors() -> None:
    norm = torch.nn.LayerNorm(4)
    norm.weight.data = torch.tensor([1.0, 2.0, 3.0, 4.0])
    vectors = torch.tensor([[3.0] * 4, [0.0] * 4, [1e4, -1e4, 0.0, 0.0], [1e-6, 0.0, 0.0, 0.0]])
    gained = norm.weight * (vectors - vectors.mean(-1, keepdim=True))
    torch.testing.assert_close(gained_norm(vectors, norm), gained.norm(dim=-1))
    plain = torch.nn.LayerNorm(4, elementwise_affine=False)
    centred = vectors - vectors.mean(-1, keepdim=True)
    torch.testing.assert_close(gained_norm(vectors, plain), centred.norm(dim=-1))
