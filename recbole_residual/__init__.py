"""recbole-residual: how much a sequential recommender leans on the last item, and why.

The names below are loaded when they are first used, so that ``import recbole_residual`` and
``recbole-residual --help`` do not wait for torch.
"""

from __future__ import annotations

import importlib
import types
from typing import TYPE_CHECKING, Any

from recbole_residual import compat as _compat
from recbole_residual.config.recbole_version import check_recbole_version as _check_recbole_version
from recbole_residual.version import __version__

if TYPE_CHECKING:
    from recbole_residual.decomposition import capture, decompose
    from recbole_residual.diagnose.diagnosis import Diagnosis, diagnose
    from recbole_residual.diagnose.explanation import Explanation, explain
    from recbole_residual.diagnose.full_run import resume, run
    from recbole_residual.evaluator.registration import register
    from recbole_residual.model import (
        BERT4RecResidual,
        BSARec,
        BSARecResidual,
        DuoRec,
        DuoRecResidual,
        GRU4RecResidual,
        SASRecPSD,
        SASRecResidual,
        SASRecTAM,
        SASRecUniform,
        SetRec,
        register_model,
    )
    from recbole_residual.model.residual import residual_alpha, scale_residual
    from recbole_residual.probe import (
        choose_alpha,
        internals,
        positions,
        reliance,
        shuffle,
        sweep_alpha,
    )
    from recbole_residual.report.comparison import compare
    from recbole_residual.report.page import Report, report
    from recbole_residual.run.session import Session
    from recbole_residual.study.job import StudyResult, resume_study, study
    from recbole_residual.tune.result import TuneResult
    from recbole_residual.tune.run import benchmark, resume_tune, tune

_HOMES = {
    "BERT4RecResidual": "model",
    "BSARec": "model",
    "BSARecResidual": "model",
    "Diagnosis": "diagnose.diagnosis",
    "DuoRec": "model",
    "DuoRecResidual": "model",
    "Explanation": "diagnose.explanation",
    "GRU4RecResidual": "model",
    "Report": "report.page",
    "SASRecPSD": "model",
    "SASRecResidual": "model",
    "SASRecTAM": "model",
    "SASRecUniform": "model",
    "SetRec": "model",
    "Session": "run.session",
    "StudyResult": "study.job",
    "TuneResult": "tune.result",
    "benchmark": "tune.run",
    "capture": "decomposition",
    "choose_alpha": "probe",
    "compare": "report.comparison",
    "decompose": "decomposition",
    "diagnose": "diagnose.diagnosis",
    "explain": "diagnose.explanation",
    "internals": "probe",
    "positions": "probe",
    "register": "evaluator.registration",
    "register_model": "model",
    "reliance": "probe",
    "report": "report.page",
    "residual_alpha": "model.residual",
    "resume": "diagnose.full_run",
    "resume_study": "study.job",
    "resume_tune": "tune.run",
    "run": "diagnose.full_run",
    "scale_residual": "model.residual",
    "shuffle": "probe",
    "study": "study.job",
    "sweep_alpha": "probe",
    "tune": "tune.run",
}
"""Where each public name lives, below this package."""

__all__ = [
    "BERT4RecResidual",
    "BSARec",
    "BSARecResidual",
    "Diagnosis",
    "DuoRec",
    "DuoRecResidual",
    "Explanation",
    "GRU4RecResidual",
    "Report",
    "SASRecPSD",
    "SASRecResidual",
    "SASRecTAM",
    "SASRecUniform",
    "Session",
    "SetRec",
    "StudyResult",
    "TuneResult",
    "__version__",
    "benchmark",
    "capture",
    "choose_alpha",
    "compare",
    "decompose",
    "diagnose",
    "explain",
    "internals",
    "positions",
    "register",
    "register_model",
    "reliance",
    "report",
    "residual_alpha",
    "resume",
    "resume_study",
    "resume_tune",
    "run",
    "scale_residual",
    "shuffle",
    "study",
    "sweep_alpha",
    "tune",
]

_CALLED_ROOMS = ("diagnose", "report", "run", "study", "tune")
"""Rooms that bear the name of what is done in them: ``recbole_residual.run`` is the package with
the session and the folder of a run, and calling it runs a model."""


class _CalledRoom(types.ModuleType):
    """A package that is called like its function of the same name, so that neither hides the
    other, whichever of them is imported first."""

    @property
    def __wrapped__(self) -> Any:
        """The function; ``help`` and ``inspect.signature`` look here."""
        return _load(self.__name__.rpartition(".")[2])

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__wrapped__(*args, **kwargs)


def _load(name: str) -> Any:
    _check_recbole_version()
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _load(name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


for _room in _CALLED_ROOMS:
    importlib.import_module(f"{__name__}.{_room}").__class__ = _CalledRoom

_compat.mend_numpy2_names()
_compat.mend_anomaly_detection()
