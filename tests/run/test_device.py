"""``device_cases.py``, in a process of its own.

torch counts the kinds of devices once, at the first backward pass of a process; one that is
registered later, as behind another test, has no queue for its gradients.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CASES = Path(__file__).with_name("device_cases.py")


@pytest.mark.parametrize("marks", ["not slow", pytest.param("slow", marks=pytest.mark.slow)])
def test_everything_on_a_pretended_device(marks: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-m", marks, str(CASES)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=CASES.parents[2])
    assert done.returncode == 0, done.stdout[-10_000:] + done.stderr[-2_000:]
