"""Keys that nothing reads, told before anything slow is imported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from recbole_residual.config.residual_config import ResidualConfig
from recbole_residual.config.unknown import refuse_early
from recbole_residual.errors import ConfigError


def test_an_unknown_option_waits_for_no_torch() -> None:
    program = (
        "import sys; from recbole_residual.command import main\n"
        "assert main(['--model=SASRecResidual', '--dataset=ml-100k', '--alhpa=0.3']) == 2\n"
        "assert not {'torch', 'recbole', 'pandas'} & set(sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    assert "did you mean 'alpha'" in done.stderr


@pytest.mark.parametrize("model", ["SASRecResidual", "GRU4RecResidual", "BERT4RecResidual"])
def test_whatever_a_configuration_knows_passes(model: str) -> None:
    refuse_early(model, dict.fromkeys(ResidualConfig(model, "ml-100k").known_keys, "1"))


def test_other_models_and_lenient_runs_are_judged_later() -> None:
    refuse_early("SASRec", {"nobody_knows": "1"})
    refuse_early("SASRecResidual", {"nobody_knows": "1", "strict_config": "False"})
    for model in ("SASRecResidual", None):
        with pytest.raises(ConfigError, match="nobody_knows"):
            refuse_early(model, {"nobody_knows": "1"})
