"""The face of the room: complete, and free until it is used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import recbole_residual
from recbole_residual import probe


def test_every_name_is_there() -> None:
    assert set(probe._HOME) == set(probe.__all__)
    for name in probe.__all__:
        assert getattr(probe, name) is not None
        assert name in dir(probe)
    with pytest.raises(AttributeError, match="no attribute 'sweep'"):
        probe.sweep  # noqa: B018


def test_no_name_is_shadowed_by_a_module() -> None:
    for name, home in probe._HOME.items():
        assert not home.endswith(f".{name}"), name


def test_importing_the_room_loads_no_torch() -> None:
    code = (
        "import sys; before = 'torch' in sys.modules; import recbole_residual.probe; "
        "print(before, 'torch' in sys.modules, 'recbole' in sys.modules)"
    )
    root = Path(recbole_residual.__file__).parents[1]
    command = [sys.executable, "-c", code]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, cwd=root)
    assert printed.stdout.split() == ["False", "False", "False"]
