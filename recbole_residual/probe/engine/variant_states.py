"""The states of many versions of a SASRec's latest positions, what comes before them once.

A causal model knows nothing at a position of what comes after it. So the keys and values of the
prefix are those of every version, and a version costs only its window of T positions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from recbole_residual.evaluator.states import is_plain_sasrec
from recbole_residual.model.mass_attention import norm_order
from recbole_residual.model.residual import residual_factor
from recbole_residual.probe.engine.variants import Recent, Variants

_MASKED = -10000.0
"""What RecBole adds to the score of a key that a query may not see."""


def shares_prefixes(model: Any) -> bool:
    """Whether :class:`VariantStates` computes what ``model`` does."""
    return is_plain_sasrec(model) and all(
        norm_order(layer.multi_head_attention) == 1 for layer in model.trm_encoder.layer
    )


@dataclass(frozen=True)
class _Prefix:
    """Keys and values of the prefixes in one layer, [B, H, P, W] each."""

    key: torch.Tensor
    value: torch.Tensor


class VariantStates:
    """Computes the last states of versions of some sequences, under the factors in force.

    Args:
        model: a model for which :func:`shares_prefixes` holds, in eval mode.
        recent: the sequences.
    """

    def __init__(self, model: Any, recent: Recent) -> None:
        self._model = model
        self._layers = list(model.trm_encoder.layer)
        self._recent = recent
        longest = int(recent.prefix_len.max())
        place = torch.arange(longest, device=recent.items.device)
        # A padded place of a prefix is no key of anything.
        self._no_prefix = (place >= recent.prefix_len.unsqueeze(1))[:, None, None]
        self._prefixes = self._run_prefix(recent.item_seq[:, :longest])

    def last_states(self, variants: Variants) -> torch.Tensor:
        """The state from which the catalogue is scored, [B, V, D].

        Args:
            variants: [B, V, T].
        """
        batch, n_versions, width = variants.items.shape
        place = torch.arange(width, device=variants.items.device)
        at = (self._recent.prefix_len.unsqueeze(1) + place).unsqueeze(1)
        at = at.clamp(max=self._model.position_embedding.weight.shape[0] - 1)
        x = self._embed(variants.items, at.expand(-1, n_versions, -1))  # [B, V, T, D]
        mask = torch.triu(x.new_full((width, width), _MASKED), diagonal=1)
        if variants.hidden is not None:
            hidden = variants.hidden.view(batch, n_versions, 1, 1, width) * _MASKED
            mask = (mask + hidden).clamp(min=_MASKED)
        last = (variants.lengths - 1).view(batch, n_versions, 1, 1)
        for depth, layer in enumerate(self._layers):
            read = last if depth == len(self._layers) - 1 else None
            x = self._layer(layer, x, self._prefixes[depth], mask, read)
        return x.squeeze(2)

    def _embed(self, items: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        model = self._model
        return model.LayerNorm(model.item_embedding.weight[items] + _rows(model, at))

    def _run_prefix(self, item_seq: torch.Tensor) -> list[_Prefix]:
        """Keys and values of every layer."""
        at = torch.arange(item_seq.shape[1], device=item_seq.device).expand_as(item_seq)
        x = self._embed(item_seq, at)
        prefixes = []
        for depth, layer in enumerate(self._layers):
            attention = layer.multi_head_attention
            query, key, value = _heads(attention, x)
            prefixes.append(_Prefix(key, value))
            if depth < len(self._layers) - 1 and item_seq.shape[1]:
                context = nn.functional.scaled_dot_product_attention(
                    query, key, value, is_causal=True
                )
                x = _rest(layer, context.transpose(1, 2).flatten(2), x)
        return prefixes

    def _layer(
        self,
        layer: Any,
        x: torch.Tensor,
        prefix: _Prefix,
        mask: torch.Tensor,
        read: torch.Tensor | None,
    ) -> torch.Tensor:
        """One layer at every place of the windows, or at one of them, [B, V, T or 1, D].

        Args:
            layer: RecBole's.
            x: its input, [B, V, T, D].
            prefix: what comes before.
            mask: added to the scores, [T, T] or [B, V, 1, T, T].
            read: the place that is read, [B, V, 1, 1]; None for all.
        """
        batch, n_versions, width, n_dim = x.shape
        attention = layer.multi_head_attention
        n_heads, size = attention.num_attention_heads, attention.attention_head_size
        own = x.view(batch * n_versions, width, n_dim)
        asked = x if read is None else x.gather(2, read.expand(-1, -1, 1, n_dim))
        n_asked = asked.shape[2]
        if read is not None:
            mask = mask.expand(batch, n_versions, 1, width, width)
            mask = mask.gather(3, read.unsqueeze(3).expand(-1, -1, 1, 1, width))
        query = _split(attention.query(asked.reshape(batch * n_versions, n_asked, n_dim)), n_heads)
        key, value = (_split(linear(own), n_heads) for linear in (attention.key, attention.value))
        query = query / math.sqrt(size)
        # [B, V, H, ...] for the window, [B, H, V * asked, ...] for the prefix that versions share
        scores = (query @ key.transpose(-1, -2)).view(batch, n_versions, n_heads, n_asked, width)
        by_row = query.view(batch, n_versions, n_heads, n_asked, size).transpose(1, 2)
        to_prefix = by_row.reshape(batch, n_heads, -1, size) @ prefix.key.transpose(-1, -2)
        to_prefix = to_prefix.masked_fill(self._no_prefix, -torch.inf)
        n_prefix = prefix.key.shape[2]  # 0 where no sequence is longer than the window
        to_prefix = to_prefix.view(batch, n_heads, n_versions, n_asked, n_prefix).transpose(1, 2)
        weights = torch.softmax(torch.cat([to_prefix, scores + mask], dim=-1), dim=-1)
        of_prefix, of_window = weights.split([n_prefix, width], dim=-1)
        context = of_window.reshape(-1, n_heads, n_asked, width) @ value
        context = context.view(batch, n_versions, n_heads, n_asked, size)
        n_queries = n_versions * n_asked
        of_prefix = of_prefix.transpose(1, 2).reshape(batch, n_heads, n_queries, n_prefix)
        shared = of_prefix @ prefix.value
        context = context + shared.view(batch, n_heads, n_versions, n_asked, size).transpose(1, 2)
        return _rest(layer, context.transpose(2, 3).flatten(3), asked)


def _rows(model: Any, at: torch.Tensor) -> torch.Tensor:
    return model.position_embedding.weight[at]


def _split(tensor: torch.Tensor, n_heads: int) -> torch.Tensor:
    """[N, T, D] -> [N, H, T, W]"""
    return tensor.unflatten(-1, (n_heads, -1)).transpose(1, 2)


def _heads(attention: Any, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    linears = (attention.query, attention.key, attention.value)
    return tuple(_split(linear(x), attention.num_attention_heads) for linear in linears)


def _rest(layer: Any, context: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """What follows the attention weights, with the residual factors in force."""
    attention, feed_forward = layer.multi_head_attention, layer.feed_forward
    branch = attention.dense(context)
    hidden = attention.LayerNorm(torch.add(branch, x, alpha=residual_factor(attention)))
    inner = feed_forward.intermediate_act_fn(feed_forward.dense_1(hidden))
    written = feed_forward.dense_2(inner)
    return feed_forward.LayerNorm(torch.add(written, hidden, alpha=residual_factor(feed_forward)))
