"""recbole-residual: how much a sequential recommender leans on the last item, and why.

The names below are loaded when they are first used, so that ``import recbole_residual`` and
``recbole-residual --help`` do not wait for torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from recbole_residual import compat as _compat
from recbole_residual.version import __version__

if TYPE_CHECKING:
    from recbole_residual.decomposition import capture, decompose
    from recbole_residual.diagnose.diagnosis import Diagnosis, diagnose
    from recbole_residual.diagnose.explanation import Explanation, explain
    from recbole_residual.evaluator.register import register
    from recbole_residual.model import SASRecResidual, register_model
    from recbole_residual.model.residual import residual_alpha, scale_residual
    from recbole_residual.report import Report, compare
    from recbole_residual.run.train import load_run, resume_run, run_recbole_residual
    from recbole_residual.tune import resume_tune, run_benchmark, run_tune

_HOMES = {
    "Diagnosis": "recbole_residual.diagnose.diagnosis",
    "Explanation": "recbole_residual.diagnose.explanation",
    "Report": "recbole_residual.report",
    "SASRecResidual": "recbole_residual.model",
    "capture": "recbole_residual.decomposition",
    "compare": "recbole_residual.report",
    "decompose": "recbole_residual.decomposition",
    "diagnose": "recbole_residual.diagnose.diagnosis",
    "explain": "recbole_residual.diagnose.explanation",
    "load_run": "recbole_residual.run.train",
    "register": "recbole_residual.evaluator",
    "register_model": "recbole_residual.model",
    "residual_alpha": "recbole_residual.model.residual",
    "resume_run": "recbole_residual.run.train",
    "resume_tune": "recbole_residual.tune",
    "run_benchmark": "recbole_residual.tune",
    "run_recbole_residual": "recbole_residual.run.train",
    "run_tune": "recbole_residual.tune",
    "scale_residual": "recbole_residual.model.residual",
}

__all__ = [
    "Diagnosis",
    "Explanation",
    "Report",
    "SASRecResidual",
    "__version__",
    "capture",
    "compare",
    "decompose",
    "diagnose",
    "explain",
    "load_run",
    "register",
    "register_model",
    "residual_alpha",
    "resume_run",
    "resume_tune",
    "run_benchmark",
    "run_recbole_residual",
    "run_tune",
    "scale_residual",
]

_compat.mend_numpy2_names()
_compat.mend_anomaly_detection()


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    _compat.check_recbole_version()
    return getattr(importlib.import_module(_HOMES[name]), name)
