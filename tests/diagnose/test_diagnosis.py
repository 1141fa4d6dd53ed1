"""Checkpoints that plain RecBole wrote, diagnosed: its data, its order, its numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from recbole_residual import Session, diagnose
from recbole_residual.command import main
from recbole_residual.errors import CheckpointError, ConfigError, UntrustedCheckpointError
from recbole_residual.run.adoption import adopted_config
from tests.recbole_training import WITH_FEATURES, Trained, train_with_recbole


@pytest.fixture(scope="module")
def sasrec(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return train_with_recbole("SASRec", tmp_path_factory.mktemp("recbole"))


def assert_same_numbers(folder: Path, trained: Trained) -> None:
    result = json.loads((folder / "result.json").read_text())
    for part in ("valid_result", "test_result"):
        theirs = getattr(trained, part)
        assert theirs
        assert {key: result[part][key] for key in theirs} == theirs


def test_the_command_reports_recboles_numbers(
    sasrec: Trained, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--mode=diagnose", f"--checkpoint={sasrec.checkpoint}"]
    assert main([*arguments, f"--output_dir={tmp_path / 'out'}", "--probe=full"]) == 0
    printed = capsys.readouterr().out
    assert_same_numbers(tmp_path / "out", sasrec)
    assert "SASRec on ml-100k" in printed
    assert "chosen on validation" in printed
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "--mode=diagnose" in page
    assert list((tmp_path / "out" / "figures").glob("*.png"))
    assert not Path("saved").exists(), "nothing is trained"

    session = Session.open(tmp_path / "out")  # its folder is that of a run
    weights = sasrec.model.state_dict()
    assert all(
        torch.equal(value.cpu(), weights[name].cpu())
        for name, value in session.model.state_dict().items()
    )


@pytest.mark.parametrize(
    ("name", "changes"),
    [("BERT4Rec", {}), ("GRU4Rec", {}), ("SASRecF", WITH_FEATURES), ("FEARec", {})],
    ids=["BERT4Rec", "GRU4Rec", "SASRecF", "FEARec"],
)
def test_other_models_of_recbole(name: str, changes: dict[str, Any], tmp_path: Path) -> None:
    trained = train_with_recbole(name, tmp_path, **changes)
    settings = {"output_dir": str(tmp_path / "out"), "probe": "none"}
    found = diagnose(trained.checkpoint, config_dict=settings)
    assert_same_numbers(found.folder, trained)
    html = found._repr_html_()
    assert ("does not speak of the last item" in html) == (name == "BERT4Rec")
    assert found.tables["internals"] is None
    assert "not run" in html


def test_a_model_in_memory(sasrec: Trained, tmp_path: Path) -> None:
    found = diagnose(
        sasrec.model,
        valid_data=sasrec.valid_data,
        test_data=sasrec.test_data,
        config_dict={"output_dir": str(tmp_path / "out")},
    )
    assert_same_numbers(found.folder, sasrec)
    assert found.tables["alpha_sweep"] is not None
    assert found.figures["alpha_curves"].get_axes()
    assert "<img" in found._repr_html_()
    with pytest.raises(ConfigError, match="valid_data="):
        diagnose(sasrec.model)


def test_a_session_and_then_what_its_folder_lacks(sasrec: Trained, tmp_path: Path) -> None:
    settings = {"output_dir": str(tmp_path / "out"), "probe": "none"}
    first = diagnose(sasrec.checkpoint, config_dict=settings)
    assert first.tables["shuffle"] is None
    second = diagnose(first.folder)
    assert second.folder == first.folder
    assert second.tables["shuffle"] is not None
    assert second.tables["positions"] is None
    third = diagnose(first.session, config_dict={"output_dir": str(tmp_path / "again")})
    assert_same_numbers(third.folder, sasrec)


class Payload:
    """Would run a command when it is unpickled."""

    def __reduce__(self) -> tuple:
        return (exec, ("open('ran', 'w')",))


def test_a_file_that_wants_more_is_refused(
    sasrec: Trained, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = torch.load(sasrec.checkpoint, weights_only=False)
    torch.save({**state, "extra": Payload()}, tmp_path / "evil.pth")
    with pytest.raises(UntrustedCheckpointError, match="exec"):
        diagnose(tmp_path / "evil.pth")
    assert main(["--mode=diagnose", f"--checkpoint={tmp_path / 'evil.pth'}"]) == 2
    said = capsys.readouterr().err
    assert "exec" in said
    assert "--trust_checkpoint=True" in said
    assert not Path("ran").exists()
    arguments = ["--mode=diagnose", f"--checkpoint={tmp_path / 'evil.pth'}", "--probe=none"]
    assert main([*arguments, "--trust_checkpoint=True", f"--output_dir={tmp_path / 'out'}"]) == 0
    assert Path("ran").exists(), "that is what trusting means"


def test_what_cannot_be_diagnosed_is_said(sasrec: Trained, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no checkpoint"):
        diagnose("nowhere.pth")
    state = torch.load(sasrec.checkpoint, weights_only=False)
    torch.save({"state_dict": state["state_dict"]}, tmp_path / "bare.pth")
    with pytest.raises(CheckpointError, match="holds no configuration"):
        diagnose(tmp_path / "bare.pth")
    state["state_dict"] = {**state["state_dict"], "more.weight": torch.ones(1)}
    torch.save(state, tmp_path / "more.pth")
    with pytest.raises(CheckpointError, match=r"more\.weight, which SASRec has not"):
        diagnose(tmp_path / "more.pth")
    settings = dict(sasrec.test_data.config.final_config_dict)
    with pytest.raises(ConfigError, match="not a sequential model"):
        adopted_config({**settings, "model": "BPR"})


def test_sampled_evaluation_becomes_full_with_a_note(sasrec: Trained) -> None:
    settings = dict(sasrec.test_data.config.final_config_dict)
    sampled = {**settings["eval_args"], "mode": {"valid": "uni100", "test": "uni100"}}
    config, notes = adopted_config({**settings, "eval_args": sampled})
    assert config["eval_args"]["mode"] == {"valid": "full", "test": "full"}
    assert len(notes) == 1
    assert "uni100" in notes[0]
    assert adopted_config(settings)[1] == []
