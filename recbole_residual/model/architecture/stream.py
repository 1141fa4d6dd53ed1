"""What the residual of a block carries: the block's input, or the stream of a pre-LN model."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import nn

RESIDUAL_STREAM = "_residual_stream"
"""Attribute of a block whose residual does not carry its input; see :func:`set_residual_stream`."""


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


def carries_stream(block: nn.Module) -> bool:
    """Whether the residual of ``block`` carries something else than the block's input."""
    return RESIDUAL_STREAM in vars(block)


def residual_of(block: nn.Module, block_input: torch.Tensor) -> torch.Tensor:
    """What the residual of ``block`` carries, before ``alpha``. To be asked when the block begins.

    Args:
        block: an attention or feed-forward block.
        block_input: what it was called with, [B, L, D].

    Returns:
        torch.Tensor: its input, or the stream it was given by :func:`set_residual_stream`,
        [B, L, D].
    """
    stream: Stream | None = vars(block).get(RESIDUAL_STREAM)
    if stream is None:
        return block_input
    assert stream.stream is not None
    return stream.stream
