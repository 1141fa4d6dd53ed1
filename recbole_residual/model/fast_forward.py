"""SASRec's forward in training, at every position, with less work than RecBole's modules need.

The same network with the same parameters; what is saved:

- no work on padding: tokens of a batch are packed, only attention sees [B, L];
- one product for query, key and value, and one fused operation where RecBole's modules chain
  several (GELU, mask and scale of the attention scores, residual and dropout);
- attention in pieces that fit into the cache (:mod:`~recbole_residual.model.causal_attention`);
- cheap dropout masks (:mod:`~recbole_residual.model.dropout`).
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from recbole.model.abstract_recommender import SequentialRecommender
from recbole.model.layers import (
    FeedForward,
    MultiHeadAttention,
    TransformerEncoder,
    TransformerLayer,
)
from recbole.model.loss import BPRLoss
from recbole.model.sequential_recommender import SASRec
from torch import nn

from recbole_residual.model.adapted_embedding import AdaptedEmbedding
from recbole_residual.model.architecture.blocks import branch_end
from recbole_residual.model.architecture.functions import activation, layer_norm
from recbole_residual.model.architecture.stream import (
    BRANCH_GATE,
    RESIDUAL_STREAM,
    carries_stream,
    weighted,
)
from recbole_residual.model.causal_attention import causal_attention
from recbole_residual.model.controls import PreNorm
from recbole_residual.model.dropout import keep_mask
from recbole_residual.model.ligr import BranchGate, GatedBranch
from recbole_residual.model.mass_attention import (
    MassAwareSoftmax,
    mass_aware_attention,
    norm_order,
)
from recbole_residual.model.residual import Scaling, residual_factor

_PARTS = (
    TransformerEncoder,
    TransformerLayer,
    MultiHeadAttention,
    FeedForward,
    BPRLoss,
    nn.ModuleList,
    nn.Embedding,
    AdaptedEmbedding,
    nn.Linear,
    nn.LayerNorm,
    nn.Dropout,
    nn.Softmax,
    MassAwareSoftmax,
    BranchGate,
    nn.CrossEntropyLoss,
)
"""What RecBole's SASRec and its blocks under ``norm`` and ``block`` are made of; anything else may
compute something else."""


def can_run_fast(model: nn.Module) -> bool:
    """Whether :func:`packed_positions` computes what ``model.forward`` does.

    It does for RecBole's SASRec and subclasses that change neither its forward nor its blocks, but
    for pre-LN and gated ones, as long as nobody else's hooks watch or change what happens inside.
    """
    if (
        not isinstance(model, SASRec)
        or type(model).forward is not SASRec.forward
        or type(model).get_attention_mask is not SequentialRecommender.get_attention_mask
    ):
        return False
    return all(
        (module is model or type(module) in _PARTS)
        and "forward" not in vars(module)
        and isinstance(vars(module).get(RESIDUAL_STREAM), (PreNorm, type(None)))
        and all(
            isinstance(getattr(hook, "__self__", hook), (Scaling, PreNorm, GatedBranch))
            for hooks in (module._forward_hooks, module._forward_pre_hooks)
            for hook in hooks.values()
        )
        for module in model.modules()
    )


class _Pack(torch.autograd.Function):
    """Rows out of a padded tensor; ``index`` has no row twice, so the gradient is a plain copy."""

    @staticmethod
    def forward(ctx: Any, padded: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(index)
        ctx.n_rows = padded.shape[0]
        return padded.index_select(0, index)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        (index,) = ctx.saved_tensors
        padded = grad.new_zeros(ctx.n_rows, grad.shape[1])
        return padded.index_copy_(0, index, grad), None


class _Unpack(torch.autograd.Function):
    """The other way: packed rows to their place among zeros."""

    @staticmethod
    def forward(ctx: Any, packed: torch.Tensor, index: torch.Tensor, n_rows: int) -> torch.Tensor:
        ctx.save_for_backward(index)
        return packed.new_zeros(n_rows, packed.shape[1]).index_copy_(0, index, packed)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        (index,) = ctx.saved_tensors
        return grad.index_select(0, index), None, None


class Packing:
    """Which positions of a padded batch hold an item.

    Args:
        item_seq: item ids, padded with 0 at the end, [B, L].

    Attributes:
        index: the positions with an item in the flattened batch, [T].
    """

    def __init__(self, item_seq: torch.Tensor) -> None:
        self.batch, self.length = item_seq.shape
        self.index = item_seq.flatten().nonzero().squeeze(1)
        self.full = len(self.index) == item_seq.numel()

    def pack(self, padded: torch.Tensor) -> torch.Tensor:
        """[B * L, D] -> [T, D]"""
        return padded if self.full else _Pack.apply(padded, self.index)

    def unpack(self, packed: torch.Tensor) -> torch.Tensor:
        """[T, D] -> [B * L, D], zeros at padding."""
        if self.full:
            return packed
        return _Unpack.apply(packed, self.index, self.batch * self.length)


def packed_positions(model: Any, item_seq: torch.Tensor, packing: Packing) -> torch.Tensor:
    """Output representation of every position that holds an item.

    Args:
        model: a model for which :func:`can_run_fast` holds.
        item_seq: item ids, padded with 0 at the end, [B, L].
        packing: where the items are.

    Returns:
        torch.Tensor: [T, D], what ``model.all_positions(item_seq, ...)`` gives there.
    """
    items = item_seq.flatten()[packing.index]
    hidden = F.embedding(items, model.item_embedding.weight, model.item_embedding.padding_idx)
    hidden = hidden + F.embedding(packing.index % packing.length, model.position_embedding.weight)
    blocks: list[Any] = [
        block
        for layer in model.trm_encoder.layer
        for block in (layer.multi_head_attention, layer.feed_forward)
    ]
    if carries_stream(blocks[0]):
        return _pre_norm(model, blocks, hidden, packing)
    hidden = layer_norm(model.LayerNorm, hidden)
    if model.training and model.dropout.p > 0:
        hidden = hidden * keep_mask(hidden.shape, model.dropout.p, hidden)
    for block in blocks:
        hidden = layer_norm(block.LayerNorm, _add(_branch(block, hidden, packing), hidden, block))
    return hidden


def _pre_norm(
    model: Any, blocks: list[Any], stream: torch.Tensor, packing: Packing
) -> torch.Tensor:
    """The blocks of :class:`~recbole_residual.model.controls.PreNorm`: each LayerNorm is read by
    the block behind it."""
    if model.training and model.dropout.p > 0:
        stream = stream * keep_mask(stream.shape, model.dropout.p, stream)
    norm = model.LayerNorm
    for block in blocks:
        stream = _add(_branch(block, layer_norm(norm, stream), packing), stream, block)
        norm = block.LayerNorm
    return layer_norm(norm, stream)


def _add(branch: torch.Tensor, carried: torch.Tensor, block: Any) -> torch.Tensor:
    """``alpha * carried + dropout(branch) * gate(carried)``, alpha as in force on the block."""
    dropout: Any = branch_end(block)
    residual, alpha = weighted(block, carried), residual_factor(block)
    if alpha != 1:
        residual = residual * alpha
    gate = getattr(block, BRANCH_GATE, None)
    if gate is not None:
        branch = branch * gate(carried)
    if dropout.training and dropout.p > 0:
        return torch.addcmul(residual, branch, keep_mask(branch.shape, dropout.p, branch))
    return residual + branch


def _branch(block: Any, hidden: torch.Tensor, packing: Packing) -> torch.Tensor:
    """What a block adds to its residual, before dropout, [T, D]."""
    if isinstance(block, FeedForward):
        return block.dense_2(activation(block)(block.dense_1(hidden)))
    return _attention(block, hidden, packing)


def _attention(block: Any, hidden: torch.Tensor, packing: Packing) -> torch.Tensor:
    batch, length = packing.batch, packing.length
    heads, width = block.num_attention_heads, block.attention_head_size
    linears = (block.query, block.key, block.value)
    qkv = F.linear(
        hidden,
        torch.cat([linear.weight for linear in linears]),
        torch.cat([linear.bias for linear in linears]),
    )
    qkv = packing.unpack(qkv).view(batch, length, 3, heads, width)
    p = block.attn_dropout.p if block.training else 0.0
    order = norm_order(block)
    if order != 1:
        query, key, value = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        kept = keep_mask((batch, heads, length, length), p, hidden) if p > 0 else None
        context = mass_aware_attention(query, key, value, order, kept=kept).transpose(1, 2)
    elif hidden.device.type == "cpu" and p > 0:
        context = causal_attention(qkv, p)
    else:
        # padding comes last, so the causal mask hides it from every item
        query, key, value = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        context = F.scaled_dot_product_attention(query, key, value, dropout_p=p, is_causal=True)
        context = context.transpose(1, 2)
    context = context.reshape(batch * length, heads * width)
    return block.dense(packing.pack(context))
