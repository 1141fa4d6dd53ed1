"""One layer of SASRec taken apart in the pass that computes it.

What the norm-based decomposition needs of an attention block, the output layer applied to what a
position takes from others and to what it takes from itself, adds up to the block's own output: a
forward that works it out instead of the output itself has the mixing ratios for little more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Callable

import torch
from torch import nn

from recbole_residual.model.architecture.functions import activation
from recbole_residual.model.mass_attention import norm_order

_SAFE_SCORE = 60.0
"""Attention scores up to this size can be exponentiated as they are in float32."""


@dataclass(frozen=True)
class SasrecLayer:
    """Weights of one layer, laid out for products with rows of positions; see :meth:`of`."""

    n_heads: int
    norm_order: float
    attention: nn.Module
    query_key: torch.Tensor
    query_key_bias: torch.Tensor
    value: torch.Tensor
    value_bias: torch.Tensor
    dense: nn.Linear
    norm: nn.LayerNorm
    dense_1: nn.Linear
    activation: Callable[[torch.Tensor], torch.Tensor]
    dense_2: nn.Linear
    output_norm: nn.LayerNorm

    @classmethod
    def of(cls, layer: Any) -> SasrecLayer:
        """The weights of a RecBole ``TransformerLayer``."""
        attention, feed_forward = layer.multi_head_attention, layer.feed_forward
        # Scores come out divided by sqrt(d) already.
        scale = 1 / math.sqrt(attention.attention_head_size)
        return cls(
            n_heads=attention.num_attention_heads,
            norm_order=norm_order(attention),
            attention=attention,
            query_key=torch.cat([attention.query.weight * scale, attention.key.weight]).t(),
            query_key_bias=torch.cat([attention.query.bias * scale, attention.key.bias]),
            value=attention.value.weight.t(),
            value_bias=attention.value.bias,
            dense=attention.dense,
            norm=attention.LayerNorm,
            dense_1=feed_forward.dense_1,
            activation=activation(feed_forward),
            dense_2=feed_forward.dense_2,
            output_norm=feed_forward.LayerNorm,
        )


@dataclass(frozen=True)
class CausalRows:
    """B sequences padded at the end to L, their positions flat.

    Attributes:
        n_rows: B.
        n_positions: L.
        keep: 1 where a query sees a key, else 0, [L, L].
        mask: 0 where a query sees a key, else -inf, [L, L].
    """

    n_rows: int
    n_positions: int
    keep: torch.Tensor
    mask: torch.Tensor

    @classmethod
    def of(cls, n_rows: int, n_positions: int, like: torch.Tensor) -> CausalRows:
        """Of the type and on the device of ``like``."""
        keep = torch.ones(n_positions, n_positions, dtype=like.dtype, device=like.device).tril_()
        mask = torch.where(keep > 0, 0.0, -torch.inf).to(keep.dtype)
        return cls(n_rows, n_positions, keep, mask)


def others_and_own(
    layer: SasrecLayer, x: torch.Tensor, rows: CausalRows
) -> tuple[torch.Tensor, torch.Tensor]:
    """What every position takes from the others, and from itself.

    Args:
        layer: the layer, whose attention is not changed by dropout.
        x: its input, padding last in every row, [N, D] with N = B * L.
        rows: how the positions stand in rows.

    Returns:
        m_i and a_ii, without the output layer's bias, [N, D] each.
    """
    n, n_dim = x.shape
    n_heads, size = layer.n_heads, n_dim // layer.n_heads
    by_row = (rows.n_rows, rows.n_positions)
    query_key = torch.addmm(layer.query_key_bias, x, layer.query_key).view(
        *by_row, 2, n_heads, size
    )
    value = torch.addmm(layer.value_bias, x, layer.value)
    by_head = value.view(*by_row, n_heads, size)
    parts = x.new_empty(2, n, n_dim)
    context = parts[0].view(*by_row, n_heads, size)
    own_weight = x.new_empty(n, n_heads)
    total = x.new_empty(n, n_heads)
    for head in range(n_heads):
        query, key = query_key[:, :, 0, head], query_key[:, :, 1, head]
        weights = torch.bmm(query, key.transpose(1, 2))
        weights = _exponentiate(weights, layer.norm_order, rows)
        context[:, :, head] = torch.bmm(weights, by_head[:, :, head])
        own_weight[:, head] = weights.diagonal(dim1=1, dim2=2).reshape(-1)
        total[:, head] = _norm_of(weights, layer.norm_order).view(-1)
    spread = torch.eye(n_heads, dtype=x.dtype, device=x.device).repeat_interleave(size, dim=1)
    torch.mul(value, own_weight @ spread, out=parts[1])
    parts[0] -= parts[1]
    parts *= torch.reciprocal(total) @ spread
    output = torch.mm(parts.view(2 * n, n_dim), layer.dense.weight.t()).view(2, n, n_dim)
    return output[0], output[1]


def _norm_of(weights: torch.Tensor, order: float) -> torch.Tensor:
    """What divides the weights of each query: their sum, or their norm, [B, L, L] -> [B, L]."""
    return weights.sum(dim=2) if order == 1 else weights.pow(order).sum(dim=2).pow(1 / order)


def _exponentiate(scores: torch.Tensor, order: float, rows: CausalRows) -> torch.Tensor:
    """Attention weights up to a factor per query, 0 where the query does not see the key."""
    if scores.device.type == "cpu" and order == 1:
        low, high = torch.aminmax(scores)
        if low.item() > -_SAFE_SCORE and high.item() < _SAFE_SCORE:
            # No shift is needed, and hidden keys at -inf would make exp many times slower.
            return scores.exp_().mul_(rows.keep)
    return torch.softmax(scores.add_(rows.mask), dim=-1)
