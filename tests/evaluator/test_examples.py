from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import yaml

from recbole_residual.config.residual_config import ResidualConfig
from tests.evaluator.conftest import SETTINGS

EXAMPLES = Path(__file__).parents[2] / "examples"


def read(name: str) -> dict[str, Any]:
    return yaml.safe_load((EXAMPLES / name).read_text())


def test_after_differs_from_before_in_metrics_and_topk_alone() -> None:
    before, after = read("sasrec.yaml"), read("sasrec_with_metrics.yaml")
    assert {key for key in after if before.get(key) != after[key]} == {"metrics", "topk"}
    assert before.keys() == after.keys()


def test_this_packages_command_takes_both() -> None:
    for name in ("sasrec.yaml", "sasrec_with_metrics.yaml"):
        config = ResidualConfig("SASRec", "ml-100k", config_file_list=[EXAMPLES / name])
        assert config["metrics"] == read(name)["metrics"]


def test_the_script_runs(
    data_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On small data: RecBole reads the command line, which wins over the example's file."""
    small = {key: SETTINGS[key] for key in ("hidden_size", "inner_size", "use_gpu", "epochs")}
    options = {**small, "show_progress": False, "data_path": data_path}
    monkeypatch.setattr(
        sys, "argv", ["x.py", *(f"--{key}={value}" for key, value in options.items())]
    )
    from recbole import quick_start

    run_recbole = quick_start.run_recbole

    def on_small_data(model: str, dataset: str, **kwargs: Any) -> dict[str, Any]:
        assert (model, dataset) == ("SASRec", "ml-100k")
        return run_recbole(model, "tiny", **kwargs)

    with mock.patch.object(quick_start, "run_recbole", on_small_data):
        runpy.run_path(str(EXAMPLES / "run_recbole.py"), run_name="__main__")
    printed = capsys.readouterr().out
    for key in ("recall@10", "hrli@1", "hrl2i@10", "mixingratio_res_last", "recoveryrate@10"):
        assert key in printed
