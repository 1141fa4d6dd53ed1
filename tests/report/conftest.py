"""Finished runs to report on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from recbole_residual.diagnose.full_run import run
from tests.conftest import SMALL


def finish(folder: Path, model: str = "SASRecResidual", **changes: Any) -> Path:
    """Train for a moment; no probes and no report unless asked for."""
    config = {**SMALL, "epochs": 1, "output_dir": str(folder), **changes}
    run(model, "ml-100k", config_dict=config)
    return folder


@pytest.fixture(scope="session")
def whole_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was asked everything."""
    settings = {"probe": "full", "report": True, "latex": True, "export_per_user": True}
    return finish(tmp_path_factory.mktemp("report") / "whole run", epochs=4, seed=1, **settings)


@pytest.fixture(scope="session")
def other_seed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with another seed and fewer questions."""
    folder = tmp_path_factory.mktemp("report") / "other"
    return finish(folder, epochs=4, seed=2, probe="quick", export_per_user=True)


@pytest.fixture(scope="session")
def other_alpha(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with another alpha."""
    folder = tmp_path_factory.mktemp("report") / "alpha"
    return finish(folder, epochs=4, seed=1, alpha=0.2, export_per_user=True)


@pytest.fixture(scope="session")
def masked_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that predicts at [MASK], asked nothing."""
    return finish(tmp_path_factory.mktemp("report") / "masked", "BERT4RecResidual")
