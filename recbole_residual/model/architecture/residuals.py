"""The residual connections that ``alpha`` scales, and the ``alpha`` of the unchanged model."""

from __future__ import annotations

import torch
from torch import nn

from recbole_residual.model.architecture.blocks import attention_blocks


class AddedSkip(nn.Module):
    """A skip connection that the RecBole model does not have: ``branch + factor * skipped``.

    ``factor`` is 0 unless an ``alpha`` is laid on it, and then ``branch`` comes back untouched, so
    that the model is its RecBole parent, bit for bit. A model that holds such blocks in the place
    of attention blocks is scaled like any other.
    """

    neutral = 0.0

    def __init__(self) -> None:
        super().__init__()
        self.factor = self.neutral

    def forward(self, branch: torch.Tensor, skipped: torch.Tensor) -> torch.Tensor:
        """Both of one shape, [..., D]."""
        return branch if self.factor == 0 else torch.add(branch, skipped, alpha=self.factor)


def residual_blocks(model: nn.Module) -> list[nn.Module]:
    """What ``alpha`` scales, one block per entry of ``alpha``: :class:`AddedSkip` blocks if the
    model has any, else its attention blocks.

    Raises:
        NoAttentionError: if there is neither.
    """
    skips: list[nn.Module] = [module for module in model.modules() if isinstance(module, AddedSkip)]
    return skips or attention_blocks(model)


def neutral_factor(block: nn.Module) -> float:
    """The factor at which a block is RecBole's own: 1, or 0 for an :class:`AddedSkip`."""
    return AddedSkip.neutral if isinstance(block, AddedSkip) else 1.0


def neutral_alpha(model: nn.Module) -> float:
    """The ``alpha`` at which ``model`` is its RecBole parent: 1, or 0 if the skip was added.

    Raises:
        NoAttentionError: if the model has nothing to scale.
    """
    return neutral_factor(residual_blocks(model)[0])
