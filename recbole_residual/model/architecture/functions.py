"""What RecBole's modules compute, as functions: for a forward that goes around the modules."""

from __future__ import annotations

from typing import Any, Callable

import torch
import torch.nn.functional as F  # noqa: N812
from recbole.model.layers import FeedForward
from torch import nn


def layer_norm(norm: nn.LayerNorm, z: torch.Tensor) -> torch.Tensor:
    """``norm(z)``, without the module's own call and hooks."""
    return F.layer_norm(z, norm.normalized_shape, norm.weight, norm.bias, norm.eps)


def activation(block: Any) -> Callable[[torch.Tensor], torch.Tensor]:
    """The activation of a RecBole ``FeedForward`` block; its gelu in one operation of torch."""
    function = block.intermediate_act_fn
    return F.gelu if getattr(function, "__func__", None) is FeedForward.gelu else function
