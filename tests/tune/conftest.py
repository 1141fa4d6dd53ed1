from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.conftest import SMALL

TINY = {**SMALL, "epochs": 3, "probe": "none", "report": False}
"""Configuration of a trial that takes a second or two."""


@pytest.fixture(scope="package")
def ray_cluster() -> Iterator[None]:
    """Ray on this machine, with four GPUs that exist on paper only."""
    ray = pytest.importorskip("ray")
    ray.init(num_cpus=2, num_gpus=4, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def comparable(frame: Any) -> Any:
    """A table of results without the columns that differ between two executions."""
    from recbole_residual.tune.table import CHANGING

    return frame.drop(columns=[name for name in CHANGING if name in frame])
