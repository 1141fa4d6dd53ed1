"""The residual connection around an attention block, scaled by ``alpha``.

RecBole's blocks end in ``LayerNorm(hidden_states + input_tensor)``. Three hooks on the block's own
modules turn that sum into ``hidden_states + alpha * input_tensor``; no forward method is copied,
and while ``alpha`` is 1 no hook is there at all, so the numbers are RecBole's own.

Reference:
    Kozaki et al. "Residual Dominance as a Structural Account of Last-Item Reliance in Causal
    Self-Attention Recommenders", 2026 (the scaled residual, z = alpha * x + attention).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from numbers import Real
from typing import Any, Protocol, Union

import torch
from recbole.model.layers import FeedForward, LightMultiHeadAttention, MultiHeadAttention
from recbole.model.sequential_recommender import fearec
from torch import nn

from recbole_residual.errors import ModelError, NoAttentionError

Alpha = Union[float, Sequence[float]]
"""One factor for every layer, or a sequence with one factor per layer."""

ATTENTION_BLOCKS: tuple[type[nn.Module], ...] = (
    MultiHeadAttention,
    LightMultiHeadAttention,
    fearec.HybridAttention,
)
"""RecBole's attention blocks: ``out_dropout(dense(...))`` plus the input, then ``LayerNorm``."""

FEED_FORWARD_BLOCKS: tuple[type[nn.Module], ...] = (FeedForward, fearec.FeedForward)
"""RecBole's feed-forward blocks: ``dropout(dense_2(...))`` plus the input, then ``LayerNorm``."""

MODELS_WITH_ATTENTION = (
    "SASRec",
    "SASRecF",
    "SASRecCPR",
    "BERT4Rec",
    "CORE",
    "FDSA",
    "FEARec",
    "GCSAN",
    "LightSANs",
    "S3Rec",
)
"""RecBole's own models that are built from :data:`ATTENTION_BLOCKS`, for error messages."""

_STATE = "_residual_scaling"
RESIDUAL_STREAM = "_residual_stream"
"""Attribute of a block whose residual does not carry its input; see :func:`set_residual_stream`."""


def attention_blocks(model: nn.Module) -> list[nn.Module]:
    """The attention blocks of ``model`` in the order they were built, first layer first.

    Raises:
        NoAttentionError: if there is none.
    """
    blocks = [module for module in model.modules() if isinstance(module, ATTENTION_BLOCKS)]
    if not blocks:
        raise NoAttentionError(model, MODELS_WITH_ATTENTION)
    return blocks


def feed_forward_blocks(model: nn.Module) -> list[nn.Module]:
    """The feed-forward blocks of ``model`` in the order they were built."""
    return [module for module in model.modules() if isinstance(module, FEED_FORWARD_BLOCKS)]


class AddedSkip(nn.Module):
    """A skip connection that the RecBole model does not have: ``branch + alpha * skipped``.

    ``alpha`` is 0 unless a factor is laid on it, and then ``branch`` comes back untouched, so that
    the model is its RecBole parent, bit for bit. A model that holds such blocks in the place of
    attention blocks is scaled like any other.
    """

    neutral = 0.0

    def forward(self, branch: torch.Tensor, skipped: torch.Tensor) -> torch.Tensor:
        """Both of one shape, [..., D]."""
        factor = residual_factor(self)
        return branch if factor == 0 else torch.add(branch, skipped, alpha=factor)


def residual_blocks(model: nn.Module) -> list[nn.Module]:
    """What ``alpha`` scales, one block per entry of ``alpha``: :class:`AddedSkip` blocks if the
    model has any, else its attention blocks.

    Raises:
        NoAttentionError: if there is neither.
    """
    added: list[nn.Module] = [part for part in model.modules() if isinstance(part, AddedSkip)]
    return added or attention_blocks(model)


