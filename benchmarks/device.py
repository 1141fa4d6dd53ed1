"""Where the benchmarks compute, and a clock that waits for it. Nothing to run."""

from __future__ import annotations

import time

import torch

HAS_GPU = torch.cuda.is_available()
DEVICE = torch.device("cuda" if HAS_GPU else "cpu")


def now() -> float:
    """Seconds, once the GPU has done all that it was told: it works while the host goes on."""
    if HAS_GPU:
        torch.cuda.synchronize()
    return time.perf_counter()
