"""Causal self-attention with dropout on its weights, for training on a CPU.

torch's fused attention knows no dropout on a CPU, and its modules hold several tensors of
[B, H, L, L]. Here a group of sequences is worked on at a time, so that its scores stay in the
cache, and a block of queries meets only the keys up to its own end: of long sequences little more
than the half that the causal mask leaves.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch.autograd.function import once_differentiable

from recbole_residual.model.dropout import draw_kept, kept_share

_CACHED_SCORES = 2**18
_QUERIES_PER_BLOCK = 64


def causal_attention(qkv: torch.Tensor, p: float) -> torch.Tensor:
    """``dropout(softmax(causal(Q @ K.T / sqrt(W)))) @ V`` for every head.

    Half precision, as of autocast, is computed in float32: softmax needs it, and a CPU without
    products of bfloat16 loses nothing by it.

    Args:
        qkv: queries, keys and values, on the CPU, [B, L, 3, H, W].
        p: share of the attention weights that is dropped, above 0 and below 1.

    Returns:
        torch.Tensor: [B, L, H * W], in the precision of ``qkv``.
    """
    compute_dtype = torch.promote_types(qkv.dtype, torch.float32)
    with torch.autocast("cpu", enabled=False):
        return _CausalAttention.apply(qkv.to(compute_dtype), p).to(qkv.dtype)


def _tiles(batch: int, length: int, heads: int) -> Iterator[tuple[slice, int, slice]]:
    """Sequences, head and queries that are worked on at a time."""
    n_blocks = -(-length // _QUERIES_PER_BLOCK)
    queries = -(-length // n_blocks)
    group = max(1, _CACHED_SCORES // (queries * length))
    for first in range(0, batch, group):
        for head in range(heads):
            for begin in range(0, length, queries):
                yield (
                    slice(first, min(first + group, batch)),
                    head,
                    slice(begin, min(begin + queries, length)),
                )


class _CausalAttention(torch.autograd.Function):
    """Keeps the weights alone for the backward pass; the sign of one says that it was dropped."""

    @staticmethod
    def forward(ctx: Any, qkv: torch.Tensor, p: float) -> torch.Tensor:
        batch, length, _, heads, width = qkv.shape
        context = qkv.new_empty(batch, length, heads, width)
        future = torch.full((length, length), -math.inf, dtype=qkv.dtype).triu_(1)
        scale = 1 / kept_share(p)
        kept_weights = []
        for rows, head, block in _tiles(batch, length, heads):
            query = qkv[rows, block, 0, head]
            key, value = qkv[rows, : block.stop, 1, head], qkv[rows, : block.stop, 2, head]
            weights = torch.baddbmm(
                future[block, : block.stop],
                query,
                key.transpose(1, 2),
                alpha=1 / math.sqrt(width),
            )
            torch.softmax(weights, dim=-1, out=weights)
            sign = draw_kept(torch.empty_like(weights), p).mul_(2).sub_(1)
            weights.mul_(sign)
            kept = torch.clamp_min(weights, 0, out=sign)
            context[rows, block, head] = torch.bmm(kept, value).mul_(scale)
            kept_weights.append(weights)
        ctx.save_for_backward(qkv, *kept_weights)
        ctx.scale = scale
        return context.view(batch, length, heads * width)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        qkv, *kept_weights = ctx.saved_tensors
        batch, length, _, heads, width = qkv.shape
        grad = grad.view(batch, length, heads, width)
        grad_qkv = torch.zeros_like(qkv)
        value_factor, score_factor = ctx.scale, ctx.scale / math.sqrt(width)
        tiles = _tiles(batch, length, heads)
        for (rows, head, block), weights in zip(tiles, kept_weights):
            seen = slice(0, block.stop)
            query, key, value = (
                qkv[rows, block, 0, head],
                qkv[rows, seen, 1, head],
                qkv[rows, seen, 2, head],
            )
            upstream = grad[rows, block, head]
            kept = weights.clamp_min(0)
            grad_value = torch.bmm(kept.transpose(1, 2), upstream)
            grad_qkv[rows, seen, 2, head].add_(grad_value, alpha=value_factor)
            # through dropout and softmax: w * (g - sum(w * g)), g zero where w was dropped
            errors = torch.bmm(upstream, value.transpose(1, 2)).mul_(kept)
            total = errors.sum(-1, keepdim=True)
            errors.addcmul_(torch.abs(weights, out=kept), total, value=-1)
            grad_qkv[rows, block, 0, head] = torch.bmm(errors, key).mul_(score_factor)
            grad_key = torch.bmm(errors.transpose(1, 2), query)
            grad_qkv[rows, seen, 1, head].add_(grad_key, alpha=score_factor)
        return grad_qkv, None
