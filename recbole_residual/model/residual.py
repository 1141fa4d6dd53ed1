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
from typing import Any, Union

import torch
from torch import nn

from recbole_residual.errors import ModelError
from recbole_residual.model.architecture.blocks import branch_end, feed_forward_blocks
from recbole_residual.model.architecture.residuals import (
    AddedSkip,
    neutral_alpha,
    neutral_factor,
    residual_blocks,
)
from recbole_residual.model.architecture.stream import has_weight, residual_of
from recbole_residual.model.architecture.wrappers import hookable, unwrapped

Alpha = Union[float, Sequence[float]]
"""One factor for every layer, or a sequence with one factor per layer."""

_STATE = "_residual_scaling"


def check_alpha(alpha: object, n_layers: int, name: str = "alpha") -> list[float]:
    """Check a residual factor and spread it over the layers.

    Args:
        alpha: a number of at least 0, or a list or tuple of ``n_layers`` such numbers.
        n_layers: number of attention blocks.
        name: what to call it in an error.

    Returns:
        One float per layer.

    Raises:
        ModelError: if it is anything else (negative, NaN, infinite, text, a wrong length).

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
    """The factors laid on one block, and the hooks that apply the one in force.

    The last entry is in force. A model's own ``alpha`` is always the first one, so that every
    context lies above it, whichever was set later.
    """

    def __init__(self, block: Any) -> None:
        self.entries: list[tuple[object, float]] = []
        self._block = block
        self._input: torch.Tensor | None = None
        self._branch: torch.Tensor | None = None
        self._handles: list[Any] = []

    @property
    def factor(self) -> float:
        return self.entries[-1][1] if self.entries else neutral_factor(self._block)

    def apply(self) -> None:
        """Set the hooks that the factor in force needs, and take them off where it needs none."""
        if isinstance(self._block, AddedSkip):
            self._block.factor = self.factor
            return
        if self.factor == 1 and not has_weight(self._block):
            for handle in self._handles:
                handle.remove()
            self._handles = []
        elif not self._handles:
            self._handles = [
                self._block.register_forward_pre_hook(self._keep_input),
                branch_end(self._block).register_forward_hook(self._keep_branch),
                self._block.LayerNorm.register_forward_pre_hook(self._scale),
            ]

    def _keep_input(self, module: nn.Module, args: tuple[torch.Tensor, ...]) -> None:
        self._input = residual_of(module, args[0])

    def _keep_branch(self, module: nn.Module, args: tuple, output: torch.Tensor) -> None:
        self._branch = output

    def _scale(
        self, module: nn.Module, args: tuple[torch.Tensor, ...]
    ) -> tuple[torch.Tensor] | None:
        residual, branch = self._input, self._branch
        self._input = self._branch = None
        if residual is None or branch is None:
            return None
        return (torch.add(branch, residual, alpha=self.factor),)


def _push(block: nn.Module, key: object, factor: float, beneath: bool) -> None:
    scaling = vars(block).get(_STATE)
    if scaling is None:
        scaling = vars(block)[_STATE] = Scaling(block)
    scaling.entries.insert(0 if beneath else len(scaling.entries), (key, factor))
    scaling.apply()


def _pop(block: nn.Module, key: object) -> None:
    scaling = vars(block).get(_STATE)
    if scaling is None:
        return
    scaling.entries = [entry for entry in scaling.entries if entry[0] is not key]
    scaling.apply()
    if not scaling.entries:
        del vars(block)[_STATE]


def residual_factor(block: nn.Module) -> float:
    """The factor in force on the residual of one block; 1 if none was laid on it, or 0 for an
    :class:`~recbole_residual.model.architecture.residuals.AddedSkip`."""
    scaling = vars(block).get(_STATE)
    return neutral_factor(block) if scaling is None else scaling.factor


def residual_alpha(model: nn.Module) -> list[float]:
    """The ``alpha`` in force on each residual that ``alpha`` scales, first layer first."""
    return [residual_factor(block) for block in residual_blocks(model)]


def is_unscaled(model: nn.Module) -> bool:
    """Whether every residual of ``model`` has its neutral factor: 1, or 0 for an added skip."""
    neutral = neutral_alpha(model)
    return all(alpha == neutral for alpha in residual_alpha(model)) and all(
        residual_factor(block) == 1 for block in feed_forward_blocks(model)
    )


class ResidualScale:
    """A residual factor laid on a model until :meth:`remove` is called.

    :func:`scale_residual` is the usual way in; this class is for an owner that keeps the factor
    for as long as it lives, such as the ``alpha`` of a model of this package.

    Args:
        model: a RecBole model with attention blocks.
        alpha: factor of the residual around attention; None leaves it as it is.
        feed_forward: factor of the residual around the feed-forward blocks; None leaves it, unless
            the model says ``alpha_scales_feed_forward``: then it is ``alpha``.
        beneath: whether everything else that is laid on the model, now or later, is in force
            before it.
    """

    def __init__(
        self,
        model: nn.Module,
        alpha: Alpha | None = None,
        feed_forward: Alpha | None = None,
        *,
        beneath: bool = False,
    ) -> None:
        self._blocks: list[nn.Module] = []
        self._model = model
        model = unwrapped(model)
        pairs: list[tuple[nn.Module, float]] = []
        if alpha is not None:
            blocks = residual_blocks(model)
            pairs += zip(blocks, check_alpha(alpha, len(blocks)))
        if feed_forward is None and getattr(model, "alpha_scales_feed_forward", False):
            feed_forward = alpha
        if feed_forward is not None:
            blocks = feed_forward_blocks(model)
            pairs += zip(blocks, check_alpha(feed_forward, len(blocks), "feed_forward"))
        self._sets_hooks = any(factor != neutral_factor(block) for block, factor in pairs)
        self.check_hooks()
        for block, factor in pairs:
            _push(block, self, factor, beneath)
            self._blocks.append(block)

    def check_hooks(self) -> None:
        """Make sure that forwards call the hooks of this factor.

        Raises:
            ModelError: if the model or one of its modules is compiled, or inside ``DataParallel``.
        """
        if self._sets_hooks:
            hookable(self._model)

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
    block's LayerNorm. Contexts nest, the innermost wins, also over a ``model.alpha`` that is set
    inside; on leaving, also by an exception, exactly the hooks of this context are gone. With
    ``alpha = 1`` no hook is set.

    Args:
        model: any RecBole model built from RecBole's attention blocks (SASRec, SASRecF, BERT4Rec,
            FEARec, CORE, LightSANs, ...), or one that holds an
            :class:`~recbole_residual.model.architecture.residuals.AddedSkip`; it may be inside
            ``DistributedDataParallel``.
        alpha: a number of at least 0, or one per layer. None leaves the attention residual alone.
        feed_forward: the same for the residual around the feed-forward blocks. None leaves it
            alone, unless the model says ``alpha_scales_feed_forward``: then it is ``alpha``.

    Raises:
        NoAttentionError: if the model has no attention block.
        ModelError: if a factor is not usable, or the model or one of its modules is compiled or
            inside ``DataParallel``: its forward would not call the hooks.

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
        scale.check_hooks()  # it may have been compiled inside
    finally:
        scale.remove()


@contextmanager
def unscaled(model: nn.Module) -> Iterator[None]:
    """Inside, every residual of ``model`` has its neutral factor."""
    alpha = neutral_alpha(model)
    with scale_residual(model, alpha, feed_forward=1.0 if feed_forward_blocks(model) else None):
        yield
