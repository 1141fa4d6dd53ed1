"""How far two ways to compute the same score can be apart."""

from __future__ import annotations

import math
from typing import Any

import torch

_SAFETY = 2.0
_MEASURED_SAFETY = 8.0


def unit_roundoff(tensor: torch.Tensor) -> float:
    """Relative error of one rounding in a matrix product of tensors like this one.

    Where torch may take TF32 or bfloat16 inside a float32 product, it is that format's.
    """
    if tensor.dtype != torch.float32:
        return torch.finfo(tensor.dtype).eps / 2
    if tensor.device.type == "cuda":
        precision = torch.get_float32_matmul_precision()
        if precision == "highest" and not torch.backends.cuda.matmul.allow_tf32:
            return 2.0**-24
        return 2.0**-11
    return {"highest": 2.0**-24, "high": 2.0**-11}.get(
        torch.get_float32_matmul_precision(), 2.0**-8
    )


def relative_margin(model: torch.nn.Module) -> float:
    """How far apart two scores must be for their order to be the same however they are computed,
    as a share of the norm of the state times the largest norm of an item.

    Roundings in a product of width n add up to about ``sqrt(n)`` of them, and every product on the
    way passes them on to the next. The width is the widest product's, the depth their number, both
    counted in the model's own weights; the precision is the one in force.

    Args:
        model: its parameters are looked at.
    """
    weights = [weight for weight in model.parameters() if weight.dim() >= 2]
    if not weights:
        return 0.0
    # An embedding is looked up, no product: what counts there is its width.
    widths = [weight.shape[-1] for weight in weights]
    depth = 1 + len(weights)
    roundoff = max(unit_roundoff(weight) for weight in weights)
    return _SAFETY * roundoff * math.sqrt(max(widths)) * depth


def measured_margin(scores: torch.Tensor, again: torch.Tensor, size: torch.Tensor) -> float:
    """The same, from the scores of some rows computed in both ways.

    Args:
        scores, again: of the same rows, [B, n_items].
        size: norm of each row's state times the largest norm of an item, [B].
    """
    apart = (scores - again).abs().amax(dim=1)
    return _MEASURED_SAFETY * float((apart / size.clamp(min=torch.finfo(size.dtype).tiny)).max())


def fewest_rows(device: Any) -> int:
    """Rows of a batch from which on the bits of a row's scores do not depend on the batch.

    In smaller ones a CPU takes other kernels.
    """
    return 1 if device.type != "cpu" else 32 * torch.get_num_threads()
