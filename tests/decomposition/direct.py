"""The decomposition written out as it is defined, with a tensor of [B, L, L, D].

Slow and obvious on purpose: the twin of the fast form for tests and benchmarks.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn


def direct_contributions(
    weights: torch.Tensor, values: torch.Tensor, dense: nn.Linear
) -> torch.Tensor:
    """``a_ij = sum_h A^h_ij v^h_j W_O^h``, [B, L, L, D]."""
    n_heads = weights.shape[1]
    values = values.unflatten(-1, (n_heads, -1))
    output = dense.weight.t().unflatten(0, (n_heads, -1))
    head_values = torch.einsum("bjhd,hde->bhje", values, output)
    return torch.einsum("bhij,bhje->bije", weights, head_values)


def direct_norm(vectors: torch.Tensor, norm: nn.LayerNorm, sigma: torch.Tensor) -> torch.Tensor:
    """``N_i(u) = g * (u - mean(u)) / sigma_i``; sigma is broadcast over the last dimension."""
    return norm.weight * (vectors - vectors.mean(-1, keepdim=True)) / sigma.unsqueeze(-1)


def direct_ratios(
    contributions: torch.Tensor,
    residual: torch.Tensor,
    dense: nn.Linear,
    norm: nn.LayerNorm,
    mask: torch.Tensor,
) -> torch.Tensor:
    """Ratios of the stages attn, res and ln, [3, B, L]; ``residual`` is alpha * x."""
    length = contributions.shape[1]
    own = contributions[:, torch.arange(length), torch.arange(length)]
    off = ~torch.eye(length, dtype=torch.bool) & mask[:, None, :]
    mixing = torch.einsum("bijd,bij->bid", contributions, off.to(contributions.dtype))
    sigma = torch.sqrt(
        (contributions.sum(2) + residual + dense.bias).var(-1, unbiased=False) + norm.eps
    )
    pairs = [
        (own, mixing),
        (own + residual, mixing),
        (direct_norm(own + residual, norm, sigma), direct_norm(mixing, norm, sigma)),
    ]
    ratios = []
    for preserving, mixed in pairs:
        kept, taken = preserving.norm(dim=-1), mixed.norm(dim=-1)
        ratio = taken / (taken + kept)
        ratios.append(torch.where(mask & (taken + kept > 0), ratio, torch.zeros(())))
    return torch.stack(ratios)


def direct_map(
    contributions: torch.Tensor,
    residual: torch.Tensor,
    dense: nn.Linear,
    norm: nn.LayerNorm,
    mask: torch.Tensor,
) -> torch.Tensor:
    """``||N_i(a_ij)||`` with the residual on the diagonal, [B, L, L]."""
    length = contributions.shape[1]
    z = contributions.sum(2) + residual + dense.bias
    sigma = torch.sqrt(z.var(-1, unbiased=False) + norm.eps)
    parts = contributions.clone()
    parts[:, torch.arange(length), torch.arange(length)] += residual
    norms = direct_norm(parts, norm, sigma.unsqueeze(-1)).norm(dim=-1)
    return norms * (mask[:, :, None] & mask[:, None, :])


@dataclass
class DirectBlock:
    """Everything of one MultiHeadAttention block, recomputed from its input."""

    weights: torch.Tensor
    values: torch.Tensor
    contributions: torch.Tensor
    residual: torch.Tensor
    z: torch.Tensor


def direct_block(
    block: nn.Module, x: torch.Tensor, attention_mask: torch.Tensor, alpha: float = 1.0
) -> DirectBlock:
    """Run a MultiHeadAttention block by hand, up to what its LayerNorm sees."""
    n_heads = block.num_attention_heads
    query, key, value = block.query(x), block.key(x), block.value(x)
    query, key = (part.unflatten(-1, (n_heads, -1)).transpose(1, 2) for part in (query, key))
    scores = query @ key.transpose(-1, -2) / block.attention_head_size**0.5
    weights = torch.softmax(scores + attention_mask, dim=-1)
    contributions = direct_contributions(weights, value, block.dense)
    residual = alpha * x
    z = contributions.sum(2) + residual + block.dense.bias
    return DirectBlock(weights, value, contributions, residual, z)
