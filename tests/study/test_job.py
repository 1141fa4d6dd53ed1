"""A study on a part of ml-100k, through Ray, from the command to its pages."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from recbole_residual.errors import ConfigError
from recbole_residual.study import job
from recbole_residual.study.job import StudyResult, resume_study, study
from recbole_residual.study.measure import Job, measure
from recbole_residual.study.plan import StudyPlan
from recbole_residual.study.row import read_rows
from recbole_residual.tune.ray_api import Resources
from tests.study.conftest import TINY

ON_CPU = Resources(gpus_per_trial=0)
# As --study=quick, and data that is not there: its cells fail
QUICK = """
seeds: [1]
splits: [leave_one_out]
datasets: {no-such-data: {}, ml-100k: {}}
parts:
  - {models: [SASRecResidual, SASRecUniform]}
"""


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> StudyResult:
    folder = tmp_path_factory.mktemp("study")
    (folder / "tiny.yaml").write_text(QUICK, encoding="utf-8")
    keys = {**TINY, "output_dir": str(folder / "out")}
    return study(folder / "tiny.yaml", config_dict=keys, resources=ON_CPU)


def test_a_cell_that_fails_stops_no_other(done: StudyResult) -> None:
    assert [row.cell.model for row in done.rows.values()] == ["SASRecResidual", "SASRecUniform"]
    assert len(done.failed) == 2
    key, error = next(iter(done.failed.items()))
    assert "DatasetNotFoundError" in error
    assert "Traceback" in (Path(done.folder) / "cells" / key / "error.txt").read_text()
    assert f"cells/{key}/error.txt" in str(done)


def test_a_row_holds_what_the_run_measured(done: StudyResult) -> None:
    key, row = next(iter(done.rows.items()))
    result = json.loads((Path(done.folder) / "cells" / key / "result.json").read_text())
    tested = result["test_result_unrounded"]
    for name in ("ndcg@10", "hrli@1", "mixingratio_res"):
        assert row.value(name) == pytest.approx(tested[name], rel=1e-5)
    assert row.ndcg10.mean() == pytest.approx(tested["ndcg@10"])
    assert len(row.ndcg10) == result["test_sequences"] == row.content["sequences"]["test"]
    low, high = row.interval("hrli@1")
    assert low <= row.value("hrli@1") <= high
    assert row.value("ndcg@10", "filtered") >= tested["ndcg@10"], "seen items stood before targets"
    for name in ("alpha_sweep", "alpha_selection", "shuffle", "internals"):
        assert row.table(name) is not None
    assert "/" not in json.dumps(row.content["environment"])


def test_the_page_compares_learned_and_uniform_attention(done: StudyResult) -> None:
    table = pd.read_csv(Path(done.folder) / "tables" / "models.csv")
    assert list(table["model"]) == ["SASRecResidual", "SASRecUniform"]
    assert list(table["HRLI@1"]) == pytest.approx(
        [row.value("hrli@1") for row in done.rows.values()], rel=1e-5
    )
    assert "1 dataset, 1 set (a dataset under one split), 2 in all" in done.page.read_text("utf-8")


def test_what_is_finished_is_not_trained_again(
    done: StudyResult, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    measured: list[str] = []

    def never(self: object, left: list) -> dict[str, str]:
        measured.extend(cell.key for cell in left)
        return {}

    monkeypatch.setattr(job._Study, "_measure", never)
    assert set(resume_study(done.folder).rows) == set(done.rows)
    yaml_file = Path(done.folder).parent / "tiny.yaml"
    kept = Path(done.folder) / "rows"
    keys = {**TINY, "output_dir": str(tmp_path / "other")}
    again = study(yaml_file, config_dict=keys, rows=kept, resources=ON_CPU)
    assert again.rows == done.rows
    assert again.page.is_file()
    assert set(measured) == set(done.failed), "only the cells that failed are tried again"


def test_a_cell_without_its_row_is_finished_from_its_folder(done: StudyResult) -> None:
    key, row = next(iter(done.rows.items()))
    file = Path(done.folder) / "rows" / f"{key}.json"
    file.unlink()
    (Path(done.folder) / "cells" / key / "probe" / "shuffle.json").unlink()
    cell = row.cell
    assert measure(cell, Job(done.folder, str(row.content["command"]))) is None
    again = read_rows(done.folder)[key]
    assert {**again.content, "command": ""} == {**row.content, "command": ""}


def test_folders_of_others_are_left_alone(done: StudyResult, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "note.txt").touch()
    with pytest.raises(ConfigError, match="is not empty, and no study's"):
        study("quick", config_dict={**TINY, "output_dir": tmp_path / "full"}, resources=ON_CPU)
    with pytest.raises(ConfigError, match=r"holds the study .*tiny\.yaml"):
        study("quick", config_dict={**TINY, "output_dir": done.folder}, resources=ON_CPU)
    with pytest.raises(ConfigError, match="not the folder of a study"):
        resume_study(tmp_path)


def test_quick_asks_learned_and_uniform_attention_on_ml_100k() -> None:
    cells = StudyPlan.load("quick").cells()
    assert [cell.model for cell in cells] == ["SASRecResidual", "SASRecUniform"]
    assert {cell.dataset for cell in cells} == {"ml-100k"}
