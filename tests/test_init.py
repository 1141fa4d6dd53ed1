from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import recbole_residual


def test_every_public_name_is_there() -> None:
    for name in recbole_residual.__all__:
        assert getattr(recbole_residual, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        recbole_residual.nothing  # noqa: B018


@pytest.mark.parametrize(
    ("statement", "unwanted"),
    [
        ("import recbole_residual.command", "torch"),
        ("import recbole_residual.run.train, recbole_residual.model", "ray"),
    ],
)
def test_what_is_not_needed_is_not_imported(statement: str, unwanted: str) -> None:
    program = f"import sys; {statement}; assert {unwanted!r} not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True, cwd=Path(__file__).parents[1])
