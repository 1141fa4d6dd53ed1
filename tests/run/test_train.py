from __future__ import annotations

import gc
import json
import logging
import os
import signal
import subprocess
import sys
import time
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from recbole_residual.data.dataset import SequenceDataset
from recbole_residual.diagnose.full_run import resume, run
from recbole_residual.errors import CheckpointError, ConfigError
from recbole_residual.model.sasrec_residual import SASRecResidual
from recbole_residual.run.folder import RunFolder
from recbole_residual.run.session import Session
from recbole_residual.trainer.trainer import ResidualTrainer
from tests.conftest import SMALL

ROOT = Path(__file__).parents[2]
CHANGING = {"run_folder", "seconds"}


def numbers(result: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in result.items() if key not in CHANGING}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("runs") / "run"
    return run(
        "SASRecResidual",
        "ml-100k",
        config_dict={**SMALL, "epochs": 4, "output_dir": str(folder), "export_per_user": True},
    )


def test_the_result_is_recboles_dictionary_extended(finished: dict[str, Any]) -> None:
    for key in ("best_valid_score", "valid_score_bigger", "best_valid_result", "test_result"):
        assert key in finished
    for key in ("ndcg@10", "hrli@1", "hrl2i@20", "mixingratio_res_last"):
        assert 0 <= finished["test_result"][key] <= 1
    assert finished["test_result_unrounded"]["ndcg@10"] == pytest.approx(
        finished["test_result"]["ndcg@10"], abs=5e-5
    )
    assert finished["dataset_statistics"]["users"] == 60
    assert finished["alpha"] == [1.0, 1.0]


def test_the_folder_holds_what_it_takes_to_repeat_the_run(finished: dict[str, Any]) -> None:
    folder = RunFolder.existing(finished["run_folder"])
    saved = json.loads(folder.result_file.read_text())
    assert saved["test_result"] == finished["test_result"]
    config = yaml.safe_load(folder.config_file.read_text())
    assert (config["model"], config["dataset"], config["alpha"]) == (
        "SASRecResidual",
        "ml-100k",
        1.0,
    )
    log = folder.log_file.read_text()
    for part in ("SASRecResidual.yaml", "inside the recbole package", "test result"):
        assert part in log
    assert "\x1b" not in log
    assert torch.load(folder.checkpoint_file, weights_only=True)["config"] == config
    assert not folder.resume_file.exists()
    assert list(folder.path.glob("per_user.*"))
    assert list((folder.path / "tensorboard").iterdir())


def test_running_a_saved_configuration_again_gives_the_same_numbers(finished) -> None:
    config = Path(finished["run_folder"]) / "config.yaml"
    again = run(
        config_file_list=[config], config_dict={"output_dir": None, "export_per_user": False}
    )
    for key in ("train_losses", "best_valid_result", "test_result"):
        assert again[key] == finished[key]
    assert again["run_folder"] != finished["run_folder"]


def test_a_loaded_run_is_the_trained_model(finished: dict[str, Any]) -> None:
    session = Session.open(finished["run_folder"])
    state = torch.load(Path(finished["run_folder"]) / "checkpoint.pth", weights_only=True)
    assert torch.equal(
        session.model.item_embedding.weight, state["state_dict"]["item_embedding.weight"]
    )
    assert not session.model.training


def test_a_finished_run_resumed_is_its_result(finished: dict[str, Any]) -> None:
    again = resume(finished["run_folder"])
    assert again["test_result"] == finished["test_result"]


def test_only_where_a_run_computes_may_change(finished: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="alpha cannot change"):
        Session.open(finished["run_folder"], config_dict={"alpha": 0.3})


