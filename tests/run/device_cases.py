"""Everything on a device that refuses tensors of the CPU and counts how often the host waits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from recbole_residual.config.probe_names import PROBES
from recbole_residual.config.residual_config import ResidualConfig
from recbole_residual.model.architecture import precision
from recbole_residual.probe.all_probes import run_probes
from recbole_residual.run.session import Session, build_session
from recbole_residual.trainer.trainer import get_trainer
from tests.conftest import SMALL
from tests.pretended_device import (
    MixedDevicesError,
    NoFloat64Error,
    Waits,
    can_pretend,
    pretended,
)

pytestmark = pytest.mark.skipif(not can_pretend(), reason="this torch has no devices in Python")

USERS = (30, 60)
SETUP: dict[str, Any] = {
    **SMALL,
    "MAX_ITEM_LIST_LENGTH": 8,
    "long_sequences": "latest",
    "metrics": ["Hit", "GAUC", "ItemCoverage", "HRLI", "HRL2I", "MixingRatio", "RecoveryRate"],
    "topk": [1, 10],
    "valid_metric": "Hit@10",
    "export_per_user": True,
}
MODELS = ("SASRecResidual", "BERT4RecResidual", "DuoRecResidual", "SetRec")
# not GRU4RecResidual: off the CPU torch takes a kernel for its GRU that a CPU does not have
LOSSES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("SASRecResidual", {"loss_type": "BPR"}),
    ("SASRecResidual", {"loss_type": "SSM"}),
    ("SASRecResidual", {"loss_positions": "last", "train_batch_size": 2048}),
    ("SASRecResidual", {"alpha_train": "learned", "alpha": 0.5}),
    ("SASRecUniform", {}),
)
STEP_WAITS, EVALUATION_WAITS, PROBE_WAITS = 10, 120, 700
"""At most; how many there are does not depend on the number of rows."""


def opened(folder: Path, model: str, users: int, **changes: Any) -> tuple[Session, ResidualConfig]:
    """A session on the CPU, and its configuration."""
    settings = {
        **SETUP,
        "val_interval": {"user_id": [str(user) for user in range(1, users + 1)]},
        "train_batch_size": users,
        **changes,
    }
    if model == "SetRec":  # no attention, no feed-forward block
        settings["metrics"] = ["Hit", "GAUC", "ItemCoverage", "HRLI", "HRL2I"]
        del settings["inner_size"]
    config = ResidualConfig(model, "ml-100k", config_dict=settings)
    config["checkpoint_dir"] = str(folder)
    return build_session(config), config


def on_device(session: Session) -> Any:
    """A Trainer of the session's model, which has moved to the device."""
    config, device = session.config, torch.device("pretend", 0)
    config["device"] = session.model.device = device
    session.model.to(device)
    trainer = get_trainer(config["MODEL_TYPE"], config.model_class)(config, session.model)
    trainer.eval_collector.data_collect(session.train_data)
    return trainer


def trained_and_evaluated(session: Session, trainer: Any, waits: Waits) -> dict[str, int]:
    """How often the host waits in a step, and in an evaluation with every metric."""
    waits.clear()
    trainer._train_epoch(session.train_data, 0)
    step = sum(waits.values()) / len(session.train_data)
    waits.clear()
    trainer.evaluate(session.test_data, load_best_model=False)
    return {"step": step, "evaluation": sum(waits.values())}


@pytest.mark.parametrize(
    ("model", "changes"),
    [
        *((model, {}) for model in MODELS),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in LOSSES[:3]),
        *LOSSES[3:],
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(map(str, value.values())),
)
def test_training_evaluation_and_resuming(
    tmp_path: Path, model: str, changes: dict[str, Any]
) -> None:
    found = []
    for users in USERS:
        session, _ = opened(tmp_path / str(users), model, users, **changes)
        with pretended() as waits:
            trainer = on_device(session)
            found.append(trained_and_evaluated(session, trainer, waits))
            trainer._train_data = session.train_data
            trainer._save_resume_state(0)
            trainer.resume_checkpoint(trainer.resume_file)
            trainer.restore_randomness(session.train_data)
            trainer._train_epoch(session.train_data, 1)
            assert all(weight.device.type == "pretend" for weight in session.model.parameters())
    few, many = found
    if changes.get("loss_positions") != "last":  # there the batches are more, not longer
        assert many["step"] <= few["step"] <= STEP_WAITS
    assert many["evaluation"] <= few["evaluation"] + 12
    assert many["evaluation"] <= EVALUATION_WAITS


@pytest.mark.parametrize(
    "model",
    ["SASRecResidual", *(pytest.param(model, marks=pytest.mark.slow) for model in MODELS[1:])],
)
def test_nothing_needs_float64(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str) -> None:
    monkeypatch.setattr(precision, "WITHOUT_FLOAT64", {"pretend"})
    session, _ = opened(tmp_path, model, USERS[0])
    with pretended(float64=False):
        with pytest.raises(NoFloat64Error):
            torch.zeros(1, dtype=torch.float64, device="pretend")
        trainer = on_device(session)
        trainer._train_data = session.train_data
        trainer._train_epoch(session.train_data, 0)
        trainer._save_resume_state(0)
        trainer.resume_checkpoint(trainer.resume_file)
        trainer.evaluate(session.test_data, load_best_model=False)
        for probe in PROBES:
            run_probes(session.model, session.valid_data, session.test_data, tmp_path, [probe])


@pytest.mark.parametrize(
    "model",
    [
        "SASRecResidual",
        *(pytest.param(model, marks=pytest.mark.slow) for model in (*MODELS[1:], "SASRecUniform")),
    ],
)
def test_every_probe(tmp_path: Path, model: str) -> None:
    found: dict[str, list[int]] = {}
    for users in USERS:
        session, _ = opened(tmp_path / str(users), model, users)
        with pretended() as waits:
            on_device(session)
            for probe in PROBES:
                waits.clear()
                answers = run_probes(
                    session.model, session.valid_data, session.test_data, tmp_path, [probe]
                )
                if answers:
                    found.setdefault(probe, []).append(sum(waits.values()))
    assert "alpha_sweep" in found or model == "SetRec"
    for probe, (few, many) in found.items():
        assert many <= few + max(20, few // 5), (probe, few, many)
        assert many <= PROBE_WAITS, (probe, many)


def test_the_numbers_are_those_of_the_cpu(tmp_path: Path) -> None:
    results = []
    for device in ("cpu", "pretend"):
        session, config = opened(tmp_path / device, "SASRecResidual", 30)
        if device == "cpu":
            trainer = get_trainer(config["MODEL_TYPE"], config.model_class)(config, session.model)
            trainer.eval_collector.data_collect(session.train_data)
            results.append(trainer.evaluate(session.test_data, load_best_model=False))
            continue
        with pretended():
            trainer = on_device(session)
            results.append(trainer.evaluate(session.test_data, load_best_model=False))
    assert results[0] == pytest.approx(results[1], abs=1e-4, nan_ok=True)


def test_the_device_is_one() -> None:
    with pretended() as waits:
        there = torch.arange(3.0, device="pretend")
        assert there.device.type == (there * 2).device.type == "pretend"
        with pytest.raises(MixedDevicesError):
            there + torch.ones(3)
        assert sum(waits.values()) == 0
        assert float(there.sum()) == 3.0
        assert there[there > 0].tolist() == [1.0, 2.0]
        assert waits == {"_local_scalar_dense": 1, "index": 1, "tolist": 1}
        assert there.cpu().device.type == "cpu"
        assert waits["copy to the host"] == 1
