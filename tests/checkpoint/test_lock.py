from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from recbole_residual.checkpoint.lock import RunLock
from recbole_residual.errors import CheckpointError, WriteError

HOLDER = """
import sys, time
from recbole_residual.checkpoint.lock import RunLock
with RunLock(sys.argv[1]):
    print("held", flush=True)
    time.sleep(60)
"""


def test_another_process_is_refused_until_this_one_is_gone(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"held\n"
    with pytest.raises(CheckpointError, match=f"in use: process {process.pid} on .*, since 20"):
        RunLock(tmp_path).__enter__()
    process.kill()  # it cleans nothing up
    process.wait()
    process.stdout.close()
    with RunLock(tmp_path):
        pass


def test_one_process_cannot_hold_it_twice(tmp_path: Path) -> None:
    with RunLock(tmp_path):
        with pytest.raises(CheckpointError, match=f"process {os.getpid()} on"):
            RunLock(tmp_path).__enter__()
        with pytest.raises(CheckpointError):
            RunLock(tmp_path).__enter__()
    with RunLock(tmp_path):
        pass


def test_an_error_inside_lets_it_go(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), RunLock(tmp_path):
        raise RuntimeError
    with RunLock(tmp_path):
        pass


def test_a_folder_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(WriteError, match="cannot be written"):
        RunLock(tmp_path / "file").__enter__()


def test_without_locks_of_the_file_system_a_file_takes_their_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from recbole_residual.checkpoint import lock

    class NoLocks(lock.FileLock):
        def _acquire(self) -> None:
            raise NotImplementedError

    monkeypatch.setattr(lock, "FileLock", NoLocks)
    with RunLock(tmp_path), pytest.raises(CheckpointError, match="in use"):
        RunLock(tmp_path).__enter__()
    with RunLock(tmp_path):
        pass
