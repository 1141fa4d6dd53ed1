"""Ray Tune: hyper-parameter searches, and benchmarks over datasets, models and seeds."""

from recbole_residual.tune.ray_api import MissingPackageError, Resources
from recbole_residual.tune.run import TuneResult, resume_tune, run_benchmark, run_tune
from recbole_residual.tune.space import AlphaSearch, Space, SpaceError

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
