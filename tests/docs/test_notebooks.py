"""The notebooks run from top to bottom, and what is committed of them is fit to be read."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parents[2] / "docs"
NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))


def name_of(path: Path) -> str:
    return path.stem


@pytest.fixture(scope="module")
def tool() -> Any:
    """docs/run_notebooks.py, which needs the extra ``docs``."""
    pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    spec = importlib.util.spec_from_file_location("run_notebooks", DOCS / "run_notebooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("path", NOTEBOOKS, ids=name_of)
def test_it_runs(path: Path, tool: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    if "ray" in path.stem:
        pytest.importorskip("ray")
    monkeypatch.setenv("PYTHONPATH", str(DOCS.parent))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    cells = [cell for cell in tool.executed(path).cells if cell.cell_type == "code"]
    assert sum(bool(cell.outputs) for cell in cells) >= len(cells) - 3


def test_there_are_five() -> None:
    assert [name_of(path)[0] for path in NOTEBOOKS] == ["1", "2", "3", "4", "5"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=name_of)
def test_it_is_committed_with_output_and_without_paths(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
    assert "pip install" in "".join(cells[0]["source"])
    assert any(cell["outputs"] for cell in cells)
    assert not any(folder in text for folder in ("/tmp/", "/home/", "/root/", "site-packages"))
