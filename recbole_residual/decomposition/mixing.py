"""The mixing matrix of each kind of RecBole attention block.

All of them are linear in the values once their weights are known: the context of position ``i``
and head ``h`` is ``sum_j M[h, i, j] v[h, j]``. For :class:`MultiHeadAttention` the matrix is the
softmax that RecBole computes anyway; the other two never build it, and it is put together here
from the outputs of their own submodules.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Callable

import torch
from recbole.model.layers import LightMultiHeadAttention, MultiHeadAttention
from recbole.model.sequential_recommender import fearec
from torch import nn

Block = Any
"""An attention or feed-forward block of RecBole, which ships without types."""

Outputs = Mapping[str, torch.Tensor]
"""Outputs of submodules of one block in one forward, by their name."""


@dataclass(frozen=True)
class AttentionKind:
    """How to read one kind of attention block.

    Attributes:
        value: name of the linear layer that makes the values.
        outputs: names of the submodules whose outputs ``matrix`` needs.
        matrix: from the block and those outputs to the mixing matrix [B, H, L, L].
        masks_padding: whether a valid position never takes anything from padding.
    """

    value: str
    outputs: tuple[str, ...]
    matrix: Callable[[Block, Outputs], torch.Tensor]
    masks_padding: bool


def _softmax_matrix(block: Block, outputs: Outputs) -> torch.Tensor:
    return outputs["attn_dropout"]


def _light_matrix(block: Block, outputs: Outputs) -> torch.Tensor:
    """LightSANs: item attention through ``k`` interests plus attention between positions."""
    value = outputs["value"]
    pooling = torch.softmax(
        torch.matmul(value, block.attpooling_value.theta.to(value.dtype)), dim=-2
    )
    by_item = torch.matmul(outputs["attn_dropout"], pooling.transpose(-1, -2).unsqueeze(1))
    query = block.transpose_for_scores(outputs["pos_q_linear"]) * block.pos_scaling
    key = block.transpose_for_scores(outputs["pos_k_linear"])
    scores = torch.matmul(query, key.transpose(-1, -2)) / math.sqrt(block.attention_head_size)
    # RecBole's LightSANs normalises over the queries (dim=-2); the matrix has to follow it.
    return by_item + torch.softmax(scores, dim=-2)


def _hybrid_matrix(block: Block, outputs: Outputs) -> torch.Tensor:
    """FEARec: an average of shifted sequences plus, if asked for, attention on filtered values."""
    query = block.transpose_for_scores(outputs["query_layer"]).permute(0, 2, 3, 1).contiguous()
    key = block.transpose_for_scores(outputs["key_layer"]).permute(0, 2, 3, 1).contiguous()
    length = query.shape[-1]
    spectrum = torch.zeros_like(torch.fft.rfft(query, dim=-1))
    spectrum[..., block.q_index] = (
        torch.fft.rfft(query, dim=-1)[..., block.q_index]
        * torch.fft.rfft(key, dim=-1)[..., block.q_index].conj()
    )
    correlation = torch.fft.irfft(spectrum, dim=-1)
    # The block's own aggregation of the unit vectors, one per channel, is the matrix, transposed.
    eye = torch.eye(length, dtype=query.dtype, device=query.device)
    eye = eye.expand(query.shape[0], 1, length, length)
    matrix = block.time_delay_agg_inference(eye, correlation).transpose(-1, -2)
    if block.dual_domain:
        kept = torch.zeros_like(torch.fft.rfft(eye[:1], dim=-1))
        kept[..., block.time_v_index] = torch.fft.rfft(eye[:1], dim=-1)[..., block.time_v_index]
        band = torch.fft.irfft(kept, dim=-1).transpose(-1, -2)
        spatial = torch.matmul(outputs["attn_dropout"], band)
        return (1 - block.spatial_ratio) * matrix + block.spatial_ratio * spatial
    return matrix.expand(-1, block.num_attention_heads, -1, -1)


_KINDS: dict[type[nn.Module], AttentionKind] = {
    MultiHeadAttention: AttentionKind("value", ("attn_dropout",), _softmax_matrix, True),
    LightMultiHeadAttention: AttentionKind(
        "value", ("attn_dropout", "pos_q_linear", "pos_k_linear"), _light_matrix, False
    ),
    fearec.HybridAttention: AttentionKind(
        "value_layer", ("query_layer", "key_layer", "attn_dropout"), _hybrid_matrix, False
    ),
}


def attention_kind(block: Block) -> AttentionKind:
    """How to read ``block``, one of
    :data:`~recbole_residual.model.architecture.blocks.ATTENTION_BLOCKS` or a subclass."""
    for cls, kind in _KINDS.items():
        if isinstance(block, cls):
            return kind
    raise TypeError(f"{type(block).__name__} is not an attention block of RecBole.")
