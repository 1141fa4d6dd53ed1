"""Questions asked of one trained model, without retraining."""

from recbole_residual.probe.alpha_selection import (
    DEFAULT_EPSILONS,
    AlphaChoice,
    AlphaSelection,
    choose_alpha,
    select_alpha,
)
from recbole_residual.probe.alpha_sweep import AlphaSweep, sweep_alpha
from recbole_residual.probe.by_position import PositionReading, positions
from recbole_residual.probe.engine.rows import ProbeDataError
from recbole_residual.probe.engine.setting import DEFAULT_ALPHAS
from recbole_residual.probe.inside_model import Internals, internals
from recbole_residual.probe.reliance_table import RelianceTable, reliance
from recbole_residual.probe.result import ProbeResult
from recbole_residual.probe.run_probes import run_probes
from recbole_residual.probe.shuffles import ShuffleResult, shuffle

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
