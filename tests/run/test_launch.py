"""A run of two processes: a killed one, what the others say, and how it goes on."""

from __future__ import annotations

import os
import pickle
import signal
from pathlib import Path
from typing import Any

import pytest

from recbole_residual import processes
from recbole_residual.config.residual_config import ResidualConfig
from recbole_residual.diagnose.full_run import resume, run
from recbole_residual.errors import ConfigError, NaNScoreError, ProcessDiedError
from recbole_residual.model import register_model
from recbole_residual.model.sasrec_residual import SASRecResidual
from recbole_residual.processes import Place
from recbole_residual.run.launch import Job, _what_happened
from tests.conftest import SMALL

SETUP: dict[str, Any] = {
    **SMALL,
    "val_interval": {"user_id": [str(user) for user in range(1, 21)]},
    "epochs": 3,
    "hidden_dropout_prob": 0.0,
    "attn_dropout_prob": 0.0,
    "metrics": ["NDCG", "HRLI"],
    "topk": [10],
    "valid_metric": "NDCG@10",
}


@register_model
class DiesInEpochOne(SASRecResidual):
    """Its second process is killed after the second epoch."""

    n_ended = 0

    def epoch_ended(self) -> None:
        super().epoch_ended()
        self.n_ended += 1
        if processes.number() == 1 and self.n_ended == 2:
            os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="Windows knows no SIGKILL")
def test_a_killed_process_ends_the_others_and_one_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    folder = tmp_path / "run"
    settings = {**SETUP, "nproc": 2, "output_dir": str(folder)}
    with pytest.raises(ProcessDiedError, match=r"process 1 of 2 was killed \(SIGKILL\)") as died:
        run(DiesInEpochOne, "ml-100k", config_dict=settings)
    assert f"--resume={folder}" in str(died.value)
    names = {path.name for path in folder.iterdir()}
    assert {"resume.pth", "checkpoint.pth", "run.log", "config.yaml"} <= names
    assert not any(name.startswith(".") and name.endswith(".pth") for name in names)
    assert len(list((folder / "tensorboard").iterdir())) == 1  # one process writes
    assert (folder / "run.log").read_text().count("epoch 0: train loss") == 1

    result = resume(folder, {"nproc": 1})
    alone = run(SASRecResidual, "ml-100k", config_dict=SETUP)
    assert result["train_losses"] == pytest.approx(alone["train_losses"], rel=1e-3)
    assert result["epochs_trained"] == 3


@pytest.mark.slow
def test_torchrun(tmp_path: Path) -> None:
    import subprocess
    import sys

    script = Path(__file__).parents[2] / "run_recbole_residual.py"
    options = ["--model=SASRecResidual", "--dataset=ml-100k", f"--output_dir={tmp_path / 'run'}"]
    options += ["--epochs=1", "--hidden_size=16", "--probe=none", "--report=False"]
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node=2"]
    done = subprocess.run(
        [*launcher, str(script), *options], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run" / "result.json").is_file()
    assert done.stderr.count("test result:") == 1


@pytest.mark.parametrize(
    ("model", "settings", "message"),
    [
        ("DuoRecResidual", {}, "compare the sequences of a batch"),
        ("FEARec", {}, "compares the sequences of a batch"),
        ("DIN", {}, "normalises over the batch"),
        ("BPR", {}, "only sequential models"),
        ("SASRecResidual", {"world_size": 3, "group_offset": 2}, "more than world_size = 3"),
        ("SASRecResidual", {"nproc": 0}, "nproc = 0 is not usable"),
    ],
)
def test_what_several_processes_cannot_train(
    model: str, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        ResidualConfig(model, "ml-100k", config_dict={"nproc": 2, **settings})


def test_duorec_without_its_contrasts() -> None:
    settings = {"nproc": 2, "lmd": 0, "lmd_sem": 0}
    assert ResidualConfig("DuoRecResidual", "ml-100k", config_dict=settings)["nproc"] == 2


class Ended:
    def __init__(self, exitcode: int) -> None:
        self.exitcode = exitcode

    def join(self) -> None:
        pass


def test_the_error_behind_those_of_broken_connections(tmp_path: Path) -> None:
    places = [Place(number, 2, number, "meeting") for number in range(2)]
    job = Job(SASRecResidual, {}, "output/run", saved=True, resume=False)
    ended: list[Any] = [Ended(1), Ended(1)]
    assert _what_happened(ended, places, job, str(tmp_path)) is None
    (tmp_path / "1").write_bytes(pickle.dumps((NaNScoreError, "3 of the sequences")))
    error = _what_happened(ended, places, job, str(tmp_path))
    assert isinstance(error, NaNScoreError)
    assert str(error) == "3 of the sequences"


def test_the_place_that_torchrun_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "x")
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "4")
    with pytest.raises(ConfigError, match="LOCAL_RANK"):
        processes.by_torchrun()
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert processes.by_torchrun() == Place(3, 4, 1, "env://")
    monkeypatch.delenv("TORCHELASTIC_RUN_ID")
    assert processes.by_torchrun() is None
