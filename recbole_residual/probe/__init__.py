"""Questions asked of one trained model, without retraining.

Names are loaded when they are first asked for, so that what only wants one of them (or the text of
``--help``) does not wait for torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recbole_residual.errors import ProbeDataError
    from recbole_residual.probe.all_probes import run_probes
    from recbole_residual.probe.alpha_selection import (
        DEFAULT_EPSILONS,
        AlphaChoice,
        AlphaSelection,
        choose_alpha,
        select_alpha,
    )
    from recbole_residual.probe.alpha_sweep import AlphaSweep, sweep_alpha
    from recbole_residual.probe.by_position import PositionReading, positions
    from recbole_residual.probe.engine.setting import DEFAULT_ALPHAS
    from recbole_residual.probe.faithfulness_check import (
        Faithfulness,
        FaithfulnessOptions,
        faithfulness,
    )
    from recbole_residual.probe.inside_model import Internals, internals
    from recbole_residual.probe.reliance_table import RelianceTable, reliance
    from recbole_residual.probe.result import ProbeResult
    from recbole_residual.probe.shuffles import ShuffleResult, shuffle
    from recbole_residual.probe.weight_influence import Influence, influence

_HOME = {
    "DEFAULT_ALPHAS": "probe.engine.setting",
    "DEFAULT_EPSILONS": "probe.alpha_selection",
    "AlphaChoice": "probe.alpha_selection",
    "AlphaSelection": "probe.alpha_selection",
    "AlphaSweep": "probe.alpha_sweep",
    "Faithfulness": "probe.faithfulness_check",
    "FaithfulnessOptions": "probe.faithfulness_check",
    "Influence": "probe.weight_influence",
    "Internals": "probe.inside_model",
    "PositionReading": "probe.by_position",
    "ProbeDataError": "errors",
    "ProbeResult": "probe.result",
    "RelianceTable": "probe.reliance_table",
    "ShuffleResult": "probe.shuffles",
    "choose_alpha": "probe.alpha_selection",
    "faithfulness": "probe.faithfulness_check",
    "influence": "probe.weight_influence",
    "internals": "probe.inside_model",
    "positions": "probe.by_position",
    "reliance": "probe.reliance_table",
    "run_probes": "probe.all_probes",
    "select_alpha": "probe.alpha_selection",
    "shuffle": "probe.shuffles",
    "sweep_alpha": "probe.alpha_sweep",
}

__all__ = [
    "DEFAULT_ALPHAS",
    "DEFAULT_EPSILONS",
    "AlphaChoice",
    "AlphaSelection",
    "AlphaSweep",
    "Faithfulness",
    "FaithfulnessOptions",
    "Influence",
    "Internals",
    "PositionReading",
    "ProbeDataError",
    "ProbeResult",
    "RelianceTable",
    "ShuffleResult",
    "choose_alpha",
    "faithfulness",
    "influence",
    "internals",
    "positions",
    "reliance",
    "run_probes",
    "select_alpha",
    "shuffle",
    "sweep_alpha",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"recbole_residual.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
