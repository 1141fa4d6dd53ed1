"""Reading back what a run left."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from recbole_residual.errors import ConfigError
from recbole_residual.probe import ProbeResult
from recbole_residual.report.record import RunRecord
from recbole_residual.run.folder import RunFolder


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    made = RunFolder(tmp_path / "a run")
    made.write_config({"model": "SASRec", "dataset": "ml-100k"})
    return made


def test_a_run_without_anything(folder: RunFolder) -> None:
    record = RunRecord.read(folder.path)
    assert (record.title, record.result, record.probes) == ("SASRec on ml-100k", {}, {})
    assert record.table("shuffle") is None
    assert record.notes("shuffle") == []
    assert record.per_user() is None
    with pytest.raises(ConfigError, match="not the folder of a run"):
        RunRecord.read(folder.path / "nothing")


def test_probes_come_back_as_they_were_saved(folder: RunFolder) -> None:
    frame = pd.DataFrame(
        {"mode": ["a", "b"], "x": [1.5, float("nan")], "none": [float("nan")] * 2, "n": [1, 2]}
    )

    class Shuffle(ProbeResult):
        name = "shuffle"

    Shuffle(frame, {"k": 10}, ["a note"]).save(folder.path / "probe")
    record = RunRecord.read(folder.path)
    pd.testing.assert_frame_equal(record.table("shuffle"), frame)
    assert record.notes("shuffle") == ["a note"]
    assert record.probes["shuffle"].about == {"k": 10}


def test_commands_can_be_pasted(folder: RunFolder) -> None:
    record = RunRecord.read(folder.path)
    assert record.probe_command("shuffle").endswith("a run' --probes=shuffle")
    assert f"--config_files='{folder.config_file}'" in record.command
    folder.result_file.write_text(json.dumps({"command": "as it was"}))
    assert RunRecord.read(folder.path).command == "as it was"


def test_tokens_of_users_stay_text(folder: RunFolder) -> None:
    (folder.path / "per_user.csv").write_text("user_id,target,hit@1\n01,007,1.0\n1,7,0.0\n")
    table = RunRecord.read(folder.path).per_user()
    assert list(table.index) == ["01", "1"]
    assert list(table["target"]) == ["007", "7"]


def test_a_report_waits_for_no_torch() -> None:
    code = "import sys, recbole_residual.report.writing; print('torch' in sys.modules)"
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"
