"""HRLI, HRL2I, MixingRatio and RecoveryRate in RecBole's evaluator."""

from recbole_residual.evaluator.availability import (
    UnavailableMetricError,
    check_metrics,
    metric_problem,
    result_keys,
)
from recbole_residual.evaluator.collector import (
    HistoryMaskedError,
    NotObservedError,
    ResidualCollector,
    observing,
)
from recbole_residual.evaluator.counting_evaluation import CountingEvaluation
from recbole_residual.evaluator.evaluator import ResidualEvaluator
from recbole_residual.evaluator.last_item import HRL2I, HRLI
from recbole_residual.evaluator.mixing_ratio import MixingRatio
from recbole_residual.evaluator.per_user import per_user_table, write_per_user
from recbole_residual.evaluator.ranks import NaNScoreError
from recbole_residual.evaluator.recovery_rate import RecoveryRate
from recbole_residual.evaluator.registration import register, register_metrics, unregister

__all__ = [
    "HRL2I",
    "HRLI",
    "CountingEvaluation",
    "HistoryMaskedError",
    "MixingRatio",
    "NaNScoreError",
    "NotObservedError",
    "RecoveryRate",
    "ResidualCollector",
    "ResidualEvaluator",
    "UnavailableMetricError",
    "check_metrics",
    "metric_problem",
    "observing",
    "per_user_table",
    "register",
    "register_metrics",
    "result_keys",
    "unregister",
    "write_per_user",
]
