"""The figures of a report. Only what draws one imports this room, and matplotlib with it."""

# This one first: it imports matplotlib quietly.
from recbole_residual.report.figures import _start  # noqa: F401
from recbole_residual.report.figures.ablation import deletion_and_insertion, reliance_curve
from recbole_residual.report.figures.alpha import (
    alpha_curves,
    hrli_against_accuracy,
    learned_alphas,
)
from recbole_residual.report.figures.bars import (
    influence_bars,
    position_bars,
    rank_distribution,
    ratios_by_stage,
    shuffle_bars,
)
from recbole_residual.report.figures.maps import heatmaps
from recbole_residual.report.figures.selection import (
    outcome_against_epsilon,
    recovery_against_accuracy,
)

__all__ = [
    "alpha_curves",
    "deletion_and_insertion",
    "heatmaps",
    "hrli_against_accuracy",
    "influence_bars",
    "learned_alphas",
    "outcome_against_epsilon",
    "position_bars",
    "rank_distribution",
    "ratios_by_stage",
    "recovery_against_accuracy",
    "reliance_curve",
    "shuffle_bars",
]
