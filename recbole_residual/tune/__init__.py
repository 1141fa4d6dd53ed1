"""Ray Tune: hyper-parameter searches, and benchmarks over datasets, models and seeds.

The names below are loaded when they are first used: Ray is slow to import.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recbole_residual.tune.ray_api import MissingPackageError, Resources
    from recbole_residual.tune.run import TuneResult, resume_tune, run_benchmark, run_tune
    from recbole_residual.tune.space import AlphaSearch, Space, SpaceError

_HOMES = {
    "AlphaSearch": "space",
    "MissingPackageError": "ray_api",
    "Resources": "ray_api",
    "Space": "space",
    "SpaceError": "space",
    "TuneResult": "run",
    "resume_tune": "run",
    "run_benchmark": "run",
    "run_tune": "run",
}

__all__ = [
    "AlphaSearch",
    "MissingPackageError",
    "Resources",
    "Space",
    "SpaceError",
    "TuneResult",
    "resume_tune",
    "run_benchmark",
    "run_tune",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
