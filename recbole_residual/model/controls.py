"""Controls: one part of SASRec exchanged, everything else as it was.

Last-item reliance may come from other parts than the attention residual. Each control takes one of
them out or puts it elsewhere, on RecBole's own modules and with the same parameters, so that two
models that differ in one switch differ in nothing else.

Reference:
    Su et al. "RoFormer: Enhanced Transformer with Rotary Position Embedding." 2021.
    Xiong et al. "On Layer Normalization in the Transformer Architecture." ICML 2020.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from recbole_residual.errors import ModelError
from recbole_residual.model.architecture.blocks import (
    attention_blocks,
    branch_end,
    feed_forward_blocks,
)
from recbole_residual.model.architecture.stream import set_residual_stream
from recbole_residual.model.switches import output_zeros

POSITION = ("learned", "none", "rotary")
NORM = ("post", "pre")
RESIDUAL = ("attention", "attention+ffn")
ATTENTION = ("learned", "uniform")

CHOICES: dict[str, tuple[str, ...]] = {
    "position": POSITION,
    "norm": NORM,
    "residual": RESIDUAL,
    "attention": ATTENTION,
}
"""Config keys of the controls and their values; the first one is SASRec."""

_ROTARY_BASE = 10000.0


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> str:
    """Check the value of a control.

    Raises:
        ValueError: if it is none of ``choices``.

    Example:
        >>> check_choice("norm", "pre", NORM)
        'pre'
    """
    if value not in choices:
        raise ModelError(f"{name} = {value!r} is not usable: one of {list(choices)}.")
    return str(value)


def rotate(vectors: torch.Tensor, n_heads: int) -> torch.Tensor:
    """Turn the queries or keys of each position by angles that grow with the position.

    The product of a query at position i and a key at position j then depends on i - j and on no
    other trace of i and j.

    Args:
        vectors: heads side by side, [B, L, D].
        n_heads: number of heads; D / n_heads must be even.

    Returns:
        torch.Tensor: [B, L, D], every vector as long as before.

    Example:
        >>> turned = rotate(torch.ones(1, 2, 2), 1)
        >>> [[round(x, 3) for x in row] for row in turned[0].tolist()]
        [[1.0, 1.0], [-0.301, 1.382]]
    """
    heads = vectors.unflatten(-1, (n_heads, -1))
    first, second = heads.chunk(2, dim=-1)
    n_angles = first.shape[-1]
    # half precision cannot hold the angles of long sequences
    dtype = torch.promote_types(vectors.dtype, torch.float32)
    exponent = torch.arange(n_angles, device=vectors.device, dtype=dtype) / n_angles
    position = torch.arange(vectors.shape[1], device=vectors.device, dtype=dtype)
    angles = torch.outer(position, _ROTARY_BASE**-exponent).unsqueeze(1)  # [L, 1, W / 2]
    cos, sin = angles.cos().to(vectors.dtype), angles.sin().to(vectors.dtype)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1).flatten(-2)


class _Rotary:
    """Forward hook on the query and key layers of one block."""

    def __init__(self, n_heads: int) -> None:
        self.n_heads = n_heads

    def __call__(self, module: nn.Module, args: Any, output: torch.Tensor) -> torch.Tensor:
        return rotate(output, self.n_heads)


def apply_position(model: Any, position: str) -> None:
    """Say where a SASRec knows positions from.

    Args:
        model: a model with RecBole's SASRec architecture, just built.
        position: ``learned``: RecBole's table, as it is. ``none``: its output is zero, only the
            causal mask tells positions apart. ``rotary``: none, and queries and keys are rotated.

    Raises:
        ValueError: for another value, or if the heads have an odd width under ``rotary``.
    """
    check_choice("position", position, POSITION)
    if position == "learned":
        return
    model.position_embedding.register_forward_hook(output_zeros)
    if position == "none":
        return
    blocks: list[Any] = [*attention_blocks(model)]
    for block in blocks:
        if block.attention_head_size % 2:
            raise ModelError(
                f"position = 'rotary' turns pairs of dimensions, and hidden_size / n_heads is "
                f"{block.attention_head_size}: it must be even."
            )
        for linear in (block.query, block.key):
            linear.register_forward_hook(_Rotary(block.num_attention_heads))


class PreNorm:
    """The residual stream of a pre-LN transformer, on RecBole's post-LN modules.

    Post-LN is ``x <- LN(x + f(x))``. Pre-LN keeps the sum before it is normalised: with
    ``s <- s + f(LN(s))`` each block reads the normalised stream, and only the residual goes around
    the LayerNorm. RecBole's LayerNorms therefore stay where they are, each reads the sum of the
    block before it (the first one the embedding, the last one the output), and all that changes is
    what a block adds its branch to: the stream in the place of its own input.

    The dropout that RecBole puts behind the embedding's LayerNorm acts before it, so that it
    regularises the stream as it does in SASRec.

    Attributes:
        stream: the sum before the last LayerNorm that has run, [B, L, D]; None outside a forward.
    """

    def __init__(self, model: Any) -> None:
        self.stream: torch.Tensor | None = None
        self._branch: torch.Tensor | None = None
        self._dropout = model.dropout
        model.LayerNorm.register_forward_pre_hook(self._begin)
        model.dropout.register_forward_hook(self._passed)
        blocks: list[Any] = [*attention_blocks(model), *feed_forward_blocks(model)]
        self._last_norm = feed_forward_blocks(model)[-1].LayerNorm
        for block in blocks:
            set_residual_stream(block, self)
            branch_end(block).register_forward_hook(self._keep_branch)
            block.LayerNorm.register_forward_pre_hook(self._add)
            block.LayerNorm.register_forward_hook(self._keep_stream)

    def _begin(self, module: nn.Module, args: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor]:
        dropout = self._dropout
        self.stream = nn.functional.dropout(args[0], dropout.p, dropout.training)
        return (self.stream,)

    def _passed(
        self, module: nn.Module, args: tuple[torch.Tensor, ...], output: torch.Tensor
    ) -> torch.Tensor:
        return args[0]

    def _keep_branch(self, module: nn.Module, args: Any, output: torch.Tensor) -> None:
        self._branch = output

    def _add(self, module: nn.Module, args: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor]:
        assert self.stream is not None
        assert self._branch is not None
        summed, self._branch = self._branch + self.stream, None
        return (summed,)

    def _keep_stream(
        self, module: nn.Module, args: tuple[torch.Tensor, ...], output: torch.Tensor
    ) -> None:
        # args are what every pre-hook has made of the sum, a scaled residual included
        self.stream = None if module is self._last_norm else args[0]


def apply_norm(model: Any, norm: str) -> None:
    """Say where a SASRec normalises.

    Args:
        model: a model with RecBole's SASRec architecture, just built.
        norm: ``post``: behind the residual sum, as RecBole does. ``pre``: see :class:`PreNorm`.

    Raises:
        ValueError: for another value.
    """
    if check_choice("norm", norm, NORM) == "pre":
        PreNorm(model)