def neutral_alpha(model: nn.Module) -> float:
    """The ``alpha`` at which ``model`` is its RecBole parent: 1, or 0 if the skip was added.

    Raises:
        NoAttentionError: if the model has nothing to scale.
    """
    return _neutral(residual_blocks(model)[0])


def _neutral(block: nn.Module) -> float:
    return AddedSkip.neutral if isinstance(block, AddedSkip) else 1.0


def branch_end(block: Any) -> nn.Module:
    """The module whose output is added to the residual: the dropout behind the dense layer."""
    name = "dropout" if isinstance(block, FEED_FORWARD_BLOCKS) else "out_dropout"
    return getattr(block, name)


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


def residual_of(block: nn.Module, block_input: torch.Tensor) -> torch.Tensor:
    """What the residual of ``block`` carries, before ``alpha``: its input, or the stream it was
    given by :func:`set_residual_stream`. To be asked when the block begins, [B, L, D]."""
    stream: Stream | None = block.__dict__.get(RESIDUAL_STREAM)
    if stream is None:
        return block_input
    assert stream.stream is not None
    return stream.stream


def check_alpha(alpha: object, n_layers: int, name: str = "alpha") -> list[float]:
    """Check a residual factor and spread it over the layers.

    Args:
        alpha: a number of at least 0, or a list or tuple of ``n_layers`` such numbers.
        n_layers: number of attention blocks.
        name: what to call it in an error.

    Returns:
        One float per layer.

    Raises:
        ValueError: if it is anything else (negative, NaN, infinite, text, a wrong length).

    Example:
        >>> check_alpha(0.3, 2)
        [0.3, 0.3]
        >>> check_alpha([1, 0.5], 2)
        [1.0, 0.5]
    """
    if isinstance(alpha, (list, tuple)):
        if len(alpha) != n_layers:
            raise ModelError(
                f"{name} = {alpha!r} has {len(alpha)} entries, but the model has {n_layers} "
                f"layers: give one number, or a list of {n_layers}."
            )
        values = list(alpha)
    else:
        values = [alpha] * n_layers
    for value in values:
        usable = isinstance(value, Real) and not isinstance(value, bool)
        if not (usable and 0 <= float(value) < math.inf):
            raise ModelError(
                f"{name} = {alpha!r} is not usable: it must be a finite number of at least 0 "
                f"(1 is the unchanged model, 0 removes the residual), or a list with one per layer."
            )
    return [float(value) for value in values]


class Scaling:
    """The factors laid on one block, innermost last, and the hooks that apply the last one."""

    def __init__(self, block: Any) -> None:
        self.entries: list[tuple[object, float]] = []
        self._input: torch.Tensor | None = None
        self._branch: torch.Tensor | None = None
        self._handles = []
        if not isinstance(block, AddedSkip):
            self._handles = [
                block.register_forward_pre_hook(self._keep_input),
                branch_end(block).register_forward_hook(self._keep_branch),
                block.LayerNorm.register_forward_pre_hook(self._scale),
            ]

    @property
    def factor(self) -> float:
        return self.entries[-1][1]

    def _keep_input(self, module: nn.Module, args: tuple[torch.Tensor, ...]) -> None:
        self._input = residual_of(module, args[0])

    def _keep_branch(self, module: nn.Module, args: tuple, output: torch.Tensor) -> None:
        self._branch = output

    def _scale(
        self, module: nn.Module, args: tuple[torch.Tensor, ...]
    ) -> tuple[torch.Tensor] | None:
        residual, branch = self._input, self._branch
        self._input = self._branch = None
        if self.factor == 1 or residual is None or branch is None:
            return None
        return (torch.add(branch, residual, alpha=self.factor),)

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()


def _push(block: nn.Module, key: object, factor: float) -> None:
    scaling = block.__dict__.get(_STATE)
    if scaling is None:
        if factor == _neutral(block):
            return
        scaling = Scaling(block)
        block.__dict__[_STATE] = scaling
    scaling.entries.append((key, factor))


