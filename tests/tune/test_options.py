from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from recbole_residual.command import main
from recbole_residual.tune import run as tune
from recbole_residual.tune.folder import MANIFEST_FILE
from recbole_residual.tune.ray_api import Resources


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the command calls, instead of a run."""
    calls: dict[str, Any] = {}

    def record(name: str) -> Any:
        def call(*args: Any, **options: Any) -> Any:
            calls.update(name=name, args=args, **options)
            return SimpleNamespace(all_failed=False)

        return call

    for name in ("tune", "benchmark", "resume_tune"):
        monkeypatch.setattr(tune, name, record(name), raising=False)
    return calls


def test_tune_is_called_with_what_was_typed(called: dict[str, Any]) -> None:
    line = "--mode=tune --model=SASRecResidual --dataset=ml-1m --space=s.yaml --num_samples=3"
    line += " --search=random --scheduler=none --gpus_per_trial=0.25 --max_concurrent=8 --epochs=2"
    assert main(line.split()) == 0
    assert called == {
        "name": "tune",
        "args": ("SASRecResidual", "ml-1m", "s.yaml", None, {"epochs": "2"}),
        "search": "random",
        "num_samples": 3,
        "scheduler": "none",
        "resources": Resources(gpus_per_trial=0.25, max_concurrent=8),
    }


def test_a_benchmark_takes_lists(called: dict[str, Any]) -> None:
    line = (
        "--mode=benchmark --datasets ml-100k ml-1m --models SASRec GRU4Rec --seeds 1 2 --epochs=2"
    )
    assert main([*line.split(), "--ray_address=auto", "--cpus_per_trial=2"]) == 0
    assert called["args"][:3] == (["SASRec", "GRU4Rec"], ["ml-100k", "ml-1m"], [1, 2])
    assert called["args"][4] == {"epochs": "2"}
    assert called["resources"] == Resources(cpus_per_trial=2, ray_address="auto")


def test_resume_of_a_tune_folder_goes_on_with_it(called: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / MANIFEST_FILE).write_text("{}")
    assert main([f"--resume={tmp_path}", "--max_concurrent=2"]) == 0
    assert called == {
        "name": "resume_tune",
        "args": (str(tmp_path),),
        "retry_failed": False,
        "max_concurrent": 2,
    }


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--mode=tune --models SASRec", "--models has no use with --mode=tune"),
        ("--mode=benchmark --model=SASRec", "--model has no use with --mode=benchmark"),
        ("--space=s.yaml --model=SASRec", "it is for --mode=tune"),
        ("--mode=tune --resume=x", "--mode=tune has no use with --resume"),
        ("--resume=. --max_concurrent=2", "not a single one"),
        ("--mode=benchmark --models SASRecResidual", "at least one dataset"),
        ("--mode=tune --model=SASRecResidual --dataset=ml-100k --epocs=3", "did you mean 'epochs'"),
        ("--mode=tune --model=SASRecResidual --dataset=ml-100l", "ml-100l"),
    ],
)
def test_mistakes_end_with_a_message(line: str, message: str, capsys) -> None:
    pytest.importorskip("ray")
    assert main(line.split()) == 2
    assert message in capsys.readouterr().err


def test_a_tune_folder_takes_no_configuration_keys(tmp_path: Path, capsys) -> None:
    (tmp_path / MANIFEST_FILE).write_text("{}")
    assert main([f"--resume={tmp_path}", "--epochs=3"]) == 2
    assert "--epochs cannot change" in capsys.readouterr().err