def test_weights_of_other_data_are_refused(finished: dict[str, Any], tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    config = yaml.safe_load((Path(finished["run_folder"]) / "config.yaml").read_text())
    config["val_interval"] = {"user_id": [str(user) for user in range(1, 40)]}
    (other / "config.yaml").write_text(yaml.safe_dump(config))
    (other / "checkpoint.pth").write_bytes(
        (Path(finished["run_folder"]) / "checkpoint.pth").read_bytes()
    )
    with pytest.raises(CheckpointError, match=r"item_embedding\.weight.*Is the data the same"):
        Session.open(other)


def test_nothing_of_a_run_stays_in_memory(monkeypatch) -> None:
    made = []
    # pytest keeps what is logged, the model among it
    monkeypatch.setattr(logging.root.manager, "disable", logging.CRITICAL)
    for kind in (SASRecResidual, ResidualTrainer, SequenceDataset):

        def noted(self, *args, init=kind.__init__, **kwargs):
            made.append(weakref.ref(self))
            init(self, *args, **kwargs)

        monkeypatch.setattr(kind, "__init__", noted)
    run("SASRecResidual", "ml-100k", config_dict={**SMALL, "epochs": 1})
    gc.collect()
    assert len(made) >= 3
    assert not [one() for one in made if one() is not None]


def test_an_interrupt_leaves_what_resumes_to_the_same_numbers(tmp_path: Path, monkeypatch) -> None:
    setup = {**SMALL, "epochs": 5}
    whole = run("SASRecResidual", "ml-100k", config_dict=setup)
    train_epoch = ResidualTrainer._train_epoch

    def interrupted(self, train_data, epoch_idx, *args, **kwargs):
        if epoch_idx == 2:
            raise KeyboardInterrupt
        return train_epoch(self, train_data, epoch_idx, *args, **kwargs)

    folder = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(ResidualTrainer, "_train_epoch", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run("SASRecResidual", "ml-100k", config_dict={**setup, "output_dir": str(folder)})
    assert "--resume=" in (folder / "run.log").read_text()
    torch.rand(7)  # whatever happened in between must not matter
    assert numbers(resume(folder)) == numbers(whole)


def test_a_killed_process_resumes_to_the_same_numbers(tmp_path: Path) -> None:
    setup = {**SMALL, "epochs": 20, "loss_positions": "last", "train_batch_size": 256}
    whole = run("SASRecResidual", "ml-100k", config_dict=setup)
    folder = tmp_path / "run"
    file = tmp_path / "setup.yaml"
    file.write_text(yaml.safe_dump({**setup, "output_dir": str(folder)}))
    process = subprocess.Popen(
        [
            sys.executable,
            str(ROOT / "run_recbole_residual.py"),
            "--model=SASRecResidual",
            "--dataset=ml-100k",
            f"--config_files={file}",
        ],
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
    )
    log = folder / "run.log"
    while not (log.exists() and "epoch 2: train" in log.read_text()):
        assert process.poll() is None, log.read_text()
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (folder / "result.json").exists()
    assert numbers(resume(folder)) == numbers(whole)


def test_a_run_stopped_early_and_killed_before_its_test_is_not_trained_further(
    tmp_path: Path, monkeypatch
) -> None:
    setup = {**SMALL, "epochs": 30, "stopping_step": 1, "learning_rate": 0.05}
    whole = run("SASRecResidual", "ml-100k", config_dict=setup)
    assert whole["epochs_trained"] < 30
    from recbole_residual.run import evaluation

    folder = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(evaluation, "environment", lambda: pytest.fail("stop here"))
        with pytest.raises(pytest.fail.Exception):
            run("SASRecResidual", "ml-100k", config_dict={**setup, "output_dir": str(folder)})
    assert numbers(resume(folder)) == numbers(whole)


def test_a_run_that_never_trained_cannot_be_resumed(tmp_path: Path) -> None:
    folder = RunFolder.create("SASRecResidual", "ml-100k", str(tmp_path / "run"))
    folder.write_config({"model": "SASRecResidual", "dataset": "ml-100k"})
    with pytest.raises(CheckpointError, match="nothing to resume"):
        resume(folder.path)


def test_topk_above_the_items_is_found_before_training() -> None:
    with pytest.raises(ConfigError, match="topk = 5000 is more than"):
        run("SASRecResidual", "ml-100k", config_dict={**SMALL, "topk": [10, 5000]})


@pytest.mark.parametrize("model", ["SASRec", "GRU4Rec", "BERT4Rec", "SASRecF"])
def test_recboles_own_models_run_too(model: str) -> None:
    setup = {**SMALL, "epochs": 1, "train_batch_size": 512}
    if model == "GRU4Rec":
        del setup["inner_size"]  # not one of its keys, so it would be refused
    if model == "SASRecF":
        setup["load_col"] = {
            "inter": ["user_id", "item_id", "timestamp"],
            "item": ["item_id", "class"],
        }
        setup["selected_features"] = ["class"]
    result = run(model, "ml-100k", config_dict=setup)
    assert "hrli@1" in result["test_result"]
    assert ("mixingratio_res" in result["test_result"]) == (model != "GRU4Rec")
