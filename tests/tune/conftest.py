from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.conftest import SMALL

TINY = {**SMALL, "epochs": 3, "probe": "none", "report": False}
"""Configuration of a trial that takes a second or two."""

QUICK_ALPHA = {"alphas": [0.0, 1.0], "epsilons": [0.05]}

ON_CPU = {"gpus_per_trial": 0}

GRID = {
    "space": {"n_heads": [1, 3], "hidden_dropout_prob": [0.1, 0.4]},  # 3 heads are an error
    "alpha_search": QUICK_ALPHA,
}
GRID_KEYS = {**TINY, "epochs": 30}
"""Trials that take long enough to be killed."""


@pytest.fixture(scope="package")
def ray_cluster() -> Iterator[None]:
    """Ray on this machine, with four GPUs that exist on paper only."""
    ray = pytest.importorskip("ray")
    os.environ.pop("CUDA_VISIBLE_DEVICES", None)  # set by RecBole in tests before this one
    ray.init(num_cpus=2, num_gpus=4, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


@pytest.fixture(scope="package")
def tuned(
    ray_cluster: None, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Any, Any, list[int]]:
    """A grid of which two points fail, and of which a worker is killed on the way."""
    from recbole_residual.tune.folder import TuneFolder
    from recbole_residual.tune.ray_api import Resources
    from recbole_residual.tune.run import tune

    path = tmp_path_factory.mktemp("tuned") / "tune"
    killed: list[int] = []
    killer = threading.Thread(target=kill_a_worker, args=(path, 12, killed), daemon=True)
    killer.start()
    result = tune(
        "SASRecResidual",
        "ml-100k",
        GRID,
        config_dict={**GRID_KEYS, "output_dir": str(path)},
        resources=Resources(**ON_CPU),
    )
    killer.join(timeout=1)
    return result, TuneFolder(path), killed


def epochs_done(folder: Path) -> int:
    """Over all trials."""
    files = folder.glob("trials/*/history.json")
    return sum(file.read_text().count("epoch") for file in files)


def kill_a_worker(folder: Path, after_epochs: int, killed: list[int]) -> None:
    """kill -9 one of this process's own Ray workers that runs a trial."""
    while epochs_done(folder) < after_epochs:
        time.sleep(0.05)
    for process in psutil.Process().children(recursive=True):
        if "ImplicitFunc" in " ".join(process.cmdline()):
            os.kill(process.pid, signal.SIGKILL)
            killed.append(process.pid)
            return


def comparable(frame: Any) -> Any:
    """A table of results without the columns that differ between two executions."""
    from recbole_residual.tune.table import CHANGING

    return frame.drop(columns=[name for name in CHANGING if name in frame])
