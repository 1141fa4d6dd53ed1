from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from recbole_residual.command import main, parse
from recbole_residual.errors import UsageError

ROOT = Path(__file__).parents[1]


def test_options_and_keys_are_told_apart() -> None:
    options, keys = parse(["-m", "SASRec", "-d=ml-100k", "--alpha=[0.3,1]", "--a=b=c"])
    assert (options.model, options.dataset) == ("SASRec", "ml-100k")
    assert keys == {"alpha": "[0.3,1]", "a": "b=c"}


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        (["--alpha", "0.3"], "--key=value"),
        (["alpha=0.3"], "--key=value"),
        (["--=1"], "--key=value"),
        (["--alpha=1", "--alpha=2"], "given twice"),
    ],
)
def test_what_cannot_be_read_is_said(argument: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse(argument)


def test_help_shows_options_with_examples() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "run_recbole_residual.py", "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    for part in ("--model", "--dataset", "--config_files", "--resume", "--alpha=0.3", "examples:"):
        assert part in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model=SASRecResidual", "--dataset=ml-100k", "--alhpa=0.3"], "did you mean 'alpha'"),
        (["--model=SASRecResidaul", "--dataset=ml-100k"], "Did you mean 'SASRecResidual'"),
        (["--model=SASRecResidual", "--dataset=ml-100l"], "ml-100k"),
        (["--model=SASRecResidual"], "no dataset"),
        (["--dataset=ml-100k"], "no model"),
        (["--resume=nowhere"], "not the folder of a run"),
        (["--resume=nowhere", "--model=SASRec"], "no use with --resume"),
        (["--model=SASRecResidual", "--dataset=ml-100k", "--config_files=none.yaml"], "none.yaml"),
    ],
)
def test_mistakes_end_with_a_message_and_code_two(arguments, message, capsys) -> None:
    assert main(arguments) == 2
    assert message in capsys.readouterr().err
    assert not list(Path().iterdir()), "nothing is left behind"
