"""A user's model from outside the package: the script of docs/adding_a_model.md."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from recbole_residual.config.residual_config import ResidualConfig
from recbole_residual.decomposition import decompose
from recbole_residual.diagnose.full_run import run
from recbole_residual.errors import ConfigError
from recbole_residual.model import registry
from recbole_residual.run.session import Session
from tests.conftest import SMALL

ROOT = Path(__file__).parents[2]
SETUP = {
    **SMALL,
    "val_interval": {"user_id": [str(user) for user in range(1, 31)]},
    "metrics": ["NDCG", "HRLI", "MixingRatio", "RecoveryRate"],
    "topk": [1, 10],
    "probe": "none",
}


def script() -> str:
    page = (ROOT / "docs" / "adding_a_model.md").read_text(encoding="utf-8")
    return re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)[0]


@pytest.fixture
def own_class(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The class of the script, imported from a file of the user's, and registered by it."""
    monkeypatch.setattr(registry, "MODELS", dict(registry.MODELS))
    path = tmp_path / "mean_model.py"
    path.write_text(script(), encoding="utf-8")
    spec = importlib.util.spec_from_file_location("mean_model", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "mean_model", module)
    spec.loader.exec_module(module)
    return module.SASRecWithMean


@pytest.mark.parametrize("positions", ["all", "last"])
def test_as_a_class_and_by_name(own_class: Any, positions: str) -> None:
    setup = {
        **SETUP,
        "loss_positions": positions,
        "train_batch_size": 16 if positions == "all" else 512,
        "alpha": 0.3,
        "mean_weight": 0.7,
    }
    as_class = run(own_class, "ml-100k", config_dict=setup)
    by_name = run("SASRecWithMean", "ml-100k", config_dict=setup)
    assert as_class["alpha"] == [0.3, 0.3]
    assert as_class["train_losses"] == by_name["train_losses"]
    assert str(as_class["test_result"]) == str(by_name["test_result"])  # NaN is not equal to NaN
    assert {"hrli@1", "mixingratio_res", "recoveryrate@10"} <= set(as_class["test_result"])
    without = run(own_class, "ml-100k", config_dict={**setup, "mean_of": "none"})
    assert without["train_losses"] != as_class["train_losses"]


def test_a_run_of_it_can_be_opened_and_decomposed(own_class: Any) -> None:
    result = run(own_class, "ml-100k", config_dict=SETUP)
    session = Session.open(result["run_folder"])
    assert type(session.model) is own_class
    batch = next(iter(session.test_data))[0]
    seen = decompose(session.model, batch)
    assert seen.stages == ("attn", "res", "ln")
    item_seq, item_seq_len = batch["item_id_list"], batch["item_length"]
    with torch.no_grad():
        last = session.model.forward(item_seq, item_seq_len)
        positions = session.model.all_positions(item_seq, item_seq_len)
    assert torch.equal(positions[torch.arange(len(last)), item_seq_len - 1], last)


def test_its_keys_are_checked_like_any_other(own_class: Any) -> None:
    assert ResidualConfig(own_class, "ml-100k")["mean_weight"] == 0.5
    with pytest.raises(ConfigError, match="'mean_wieght', did you mean 'mean_weight'"):
        ResidualConfig(own_class, "ml-100k", config_dict={"mean_wieght": 1.0})
    with pytest.raises(ConfigError, match="mean_of = 'some' is not usable"):
        ResidualConfig(own_class, "ml-100k", config_dict={"mean_of": "some"})


@pytest.mark.slow
def test_the_script_runs_as_it_stands(tmp_path: Path) -> None:
    path = tmp_path / "mean_model.py"
    path.write_text(script().replace('{"alpha": 0.3}', '{"alpha": 0.3, "epochs": 1}'))
    run = subprocess.run(
        [sys.executable, str(path)],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert "hrli@1" in run.stdout
