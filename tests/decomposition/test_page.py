"""The examples of docs/decomposition.md, as they stand there, on a small run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import torch

from recbole_residual.diagnose.full_run import run
from tests.conftest import SMALL

PAGE = Path(__file__).parents[2] / "docs" / "decomposition.md"


def test_examples_run(tmp_path: Path) -> None:
    folder = tmp_path / "output" / "my_run"  # where the page says; the tests' folder is tmp_path
    changes = {"output_dir": str(folder), "epochs": 1, "probe": "none"}
    run("SASRecResidual", "ml-100k", config_dict={**SMALL, **changes})
    names: dict[str, Any] = {}
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    n_rows = len(names["batch"])
    assert len(blocks) == 4
    assert names["seen"].ratios.shape == (2, 3, n_rows, SMALL["MAX_ITEM_LIST_LENGTH"])
    frame = (
        names["found"].statistics.to_frame().set_index(["layer", "stage", "position", "statistic"])
    )
    assert frame.value["1", "ln", "last", "count"] == n_rows
    torch.testing.assert_close(names["shares"].total, names["shares"].score, rtol=1e-4, atol=1e-4)
    assert ((names["flow"].distance >= 0) & (names["flow"].distance <= 1)).all()
