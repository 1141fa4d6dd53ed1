"""Attention in pieces against attention written out, with the same weights dropped."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from recbole_residual.model import causal_attention as module
from recbole_residual.model.causal_attention import causal_attention


def make_qkv(batch, length, heads, width, dtype=torch.float64):
    generator = torch.Generator().manual_seed(batch + length)
    return torch.randn(batch, length, 3, heads, width, generator=generator, dtype=dtype)


def drawn_by(shape, seed):
    """Which weights are kept, [B, H, L, L]: a function of the place alone."""
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed)) < 0.7


def give_masks(monkeypatch, kept, queries, cached):
    """The pieces take their part of ``kept``, in the order in which they are worked on."""
    monkeypatch.setattr(module, "_QUERIES_PER_BLOCK", queries)
    monkeypatch.setattr(module, "_CACHED_SCORES", cached)
    batch, heads, length, _ = kept.shape
    tiles = iter(list(module._tiles(batch, length, heads)))

    def draw_kept(mask, p):
        rows, head, block = next(tiles)
        return mask.copy_(kept[rows, head, block, : block.stop])

    monkeypatch.setattr(module, "draw_kept", draw_kept)


def slow_attention(qkv, kept, p):
    query, key, value = qkv.permute(2, 0, 3, 1, 4)
    scores = query @ key.transpose(-1, -2) / math.sqrt(qkv.shape[-1])
    future = torch.ones(qkv.shape[1], qkv.shape[1], dtype=torch.bool).triu(1)
    weights = scores.masked_fill(future, -math.inf).softmax(-1) * kept / (1 - p)
    return (weights @ value).transpose(1, 2).flatten(2)


@settings(deadline=None, max_examples=40)
@given(
    st.integers(1, 4),
    st.integers(1, 11),
    st.integers(1, 3),
    st.integers(1, 4),
    st.integers(1, 6),
    st.integers(1, 60),
)
def test_values_and_gradients_are_those_of_whole_attention(
    batch, length, heads, width, queries, cached
):
    qkv = make_qkv(batch, length, heads, width).requires_grad_()
    kept = drawn_by((batch, heads, length, length), length)
    upstream = torch.randn(batch, length, heads * width, dtype=torch.float64)
    with pytest.MonkeyPatch.context() as monkeypatch:
        give_masks(monkeypatch, kept, queries, cached)
        fast = causal_attention(qkv, 0.25)
        (fast_gradient,) = torch.autograd.grad(fast, qkv, upstream)
    slow = slow_attention(qkv, kept, 0.25)
    (slow_gradient,) = torch.autograd.grad(slow, qkv, upstream)
    torch.testing.assert_close(fast, slow)
    torch.testing.assert_close(fast_gradient, slow_gradient)


@pytest.mark.parametrize("length", [1, 50, 64, 65, 200])
def test_pieces_cover_every_query_once(length):
    seen = torch.zeros(7, 2, length)
    for rows, head, block in module._tiles(7, length, 2):
        seen[rows, head, block] += 1
    assert (seen == 1).all()


def test_what_is_kept_has_the_mean_of_no_dropout():
    qkv = make_qkv(1, 5, 1, 2)
    torch.manual_seed(0)
    many = causal_attention(qkv.expand(20000, -1, -1, -1, -1), 0.3)
    plain = slow_attention(qkv, torch.ones(()), 0.0)[0]
    error = many.std(0) / 20000**0.5
    assert ((many.mean(0) - plain).abs() < 5 * error).all()


def test_keeps_one_tensor_of_weights_and_no_future():
    qkv = make_qkv(3, 128, 2, 4, torch.float32).requires_grad_()
    stored = 0

    def pack(tensor):
        nonlocal stored
        stored += tensor.numel()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        causal_attention(qkv, 0.5)
    assert stored <= qkv.numel() + 0.75 * 3 * 2 * 128 * 128


def test_half_precision_comes_and_goes_and_float32_is_between():
    half = make_qkv(3, 40, 2, 8, torch.float32).bfloat16().requires_grad_()
    single = half.detach().float().requires_grad_()
    results = []
    for qkv in (half, single):
        torch.manual_seed(1)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            context = causal_attention(qkv, 0.5)
        context.sum().backward()
        results.append((context.detach(), qkv.grad))
    for mine, exact in zip(*results):
        assert mine.dtype == torch.bfloat16
        assert torch.equal(mine, exact.bfloat16())
