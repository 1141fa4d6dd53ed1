"""What the residual of a block carries: the block's input, or the stream of a pre-LN model; and a
learned multiple of it, if the model learns one."""

from __future__ import annotations

from typing import Callable, Protocol

import torch
from torch import nn

RESIDUAL_STREAM = "_residual_stream"
"""Attribute of a block whose residual does not carry its input; see :func:`set_residual_stream`."""

RESIDUAL_WEIGHT = "_residual_weight"
"""Attribute of a block whose residual carries a learned multiple of the rest; see
:func:`set_residual_weight`."""

BRANCH_GATE = "branch_gate"
"""Submodule of a block whose branch is multiplied by a gate; see
:mod:`~recbole_residual.model.ligr`."""


class Stream(Protocol):
    """Holds the tensor that a block's residual carries."""

    stream: torch.Tensor | None


def set_residual_stream(block: nn.Module, stream: Stream) -> None:
    """Say that the residual of ``block`` carries ``stream.stream`` and not the block's input.

    Args:
        block: an attention or feed-forward block.
        stream: asked whenever the block begins.
    """
    block.__dict__[RESIDUAL_STREAM] = stream


def set_residual_weight(block: nn.Module, weight: Callable[[], torch.Tensor]) -> None:
    """Say that the residual of ``block`` carries a learned multiple, before any ``alpha``.

    Args:
        block: an attention or feed-forward block.
        weight: asked in every forward, a scalar.
    """
    block.__dict__[RESIDUAL_WEIGHT] = weight


def has_weight(block: nn.Module) -> bool:
    """Whether the residual of ``block`` carries a learned multiple."""
    return RESIDUAL_WEIGHT in vars(block)


def weighted(block: nn.Module, carried: torch.Tensor) -> torch.Tensor:
    """The learned multiple of what a residual carries; without one, the same, [..., D]."""
    weight: Callable[[], torch.Tensor] | None = vars(block).get(RESIDUAL_WEIGHT)
    return carried if weight is None else carried * weight()


def carries_stream(block: nn.Module) -> bool:
    """Whether the residual of ``block`` carries something else than the block's input."""
    return RESIDUAL_STREAM in vars(block)


def stream_of(block: nn.Module) -> torch.Tensor:
    """The stream that the residual of ``block`` carries now, [B, L, D]."""
    stream: Stream = vars(block)[RESIDUAL_STREAM]
    assert stream.stream is not None
    return stream.stream


def residual_of(block: nn.Module, block_input: torch.Tensor) -> torch.Tensor:
    """What the residual of ``block`` carries, before ``alpha``. To be asked when the block begins.

    Args:
        block: an attention or feed-forward block.
        block_input: what it was called with, [B, L, D].

    Returns:
        torch.Tensor: its input, or the stream it was given by :func:`set_residual_stream`, times
        the learned multiple if there is one, [B, L, D].
    """
    carried = stream_of(block) if carries_stream(block) else block_input
    return weighted(block, carried)
