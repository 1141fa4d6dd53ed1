"""Dropout masks from 16 random bits per element.

torch draws one number per element on a CPU, which costs more than the products of the network. The
share that is dropped is p to within 2**-17, and what is kept is scaled so that the mean stays.
"""

from __future__ import annotations

from typing import Any

import torch

_LEVELS = 2**16


def _kept_levels(p: float) -> int:
    return min(max(round((1 - p) * _LEVELS), 1), _LEVELS - 1)


def kept_share(p: float) -> float:
    """The share that :func:`draw_kept` keeps on average: 1 - p to within 2**-17."""
    return _kept_levels(p) / _LEVELS


def draw_kept(mask: torch.Tensor, p: float) -> torch.Tensor:
    """Fill ``mask``, a tensor on the CPU, with 1 where dropout keeps an element and 0 elsewhere.

    Args:
        mask: what is filled and given back.
        p: share that is dropped, below 1.
    """
    words = torch.empty(-(-mask.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
    bits = words.view(torch.int16)[: mask.numel()].view(mask.shape)
    return torch.lt(bits, _kept_levels(p) - _LEVELS // 2, out=mask)


def keep_mask(shape: Any, p: float, like: torch.Tensor) -> torch.Tensor:
    """What dropout multiplies with: 0 with probability p, else 1 / (1 - p).

    Args:
        shape: shape of the mask.
        p: share that is dropped, below 1.
        like: tensor whose device and precision the mask takes.
    """
    mask = torch.empty(shape, dtype=like.dtype, device=like.device)
    if like.device.type != "cpu":
        return mask.bernoulli_(1 - p).div_(1 - p)
    return draw_kept(mask, p).mul_(1 / kept_share(p))
