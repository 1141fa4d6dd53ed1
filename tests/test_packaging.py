"""The wheel holds every room and every yaml file."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """What is in a wheel built from a copy of the sources."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for name in ("recbole_residual", "properties"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "-q", "-w", target, source], check=True)
    (wheel,) = target.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        return set(packed.namelist())


def test_every_module_is_in_the_wheel(names: set[str]) -> None:
    modules = {str(path.relative_to(ROOT)) for path in (ROOT / "recbole_residual").rglob("*.py")}
    assert modules <= names


def test_every_properties_file_is_in_the_wheel(names: set[str]) -> None:
    files = {
        f"recbole_residual/{path.relative_to(ROOT)}"
        for path in (ROOT / "properties").rglob("*.yaml")
    }
    for path in (ROOT / "recbole_residual").rglob("*"):
        if path.suffix in (".html", ".css", ".yaml"):
            files.add(str(path.relative_to(ROOT)))
    assert "recbole_residual/properties/overall.yaml" in files
    assert "recbole_residual/report/papers.yaml" in files
    assert files <= names
