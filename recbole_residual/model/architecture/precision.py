"""Weights in half precision, which RecBole's attention models cannot run with."""

from __future__ import annotations

from typing import Any

import torch

from recbole_residual.errors import ModelError
from recbole_residual.model.architecture.blocks import has_attention

_HALF = (torch.float16, torch.bfloat16)


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
