"""Adam in one pass over each parameter."""

from __future__ import annotations

import torch
from torch.optim import Adam, AdamW, Optimizer

_FUSED_ON_CPU = (2, 4)


def fused(optimizer: Optimizer) -> Optimizer:
    """The same optimizer with torch's fused step, where torch has one.

    The update is Adam's, to rounding. The plain step of torch goes about seven times over the
    parameters, their gradients and both moments, which counts when the catalogue is large. No row
    of the item embeddings may be left out of it: the loss over the whole catalogue reaches every
    row, and after sampled negatives the moments of a row still move it.

    Args:
        optimizer: of RecBole; anything but Adam and AdamW comes back as it is.
    """
    kind = type(optimizer)
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    if (kind is not Adam and kind is not AdamW) or not _has_fused_step(parameters):
        return optimizer
    groups = [{**group, "fused": True} for group in optimizer.param_groups]
    return kind(groups, fused=True)


def _has_fused_step(parameters: list[torch.Tensor]) -> bool:
    major, minor = torch.__version__.split(".")[:2]
    devices = {p.device.type for p in parameters}
    on_cpu = (int(major), int(minor)) >= _FUSED_ON_CPU
    return devices <= ({"cuda", "cpu"} if on_cpu else {"cuda"}) and all(
        p.is_floating_point() for p in parameters
    )
