from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from recbole_residual.errors import CheckpointError
from recbole_residual.study.row import Row, frame_in_row, ranks_in_text, read_rows, write_row
from tests.study.conftest import made_row


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(0, 10), min_size=1, max_size=50))
def test_ranks_survive_as_letters(ranks: list[int]) -> None:
    row = made_row("a", ranks=ranks)
    slow = [1 / np.log2(rank + 1) if rank else 0.0 for rank in ranks]
    assert np.allclose(row.ndcg10, slow)
    assert len(ranks_in_text(row.ndcg10)) == len(ranks)


def test_a_row_is_read_as_it_was_written(tmp_path: Path) -> None:
    row = made_row("a")
    frame = pd.DataFrame({"alpha": [0.0, 1.0], "rate": [np.nan, 1 / 3]})
    content = {**row.content, "tables": {"alpha_sweep": frame_in_row(frame)}}
    write_row(tmp_path / "rows" / "a.json", row.cell, content)
    (again,) = read_rows(tmp_path).values()
    assert again.cell == row.cell
    assert again.content["test"] == pytest.approx(row.content["test"], rel=1e-5)
    table = again.table("alpha_sweep")
    assert table is not None
    assert np.isnan(table["rate"][0])
    assert table["rate"][1] == pytest.approx(1 / 3, rel=1e-5)
    assert again.table("shuffle") is None
    assert np.isnan(again.value("nothing"))
    assert all(np.isnan(again.interval("nothing")))


def test_a_row_of_another_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "row.json").write_text('{"format": 99}', encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"not a study's row of format 1: remove it"):
        Row.read(tmp_path / "row.json")
