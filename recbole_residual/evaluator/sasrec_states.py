"""SASRec's states at the last positions, with no more work than these need.

The same network with the same parameters as RecBole's modules. Below the last layer every position
is computed; in the last one every position is a key, but only those that are read are queries and
go through the feed-forward block.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from recbole_residual.model.architecture.functions import activation, layer_norm
from recbole_residual.model.architecture.stream import weighted
from recbole_residual.model.mass_attention import attended
from recbole_residual.model.residual import residual_factor


def sasrec_states(
    model: Any, item_seq: torch.Tensor, item_seq_len: torch.Tensor, offsets: tuple[int, ...]
) -> torch.Tensor:
    """Output representations at positions counted back from the last.

    Args:
        model: a model for which :func:`~recbole_residual.evaluator.states.is_plain_sasrec` holds,
            in eval mode.
        item_seq: item ids, padded with 0 at the end, [B, L].
        item_seq_len: lengths, at least 1, [B].
        offsets: 0 for the last position; one before the first stands for the first.

    Returns:
        torch.Tensor: [len(offsets) * B, D], the first offset's rows first.
    """
    n_rows, length = item_seq.shape
    hidden = F.embedding(item_seq, model.item_embedding.weight)
    hidden += model.position_embedding.weight[:length]
    hidden = layer_norm(model.LayerNorm, hidden.view(n_rows * length, -1))
    back = torch.tensor(offsets, device=item_seq.device)
    read = (item_seq_len.unsqueeze(1) - 1 - back).clamp(min=0)  # [B, n_offsets]
    layers = list(model.trm_encoder.layer)
    for layer in layers[:-1]:
        hidden = _layer(layer, hidden, (n_rows, length))
    hidden = _last_layer(layers[-1], hidden, read, length)
    return hidden.view(n_rows, len(offsets), -1).transpose(0, 1).reshape(read.numel(), -1)


def _add_and_norm(branch: torch.Tensor, residual: torch.Tensor, block: Any) -> torch.Tensor:
    residual = weighted(block, residual)
    return layer_norm(block.LayerNorm, branch.add_(residual, alpha=residual_factor(block)))


def _project(linears: tuple[nn.Linear, ...], hidden: torch.Tensor) -> torch.Tensor:
    return F.linear(
        hidden,
        torch.cat([linear.weight for linear in linears]),
        torch.cat([linear.bias for linear in linears]),
    )


def _layer(layer: Any, hidden: torch.Tensor, shape: tuple[int, int]) -> torch.Tensor:
    block = layer.multi_head_attention
    heads, width = block.num_attention_heads, block.attention_head_size
    projected = _project((block.query, block.key, block.value), hidden)
    query, key, value = projected.view(*shape, 3, heads, width).permute(2, 0, 3, 1, 4).unbind(0)
    # Padding comes last, so the causal mask hides it from every item.
    context = attended(block, query, key, value)
    context = context.transpose(1, 2).reshape(hidden.shape)
    hidden = _add_and_norm(block.dense(context), hidden, block)
    return _feed_forward(layer.feed_forward, hidden)


def _last_layer(layer: Any, hidden: torch.Tensor, read: torch.Tensor, length: int) -> torch.Tensor:
    """[B * L, D] -> [B * n_offsets, D]"""
    block = layer.multi_head_attention
    n_rows, n_reads = read.shape
    heads, width = block.num_attention_heads, block.attention_head_size
    first = torch.arange(n_rows, device=read.device).unsqueeze(1) * length
    residual = hidden[(first + read).flatten()]
    projected = _project((block.key, block.value), hidden)
    key, value = projected.view(n_rows, length, 2, heads, width).permute(2, 0, 3, 1, 4).unbind(0)
    query = block.query(residual).view(n_rows, n_reads, heads, width).transpose(1, 2)
    sees = torch.arange(length, device=read.device) <= read.unsqueeze(2)
    context = attended(block, query, key, value, sees.unsqueeze(1))
    context = context.transpose(1, 2).reshape(residual.shape)
    residual = _add_and_norm(block.dense(context), residual, block)
    return _feed_forward(layer.feed_forward, residual)


def _feed_forward(block: Any, hidden: torch.Tensor) -> torch.Tensor:
    branch = block.dense_2(activation(block)(block.dense_1(hidden)))
    return _add_and_norm(branch, hidden, block)
