"""The command is interrupted, then killed, then its raylet is killed: real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import psutil
import pytest
import yaml

pytest.importorskip("ray")

from recbole_residual.tune.run import resume_tune
from tests.tune.conftest import GRID, GRID_KEYS, comparable, epochs_done

ROOT = Path(__file__).parents[2]

SOON = {
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_failure_threshold": "4",
}
"""Ray notices a dead node within seconds, not within half a minute."""


class Command:
    """The command in a process of its own."""

    def __init__(self, log: Path, *arguments: str) -> None:
        environment = {**os.environ, **SOON, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        with open(log, "w") as output:
            self._process = subprocess.Popen(
                [sys.executable, str(ROOT / "run_recbole_residual.py"), *arguments],
                stdout=output,
                stderr=output,
                env=environment,
            )
        self._log = log

    def wait_for_epochs(self, folder: Path, number: int) -> None:
        while epochs_done(folder) < number:
            assert self._process.poll() is None, self._log.read_text()
            time.sleep(0.02)

    def send(self, signal_number: int) -> None:
        os.kill(self._process.pid, signal_number)

    def kill_raylet(self) -> None:
        for child in psutil.Process(self._process.pid).children():
            if child.name() == "raylet":
                os.kill(child.pid, signal.SIGKILL)
                return
        pytest.fail("there is no raylet")

    def wait(self) -> tuple[int, str]:
        """Exit code and output."""
        return self._process.wait(timeout=600), self._log.read_text()


def test_interrupted_killed_and_without_its_raylet_it_ends_with_the_same_table(
    tuned, tmp_path: Path
) -> None:
    import ray

    expected, _, _ = tuned
    cluster = f"--ray_address={ray.get_runtime_context().gcs_address}"
    folder = tmp_path / "tune"
    (tmp_path / "space.yaml").write_text(yaml.safe_dump(GRID, sort_keys=False))
    (tmp_path / "keys.yaml").write_text(yaml.safe_dump(GRID_KEYS))
    first = Command(
        tmp_path / "first.log",
        "--mode=tune",
        "--model=SASRecResidual",
        "--dataset=ml-100k",
        f"--space={tmp_path / 'space.yaml'}",
        f"--config_files={tmp_path / 'keys.yaml'}",
        f"--output_dir={folder}",
        "--gpus_per_trial=0",
        cluster,
    )
    first.wait_for_epochs(folder, 6)
    first.send(signal.SIGINT)
    code, output = first.wait()
    assert code == 130, output
    assert f"--resume={folder}" in output

    second = Command(tmp_path / "second.log", f"--resume={folder}", cluster)
    second.wait_for_epochs(folder, epochs_done(folder) + 6)
    second.send(signal.SIGKILL)
    assert second.wait()[0] == -signal.SIGKILL

    third = Command(tmp_path / "third.log", f"--resume={folder}", "--ray_address=local")
    third.wait_for_epochs(folder, epochs_done(folder) + 6)
    third.kill_raylet()
    code, output = third.wait()
    assert code in (1, 2), output  # 1: newer Rays end the whole process by themselves
    assert f"--resume={folder}" in output

    left = pd.read_csv(folder / "results.csv")
    assert len(left) == 4
    assert set(left["status"]) & {"waiting", "running"}  # otherwise nothing was interrupted
    again = resume_tune(folder)
    pd.testing.assert_frame_equal(comparable(again.results), comparable(expected.results))
    assert {name: row["trial"] for name, row in again.best.items()} == {
        name: row["trial"] for name, row in expected.best.items()
    }
