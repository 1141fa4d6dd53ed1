"""What a model or a device cannot compute in: half precision with RecBole's attention, float64 on
Apple's GPUs."""

from __future__ import annotations

from typing import Any

import torch

from recbole_residual.errors import ModelError
from recbole_residual.model.architecture.blocks import has_attention

_HALF = (torch.float16, torch.bfloat16)
WITHOUT_FLOAT64 = {"mps"}
"""Types of devices that have no float64."""


def widest_float(device: torch.device) -> torch.dtype:
    """float64 where the device has it, else float32: what sums are kept in.

    Example:
        >>> widest_float(torch.device("cpu")), widest_float(torch.device("mps"))
        (torch.float64, torch.float32)
    """
    return torch.float32 if device.type in WITHOUT_FLOAT64 else torch.float64


def widened(tensor: torch.Tensor) -> torch.Tensor:
    """The same numbers in the widest float of their device.

    Example:
        >>> widened(torch.tensor([True, False])).tolist()
        [1.0, 0.0]
    """
    return tensor.to(widest_float(tensor.device))


def moved(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """A tensor on another device, float64 in the widest float that it has."""
    if tensor.dtype == torch.float64:
        return tensor.to(device, widest_float(device))
    return tensor.to(device)


def refuse_half_precision(model: Any) -> None:
    """Refuse a RecBole attention model whose weights are in half precision.

    RecBole's attention mask is float32, so the first product of such a model ends in an error of
    torch's. Blocks alone, and models without attention, run in half precision.

    Args:
        model: a RecBole recommender, or any other module.

    Raises:
        ModelError: with what to do instead.
    """
    dtype = next((weight.dtype for weight in model.parameters()), None)
    if dtype in _HALF and hasattr(model, "full_sort_predict") and has_attention(model):
        raise ModelError(
            f"{type(model).__name__} holds {str(dtype).rpartition('.')[2]} weights, and RecBole's "
            "attention runs in float32 and float64 only (its mask is float32): call "
            "model.float(), inside torch.autocast where half precision is wanted."
        )
