"""Training on a part of ml-100k: what is kept when something is missing, or goes wrong."""

from __future__ import annotations

import errno
import logging
import math
from pathlib import Path
from typing import Any

import pytest
import torch

from recbole_residual.checkpoint import writing
from recbole_residual.checkpoint.writing import load_checkpoint
from recbole_residual.config.residual_config import ResidualConfig
from recbole_residual.errors import ModelError, WriteError
from recbole_residual.run.session import Session, build_session
from recbole_residual.trainer.trainer import ResidualTrainer
from tests.conftest import SMALL

SETUP = {
    **SMALL,
    "val_interval": {"user_id": [str(user) for user in range(1, 21)]},
    "MAX_ITEM_LIST_LENGTH": 6,
    "metrics": ["NDCG", "Hit"],
    "topk": [5, 10],
}


def opened(folder: Path, **changes: Any) -> tuple[Session, ResidualTrainer]:
    """A session and a Trainer that writes into ``folder``."""
    config = ResidualConfig("SASRecResidual", "ml-100k", config_dict={**SETUP, **changes})
    config["checkpoint_dir"] = str(folder)
    session = build_session(config)
    return session, ResidualTrainer(config, session.model)


def weights(trainer: ResidualTrainer) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in trainer.model.state_dict().items()}


def same(state: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(state[name], other[name]) for name in state)


def resumed(folder: Path, **changes: Any) -> tuple[Session, ResidualTrainer]:
    session, trainer = opened(folder, **changes)
    trainer.resume_checkpoint(trainer.resume_file)
    trainer.restore_randomness(session.train_data)
    return session, trainer


@pytest.fixture
def interrupt_after(monkeypatch: pytest.MonkeyPatch):
    """Training stops, as if killed, when the given epoch is about to begin."""
    train_epoch = ResidualTrainer._train_epoch

    def set_epoch(last: int) -> None:
        def interrupted(self, train_data, epoch_idx, *args, **kwargs):
            if epoch_idx == last:
                raise KeyboardInterrupt
            return train_epoch(self, train_data, epoch_idx, *args, **kwargs)

        monkeypatch.setattr(ResidualTrainer, "_train_epoch", interrupted)

    yield set_epoch
    monkeypatch.setattr(ResidualTrainer, "_train_epoch", train_epoch)


