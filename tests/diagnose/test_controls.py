"""Every control is trained, evaluated, decomposed, swept and reported like any other model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from recbole_residual.diagnose.full_run import run
from tests.conftest import SMALL

CONTROLS: dict[str, tuple[str, dict[str, Any]]] = {
    "psd": ("SASRecPSD", {}),
    "norm_p": ("SASRecResidual", {"attention_norm_p": 2.0}),
    "learned": ("SASRecResidual", {"alpha_train": "learned"}),
    "ligr": ("SASRecResidual", {"block": "ligr"}),
    "tam": ("SASRecTAM", {}),
    "ssm": ("SASRecResidual", {"loss_type": "SSM", "num_negatives": 16}),
    "gbce": ("SASRecResidual", {"loss_type": "gBCE", "num_negatives": 16}),
}


@pytest.mark.parametrize("name", CONTROLS)
def test_a_control_is_a_model_like_any_other(name: str, tmp_path: Path) -> None:
    model, changes = CONTROLS[name]
    folder = tmp_path / "run"
    told = {"probe": "quick", "report": True, "epochs": 1, "output_dir": str(folder)}
    result = run(model, "ml-100k", config_dict={**SMALL, **told, **changes})
    test = result["test_result_unrounded"]
    assert 0 < test["mixingratio_res"] < 1
    assert 0 <= test["hrli@1"] <= 1
    sweep = pd.read_csv(folder / "probe" / "alpha_sweep.csv").set_index("alpha")
    assert sweep.loc[1.0, "ndcg@10"] == pytest.approx(test["ndcg@10"])
    assert sweep.loc[0.0, "mixingratio_res"] > sweep.loc[1.0, "mixingratio_res"]
    assert len(pd.read_csv(folder / "probe" / "shuffle.csv")) == 8
    assert (folder / "report.html").is_file()
    if name == "learned":
        assert len(result["learned_alpha_path"]) == 1
