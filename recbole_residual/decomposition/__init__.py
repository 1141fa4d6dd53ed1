"""Hooks and the norm-based decomposition of an attention block."""

from recbole_residual.decomposition.observer import observe
from recbole_residual.decomposition.recent import RecentMap
from recbole_residual.decomposition.result import Decomposition
from recbole_residual.decomposition.rollouts import Rollout, rollout
from recbole_residual.decomposition.scores import ScoreShares, score_shares
from recbole_residual.decomposition.statistics import RatioStatistics
from recbole_residual.decomposition.tracing import (
    Trace,
    capture,
    decompose,
    decompose_dataset,
)

__all__ = [
    "Decomposition",
    "RatioStatistics",
    "RecentMap",
    "Rollout",
    "ScoreShares",
    "Trace",
    "capture",
    "decompose",
    "decompose_dataset",
    "observe",
    "rollout",
    "score_shares",
]