def test_gradients_are_clipped_without_the_scale_of_half_precision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grad_scaler = getattr(torch.amp, "GradScaler", None)
    if grad_scaler is None:
        pytest.skip("this torch scales on GPUs only")
    monkeypatch.setattr(
        torch.cuda.amp, "GradScaler", lambda enabled: grad_scaler("cpu", 2.0**12, enabled=enabled)
    )
    trained = []
    for scales in (False, True):
        settings = {"clip_grad_norm": {"max_norm": 0.1}, "learner": "sgd", "learning_rate": 1.0}
        session, trainer = opened(tmp_path / str(scales), **settings)
        trainer.enable_scaler = scales
        torch.manual_seed(1)
        trainer._train_epoch(session.train_data, 0)
        trained.append(weights(trainer))
    for name, weight in trained[0].items():
        torch.testing.assert_close(trained[1][name], weight, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("validation", ["none", "empty"])
def test_without_validation_the_last_weights_are_kept(
    tmp_path: Path, validation: str, caplog: pytest.LogCaptureFixture
) -> None:
    session, trainer = opened(tmp_path)
    valid_data: Any = None if validation == "none" else []
    with caplog.at_level("INFO"):
        score, result = trainer.fit(session.train_data, valid_data)
    assert (score, result) == (-math.inf, None)
    assert "There is no validation" in caplog.text
    checkpoint = load_checkpoint(tmp_path / "checkpoint.pth")
    assert checkpoint["epoch"] == 1
    assert same(checkpoint["state_dict"], weights(trainer))
    assert load_checkpoint(tmp_path / "resume.pth")["epoch"] == 1


@pytest.mark.parametrize("changes", [{"eval_step": 5, "epochs": 7}, {"eval_step": 0}])
def test_every_epoch_can_be_resumed_whatever_the_rhythm_of_validation(
    tmp_path: Path, changes: dict[str, int], interrupt_after
) -> None:
    changes = {"epochs": 4, **changes}
    session, whole = opened(tmp_path / "whole", **changes)
    expected = whole.fit(session.train_data, session.valid_data)
    last = changes["epochs"] - 1
    interrupt_after(last)
    session, trainer = opened(tmp_path / "part", **changes)
    with pytest.raises(KeyboardInterrupt):
        trainer.fit(session.train_data, session.valid_data)
    assert load_checkpoint(trainer.resume_file)["epoch"] == last - 1
    interrupt_after(-1)
    torch.rand(3)
    session, trainer = resumed(tmp_path / "part", **changes)
    assert trainer.fit(session.train_data, session.valid_data) == expected
    assert trainer.train_loss_dict == whole.train_loss_dict
    assert same(weights(trainer), weights(whole))
    best = [load_checkpoint(tmp_path / name / "checkpoint.pth") for name in ("whole", "part")]
    assert same(best[0]["state_dict"], best[1]["state_dict"])
    assert best[0]["epoch"] == best[1]["epoch"]


def test_the_result_in_the_checkpoint_belongs_to_its_weights(tmp_path: Path) -> None:
    session, trainer = opened(tmp_path, epochs=3, learning_rate=0.01)
    _, result = trainer.fit(session.train_data, session.valid_data)
    checkpoint = load_checkpoint(tmp_path / "checkpoint.pth")
    assert checkpoint["best_valid_result"] == result
    assert checkpoint["best_valid_score"] == trainer.best_valid_score == result["ndcg@10"]
    trainer.load_weights()
    assert trainer.evaluate(session.valid_data, load_best_model=False) == result


def test_a_valid_metric_that_is_always_nan_keeps_weights_and_says_so_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    session, trainer = opened(tmp_path)
    evaluate = ResidualTrainer.evaluate

    def without_number(self, *args, **kwargs):
        return {**evaluate(self, *args, **kwargs), "ndcg@10": math.nan}

    monkeypatch.setattr(ResidualTrainer, "evaluate", without_number)
    with caplog.at_level("INFO"):
        trainer.fit(session.train_data, session.valid_data)
    assert caplog.text.count("ndcg@10 is NaN in epoch 0") == 1
    assert caplog.text.count("Choose another valid_metric") == 1
    assert "valid ndcg@10 nan (no best yet)" in caplog.text
    checkpoint = load_checkpoint(tmp_path / "checkpoint.pth")
    assert checkpoint["epoch"] == 1
    assert same(checkpoint["state_dict"], weights(trainer))


def test_a_loss_that_becomes_nan_names_the_epoch_and_keeps_the_best(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, trainer = opened(tmp_path, epochs=5)
    loss = trainer.model.calculate_loss
    monkeypatch.setattr(
        trainer.model,
        "calculate_loss",
        lambda batch: loss(batch) * (math.nan if trainer._epoch == 2 else 1.0),
    )
    with pytest.raises(
        ModelError, match=r"NaN in epoch 2.*learning_rate.*clip_grad_norm"
    ) as caught:
        trainer.fit(session.train_data, session.valid_data)
    assert "checkpoint.pth keeps the weights" in str(caught.value)
    assert load_checkpoint(tmp_path / "checkpoint.pth")["epoch"] <= 1
    assert load_checkpoint(tmp_path / "resume.pth")["epoch"] == 1


def test_scores_that_become_nan_name_the_epoch_too(tmp_path: Path) -> None:
    session, trainer = opened(tmp_path, metrics=["NDCG", "HRLI"])
    torch.nn.init.constant_(trainer.model.item_embedding.weight, math.nan)
    trainer.optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
    trainer.model.calculate_loss = lambda batch: torch.zeros((), requires_grad=True)
    with pytest.raises(ModelError, match="scores became NaN in epoch 0") as caught:
        trainer.fit(session.train_data, session.valid_data)
    assert "keeps the weights" not in str(caught.value), "nothing was saved before"


def test_a_full_disk_leaves_whole_files_and_a_run_that_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = {"epochs": 4}
    session, whole = opened(tmp_path / "whole", **changes)
    expected = whole.fit(session.train_data, session.valid_data)
    save = torch.save

    def full(state, file, *args, **kwargs):
        if state["epoch"] == 2:
            file.write(b"a part")
            raise OSError(errno.ENOSPC, "No space left on device")
        save(state, file, *args, **kwargs)

    session, trainer = opened(tmp_path / "part", **changes)
    with monkeypatch.context() as patch:
        patch.setattr(writing.torch, "save", full)
        with pytest.raises(WriteError, match=r"cannot be written: No space left.*--resume"):
            trainer.fit(session.train_data, session.valid_data)
    names = {entry.name for entry in (tmp_path / "part").iterdir()}
    assert names == {"checkpoint.pth", "resume.pth", "tensorboard"}
    assert load_checkpoint(tmp_path / "part" / "checkpoint.pth")["epoch"] <= 1
    session, trainer = resumed(tmp_path / "part", **changes)
    assert trainer.fit(session.train_data, session.valid_data) == expected
    assert same(weights(trainer), weights(whole))


def test_an_epoch_is_one_line_and_the_metrics_go_to_the_file_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    session, trainer = opened(tmp_path, epochs=3)
    with caplog.at_level("INFO"):
        caplog.clear()
        trainer.fit(session.train_data, session.valid_data)
    shown = [r.getMessage() for r in caplog.records if not hasattr(r, "file_only")]
    assert len(shown) == 3
    for epoch, line in enumerate(shown):
        assert line.startswith(f"epoch {epoch}: train loss ")
        assert "valid ndcg@10 0." in line
        assert ("to go" in line) == (epoch < 2)
    hidden = [r.getMessage() for r in caplog.records if hasattr(r, "file_only")]
    assert sum("validation: ndcg@5" in line and "hit@10" in line for line in hidden) == 3


def test_one_bar_shows_the_whole_training(tmp_path: Path, capsys) -> None:
    session, trainer = opened(tmp_path, epochs=3)
    trainer.fit(session.train_data, session.valid_data, show_progress=True)
    shown = capsys.readouterr().err
    assert "epoch 2, validation" in shown
    assert "100%" in shown
    assert shown.count("\n") - shown.count("epoch 0: train") <= 4, "not one bar for each epoch"


def test_anomaly_detection_that_is_on_is_mentioned(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    session, trainer = opened(tmp_path, epochs=1)
    with torch.autograd.set_detect_anomaly(True), caplog.at_level(logging.WARNING):
        trainer.fit(session.train_data, session.valid_data)
    assert "anomaly detection is on" in caplog.text


def test_half_precision_trains_to_nearly_the_same_loss(tmp_path: Path) -> None:
    losses = []
    for enable_amp in (False, True):
        session, trainer = opened(
            tmp_path / str(enable_amp),
            epochs=1,
            enable_amp=enable_amp,
            hidden_dropout_prob=0.0,
            attn_dropout_prob=0.0,
        )
        trainer.fit(session.train_data, None, saved=False)
        losses.append(trainer.train_loss_dict[0])
        assert all(p.dtype == torch.float32 for p in trainer.model.parameters())
    assert losses[1] == pytest.approx(losses[0], rel=0.02)
    assert losses[1] != losses[0], "bfloat16 was used"