def _pop(block: nn.Module, key: object) -> None:
    scaling = block.__dict__.get(_STATE)
    if scaling is None:
        return
    scaling.entries = [entry for entry in scaling.entries if entry[0] is not key]
    if not scaling.entries:
        scaling.remove()
        del block.__dict__[_STATE]


def residual_factor(block: nn.Module) -> float:
    """The factor in force on the residual of one block; 1 if none was laid on it, or 0 for an
    :class:`AddedSkip`."""
    scaling = block.__dict__.get(_STATE)
    return _neutral(block) if scaling is None else scaling.factor


def residual_alpha(model: nn.Module) -> list[float]:
    """The ``alpha`` in force on each block of :func:`residual_blocks`, first layer first."""
    return [residual_factor(block) for block in residual_blocks(model)]


class ResidualScale:
    """A residual factor laid on a model until :meth:`remove` is called.

    :func:`scale_residual` is the usual way in; this class is for an owner that keeps the factor
    for as long as it lives, such as the ``alpha`` of a model of this package.

    Args:
        model: a RecBole model with attention blocks.
        alpha: factor of the residual around attention; None leaves it as it is.
        feed_forward: factor of the residual around the feed-forward blocks; None leaves it, unless
            the model says ``alpha_scales_feed_forward``: then it is ``alpha``.
    """

    def __init__(
        self, model: nn.Module, alpha: Alpha | None = None, feed_forward: Alpha | None = None
    ) -> None:
        self._blocks: list[nn.Module] = []
        pairs: list[tuple[nn.Module, float]] = []
        if alpha is not None:
            blocks = residual_blocks(model)
            pairs += zip(blocks, check_alpha(alpha, len(blocks)))
        if feed_forward is None and getattr(model, "alpha_scales_feed_forward", False):
            feed_forward = alpha
        if feed_forward is not None:
            blocks = feed_forward_blocks(model)
            pairs += zip(blocks, check_alpha(feed_forward, len(blocks), "feed_forward"))
        for block, factor in pairs:
            _push(block, self, factor)
            self._blocks.append(block)

    def remove(self) -> None:
        """Take this factor off; what lay on the model before is in force again."""
        for block in self._blocks:
            _pop(block, self)
        self._blocks = []


@contextmanager
def scale_residual(
    model: nn.Module, alpha: Alpha | None = None, *, feed_forward: Alpha | None = None
) -> Iterator[nn.Module]:
    """Scale the residual of every attention block of a RecBole model for a while.

    Inside the context every forward of ``model`` uses ``z = alpha * x + attention(x)`` before the
    block's LayerNorm. Contexts nest, the innermost wins; on leaving, also by an exception, exactly
    the hooks of this context are gone. With ``alpha = 1`` no hook is set.

    Args:
        model: any RecBole model built from RecBole's attention blocks (SASRec, SASRecF, BERT4Rec,
            FEARec, CORE, LightSANs, ...), or one that holds an :class:`AddedSkip`.
        alpha: a number of at least 0, or one per layer. None leaves the attention residual alone.
        feed_forward: the same for the residual around the feed-forward blocks. None leaves it
            alone, unless the model says ``alpha_scales_feed_forward``: then it is ``alpha``.

    Raises:
        NoAttentionError: if the model has no attention block.
        ValueError: if a factor is not usable.

    Example:
        >>> from recbole.model.layers import TransformerEncoder
        >>> encoder = TransformerEncoder(n_layers=2, n_heads=2, hidden_size=8, inner_size=16)
        >>> with scale_residual(encoder, 0.3):
        ...     residual_alpha(encoder)
        [0.3, 0.3]
        >>> residual_alpha(encoder)
        [1.0, 1.0]
    """
    scale = ResidualScale(model, alpha, feed_forward)
    try:
        yield model
    finally:
        scale.remove()
