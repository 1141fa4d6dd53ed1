from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from recbole_residual.checkpoint.writing import load_checkpoint, save_checkpoint
from recbole_residual.errors import CheckpointError, WriteError


def test_what_is_saved_comes_back_plain(tmp_path: Path) -> None:
    path = tmp_path / "sub" / "c.pth"
    save_checkpoint(
        path,
        {
            "score": np.float64(0.5),
            "array": np.arange(3),
            "tensor": torch.ones(2),
            "nested": {"betas": (0.9, 0.999), 1: None},
        },
    )
    state = load_checkpoint(path)
    assert state["score"] == 0.5
    assert type(state["score"]) is float
    assert state["array"].tolist() == [0, 1, 2]
    assert state["nested"] == {"betas": [0.9, 0.999], 1: None}
    assert [entry.name for entry in path.parent.iterdir()] == ["c.pth"]


def test_nothing_but_plain_values_is_saved(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"state\['x'\]\[1\], a PosixPath"):
        save_checkpoint(tmp_path / "c.pth", {"x": [1, tmp_path]})
    assert not list(tmp_path.iterdir())


class _Payload:
    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self):
        return (Path.touch, (self.target,))


def test_code_in_a_file_is_not_run(tmp_path: Path) -> None:
    ran, path = tmp_path / "ran", tmp_path / "evil.pth"
    torch.save({"format": "recbole_residual/1", "x": _Payload(ran)}, path, pickle_protocol=2)
    with pytest.raises(CheckpointError, match="not a checkpoint"):
        load_checkpoint(path)
    path.write_bytes(pickle.dumps(_Payload(ran)))
    with pytest.raises(CheckpointError, match="not a checkpoint"):
        load_checkpoint(path)
    assert not ran.exists()


def test_missing_broken_and_foreign_files_say_so(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"none\.pth"):
        load_checkpoint(tmp_path / "none.pth")
    path = tmp_path / "c.pth"
    save_checkpoint(path, {"tensor": torch.ones(1000)})
    path.write_bytes(path.read_bytes()[:-500])
    with pytest.raises(CheckpointError, match="broken"):
        load_checkpoint(path)
    torch.save({"other": 1}, path)
    with pytest.raises(CheckpointError, match="not a checkpoint of recbole_residual"):
        load_checkpoint(path)


def test_a_kill_while_saving_leaves_a_whole_file(tmp_path: Path) -> None:
    """A process that saves without pause is killed; whatever it left must load."""
    path = tmp_path / "c.pth"
    program = textwrap.dedent(
        """
        import sys, torch
        from recbole_residual.checkpoint.writing import save_checkpoint
        n = 0
        while True:
            save_checkpoint(sys.argv[1], {"n": n, "weights": torch.full((400_000,), float(n))})
            n += 1
            if n == 3: print("going", flush=True)
        """
    )
    root = Path(__file__).parents[2]
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(path)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(root)},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"going\n"
    time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    state = load_checkpoint(path)
    assert torch.equal(state["weights"], torch.full((400_000,), float(state["n"])))


def test_a_disk_that_fills_up_is_one_message_and_the_old_file_stays(tmp_path: Path) -> None:
    """A true one, as far as a process can have it: its files may not grow beyond a size."""
    resource = pytest.importorskip("resource")
    path = tmp_path / "c.pth"
    save_checkpoint(path, {"n": 1})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(WriteError, match=r"c\.pth cannot be written: File too large"):
            save_checkpoint(path, {"n": 2, "weights": torch.ones(1_000_000)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert load_checkpoint(path)["n"] == 1
    assert [entry.name for entry in tmp_path.iterdir()] == ["c.pth"]
