"""Attention weights whose sum may grow with the evidence (Mass-Aware Attention).

.. math::
    w_{ij} = \\frac{\\exp(s_{ij})}{(\\sum_j \\exp(p\\, s_{ij}))^{1/p}}

With p = 1 this is softmax. With p > 1 the weights are divided by less than their sum, so n
positions with the same score get n^(-1/p) each and n^(1 - 1/p) together: repeated evidence makes
the output grow, where softmax averages it away. With p to infinity the largest weight is 1.

Reference:
    "Mass-Aware Attention", 2026 (our reading of its abstract: the norm of the exponentials in the
    place of their sum, at every layer and head).
"""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import torch
from recbole.model.layers import MultiHeadAttention
from torch import nn

from recbole_residual.errors import ModelError
from recbole_residual.model.architecture.blocks import attention_blocks


class MassAwareSoftmax(nn.Module):
    """In the place of a block's softmax over keys.

    Args:
        p: order of the norm that divides the exponentials, from 1.

    Example:
        >>> MassAwareSoftmax(2.0)(torch.zeros(1, 4)).tolist()
        [[0.5, 0.5, 0.5, 0.5]]
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, scores: torch.Tensor) -> torch.Tensor:
        """Scores with their mask added, [..., L] -> weights, [..., L]."""
        return torch.exp(scores - torch.logsumexp(self.p * scores, -1, keepdim=True) / self.p)


def check_norm_p(p: object) -> float:
    """Check the order of the norm.

    Raises:
        ModelError: if it is no number of at least 1.

    Example:
        >>> check_norm_p(2)
        2.0
    """
    if isinstance(p, bool) or not isinstance(p, Real) or not 1 <= float(p) < math.inf:
        raise ModelError(
            f"attention_norm_p = {p!r} is not usable: it is a number from 1 (softmax) upwards."
        )
    return float(p)


def apply_attention_norm(model: Any, p: object) -> None:
    """Give every attention block of a model the norm of order ``p``; 1 leaves it as it is.

    Args:
        model: a model built from RecBole's ``MultiHeadAttention``, just built.
        p: order of the norm, from 1.

    Raises:
        ModelError: if it is not usable.
    """
    order = check_norm_p(p)
    if order == 1:
        return
    for block in attention_blocks(model):
        assert isinstance(block, MultiHeadAttention)
        block.softmax = MassAwareSoftmax(order)


def norm_order(block: Any) -> float:
    """The order of the norm that divides the attention weights of a block; 1 for softmax."""
    return getattr(block.softmax, "p", 1.0)


def attended(
    block: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    sees: torch.Tensor | None = None,
) -> torch.Tensor:
    """What a block's attention gives for queries, keys and values, without dropout.

    Args:
        block: an attention block with softmax or :class:`MassAwareSoftmax`.
        query: [B, H, Lq, W].
        key, value: [B, H, L, W].
        sees: which keys a query sees, [B, 1, Lq, L]; None for the causal mask, with Lq = L.

    Returns:
        torch.Tensor: [B, H, Lq, W].
    """
    order = norm_order(block)
    if order != 1:
        return mass_aware_attention(query, key, value, order, sees)
    attend = nn.functional.scaled_dot_product_attention
    return attend(query, key, value, attn_mask=sees, is_causal=sees is None)


def mass_aware_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    p: float,
    sees: torch.Tensor | None = None,
    kept: torch.Tensor | None = None,
) -> torch.Tensor:
    """Attention with weights of norm order ``p``.

    Args:
        query: [B, H, Lq, W].
        key, value: [B, H, L, W].
        p: order of the norm.
        sees: which keys a query sees, [B, 1, Lq, L]; None for the causal mask, with Lq = L.
        kept: what dropout multiplies the weights with, [B, H, Lq, L]; None for no dropout.

    Returns:
        torch.Tensor: [B, H, Lq, W].
    """
    if sees is None:
        n_keys = key.shape[-2]
        sees = torch.ones(n_keys, n_keys, dtype=torch.bool, device=key.device).tril_()
    scores = torch.matmul(query, key.transpose(-1, -2)) / math.sqrt(query.shape[-1])
    scores = scores.masked_fill(~sees, -torch.inf)
    weights = torch.exp(scores - torch.logsumexp(p * scores, -1, keepdim=True) / p)
    return torch.matmul(weights if kept is None else weights * kept, value)
