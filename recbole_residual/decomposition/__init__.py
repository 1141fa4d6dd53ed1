"""Hooks and the norm-based decomposition of an attention block."""

from recbole_residual.decomposition.observer import observe
from recbole_residual.decomposition.result import Decomposition
from recbole_residual.decomposition.statistics import RatioStatistics

__all__ = ["Decomposition", "RatioStatistics", "observe"]
