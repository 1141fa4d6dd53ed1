"""Questions asked of one trained model, without retraining."""

from recbole_residual.probe.internals import Internals, internals
from recbole_residual.probe.positions import PositionReading, positions
from recbole_residual.probe.reliance import RelianceTable, reliance
from recbole_residual.probe.result import ProbeResult
from recbole_residual.probe.rows import ProbeDataError
from recbole_residual.probe.run import run_probes
from recbole_residual.probe.selection import (
    DEFAULT_EPSILONS,
    AlphaChoice,
    AlphaSelection,
    choose_alpha,
    select_alpha,
)
from recbole_residual.probe.setting import DEFAULT_ALPHAS
from recbole_residual.probe.shuffle import ShuffleResult, shuffle
from recbole_residual.probe.sweep import AlphaSweep, sweep_alpha

__all__ = [
    "DEFAULT_ALPHAS",
    "DEFAULT_EPSILONS",
    "AlphaChoice",
    "AlphaSelection",
    "AlphaSweep",
    "Internals",
    "PositionReading",
    "ProbeDataError",
    "ProbeResult",
    "RelianceTable",
    "ShuffleResult",
    "choose_alpha",
    "internals",
    "positions",
    "reliance",
    "run_probes",
    "select_alpha",
    "shuffle",
    "sweep_alpha",
]
