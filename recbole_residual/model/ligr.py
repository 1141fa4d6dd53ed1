r"""Gated residual blocks (LiGR), on RecBole's modules.

.. math::
    x \leftarrow x + f(\mathrm{LN}(x)) \odot \sigma(W x)

with f the attention, and then a SwiGLU feed-forward block: :math:`W_2 (\mathrm{SiLU}(a) \odot b)`
with :math:`[a, b] = W_1 \mathrm{LN}(x)`. The x that is carried is the stream of a pre-LN model (see
:class:`~recbole_residual.model.controls.PreNorm`); the gate multiplies what a block adds to it.

Reference:
    Borisyuk et al. "From Features to Transformers: Redefining Ranking for Scalable Impact." 2025
    (the LiGR layer).
    Tikhonovich et al. "eSASRec: Enhancing Transformer-based Recommendations in a Modular Fashion."
    RecSys 2025 (in a sequential recommender).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from recbole_residual.model.architecture.blocks import (
    attention_blocks,
    branch_end,
    feed_forward_blocks,
)
from recbole_residual.model.architecture.stream import BRANCH_GATE, stream_of
from recbole_residual.model.controls import apply_norm


class BranchGate(nn.Module):
    """What multiplies the branch of a block: ``sigmoid(W x)`` of the carried stream.

    Args:
        hidden_size: D.
    """

    def __init__(self, hidden_size: int) -> None:
        super().__init__()
        self.dense = nn.Linear(hidden_size, hidden_size)

    def forward(self, stream: torch.Tensor) -> torch.Tensor:
        """[..., D] -> [..., D], between 0 and 1."""
        return torch.sigmoid(self.dense(stream))


class GatedBranch:
    """Forward hook on the end of a block's branch."""

    def __init__(self, block: Any) -> None:
        self.block = block

    def __call__(self, module: nn.Module, args: Any, output: torch.Tensor) -> torch.Tensor:
        return output * getattr(self.block, BRANCH_GATE)(stream_of(self.block))


def swiglu(hidden: torch.Tensor) -> torch.Tensor:
    """``SiLU(a) * b`` of the two halves of the last dimension, [..., 2 F] -> [..., F].

    Example:
        >>> swiglu(torch.tensor([0.0, -100.0, 5.0, 2.0])).tolist()
        [0.0, -0.0]
    """
    first, second = hidden.chunk(2, dim=-1)
    return nn.functional.silu(first) * second


def apply_ligr(model: Any) -> None:
    """Turn the blocks of a SASRec into gated residual blocks.

    Args:
        model: a model with RecBole's SASRec architecture, just built.
    """
    feed_forwards: list[Any] = [*feed_forward_blocks(model)]
    for block in (*attention_blocks(model), *feed_forwards):
        block.add_module(BRANCH_GATE, BranchGate(model.hidden_size))
        # before the hooks of PreNorm, which keep what this one returns
        branch_end(block).register_forward_hook(GatedBranch(block))
    for feed_forward in feed_forwards:
        feed_forward.dense_1 = nn.Linear(model.hidden_size, 2 * model.inner_size)
        feed_forward.intermediate_act_fn = swiglu
    for block in (*attention_blocks(model), *feed_forwards):
        getattr(block, BRANCH_GATE).apply(model._init_weights)
    for feed_forward in feed_forwards:
        feed_forward.dense_1.apply(model._init_weights)
    apply_norm(model, "pre")
