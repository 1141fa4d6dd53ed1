"""Which half precision ``enable_amp`` trains in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from recbole.trainer import trainer

from recbole_residual.compat import replaced


def needs_scaler(device: torch.device) -> bool:
    """Whether ``enable_amp`` means float16 here, whose small gradients vanish unless scaled.

    Args:
        device: where the model is trained.
    """
    # torch.cuda.is_bf16_supported() counts GPUs that only emulate it
    return device.type == "cuda" and torch.cuda.get_device_capability(device) < (8, 0)


@contextmanager
def half_precision(device: torch.device, enabled: bool) -> Iterator[None]:
    """RecBole's autocast takes bfloat16, which has the range of float32, where there is any.

    A CPU does so by itself; a GPU takes float16 unless it is told. Older GPUs keep float16.

    Args:
        device: where the model is trained.
        enabled: the key ``enable_amp``.
    """
    if not enabled or device.type != "cuda" or needs_scaler(device):
        yield
        return
    before = autocast_dtype()
    _set_autocast_dtype(torch.bfloat16)
    try:
        yield
    finally:
        _set_autocast_dtype(before)


@contextmanager
def clipping_unscaled(optimizer: torch.optim.Optimizer, enabled: bool) -> Iterator[None]:
    """Inside, RecBole's Trainer clips gradients, not gradients times the scale of its scaler.

    Args:
        optimizer: that the scaler steps.
        enabled: whether the gradients are scaled and clipped.
    """
    if not enabled:
        yield
        return
    scalers: list[Any] = []
    make_scaler, clip = trainer.amp.GradScaler, trainer.clip_grad_norm_

    def scaler(**options: Any) -> Any:
        scalers.append(make_scaler(**options))
        return scalers[-1]

    def clip_unscaled(*args: Any, **options: Any) -> Any:
        scalers[-1].unscale_(optimizer)
        return clip(*args, **options)

    scaling = replaced(trainer.amp, "GradScaler", scaler)
    with scaling, replaced(trainer, "clip_grad_norm_", clip_unscaled):
        yield


def autocast_dtype() -> torch.dtype:
    """What autocast takes on a GPU unless it is told otherwise."""
    if hasattr(torch, "get_autocast_dtype"):  # torch >= 2.4
        return torch.get_autocast_dtype("cuda")
    return torch.get_autocast_gpu_dtype()


def _set_autocast_dtype(dtype: torch.dtype) -> None:
    if hasattr(torch, "set_autocast_dtype"):
        torch.set_autocast_dtype("cuda", dtype)
    else:
        torch.set_autocast_gpu_dtype(dtype)
