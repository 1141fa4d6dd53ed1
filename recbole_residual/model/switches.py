"""Parts of a trained model switched off for a while, to see how much it leans on them.

Reference:
    Kozaki et al. "Revisiting the Role of Learned Attention Weighting in SASRec." SIGIR 2026
    (uniform attention over the valid prefix).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from recbole.model.layers import MultiHeadAttention
from torch import nn
from torch.utils.hooks import RemovableHandle

from recbole_residual.errors import NoSwitchError
from recbole_residual.model.architecture.blocks import attention_blocks
from recbole_residual.model.architecture.wrappers import hookable
from recbole_residual.model.mass_attention import norm_order

POSITION_EMBEDDING = "position_embedding"
"""Name under which RecBole's models hold their learned position vectors."""


def output_zeros(module: nn.Module, args: tuple[Any, ...], output: torch.Tensor) -> torch.Tensor:
    """Forward hook: zeros in the place of the output."""
    return torch.zeros_like(output)


def hook_uniform_attention(model: nn.Module) -> list[RemovableHandle]:
    """Make every attention block of ``model`` average all visible positions, for good.

    With queries of zero every score is zero before the mask is added, so RecBole's own softmax
    gives each visible position the same weight and each masked one exactly none.

    Returns:
        The hooks, one per block.

    Raises:
        NoAttentionError: if the model has no attention block.
        NoSwitchError: if a block is not RecBole's ``MultiHeadAttention``, or does not normalise its
            weights by softmax.
    """
    blocks: list[Any] = [*attention_blocks(hookable(model))]
    for block in blocks:
        if not isinstance(block, MultiHeadAttention):
            raise NoSwitchError(
                f"{type(model).__name__} attends with {type(block).__name__}, whose weights do "
                "not come from one softmax over positions: uniform attention is defined for "
                "RecBole's MultiHeadAttention (SASRec, BERT4Rec, CORE, ...)."
            )
        if norm_order(block) != 1:
            raise NoSwitchError(
                f"uniform attention averages the prefix, and attention_norm_p = "
                f"{norm_order(block)} makes weights that are no average: set one of the two."
            )
    return [block.query.register_forward_hook(output_zeros) for block in blocks]


@contextmanager
def uniform_attention(model: nn.Module) -> Iterator[nn.Module]:
    """Replace learned attention weights by the uniform average over the valid prefix for a while.

    Position ``i`` of a causal model averages its positions 1 to ``i``; a bidirectional model
    averages all valid positions. Everything else (values, output layer, residual, feed-forward)
    stays. On leaving, also by an exception, no hook of this context is left.

    Args:
        model: a RecBole model built from ``MultiHeadAttention``.

    Raises:
        NoAttentionError: if the model has no attention block.
        NoSwitchError: if its attention is of another kind (LightSANs, FEARec).

    Example:
        >>> block = MultiHeadAttention(2, 8, 0.0, 0.0, 1e-12).eval()
        >>> weights = []
        >>> handle = block.softmax.register_forward_hook(lambda m, a, out: weights.append(out))
        >>> causal = torch.triu(torch.full((2, 2), -10000.0), diagonal=1)[None, None]
        >>> with uniform_attention(block):
        ...     _ = block(torch.randn(1, 2, 8), causal)
        >>> weights[0][0, 0].tolist()
        [[1.0, 0.0], [0.5, 0.5]]
    """
    handles = hook_uniform_attention(model)
    try:
        yield model
    finally:
        for handle in handles:
            handle.remove()


def position_embeddings(model: nn.Module) -> list[nn.Embedding]:
    """The learned position vectors of ``model``.

    Raises:
        NoSwitchError: if it has none.
    """
    embeddings = [
        module
        for name, module in model.named_modules()
        if name.rpartition(".")[2] == POSITION_EMBEDDING and isinstance(module, nn.Embedding)
    ]
    if not embeddings:
        raise NoSwitchError(
            f"{type(model).__name__} has no learned position embedding to switch off."
        )
    return embeddings


@contextmanager
def without_position(model: nn.Module) -> Iterator[nn.Module]:
    """Take the learned position embedding out of a trained model for a while: it adds zero.

    Args:
        model: a RecBole model with a ``position_embedding``.

    Raises:
        NoSwitchError: if the model has none.

    Example:
        >>> model = nn.ModuleDict({"position_embedding": nn.Embedding(4, 2)})
        >>> with without_position(model):
        ...     model["position_embedding"](torch.tensor([3])).tolist()
        [[0.0, 0.0]]
    """
    embeddings = position_embeddings(hookable(model))
    handles = [embedding.register_forward_hook(output_zeros) for embedding in embeddings]
    try:
        yield model
    finally:
        for handle in handles:
            handle.remove()
