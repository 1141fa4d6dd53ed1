"""Every source of a model, through the one door."""

from __future__ import annotations

import inspect
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import recbole_residual
from recbole_residual import Session, diagnose, run, scale_residual
from recbole_residual.diagnose.full_run import resume
from recbole_residual.errors import CheckpointError, ConfigError
from recbole_residual.run.folder import RunFolder
from tests.conftest import SMALL
from tests.recbole_training import train_with_recbole

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "run"
    setup = {**SMALL, "epochs": 2, "probe": "none", "report": False, "output_dir": str(path)}
    run("SASRecResidual", "ml-100k", config_dict=setup)
    return path


def weights(session: Session) -> torch.Tensor:
    return session.model.item_embedding.weight


def test_a_folder_its_checkpoint_a_session_and_a_model_are_one_model(folder: Path) -> None:
    of_run = Session.open(folder)
    of_text = Session.open(str(folder))
    of_file = Session.open(folder / "checkpoint.pth")
    of_session = Session.open(of_run)
    of_model = Session.open(of_run.model, valid_data=of_run.valid_data, test_data=of_run.test_data)
    for session in (of_text, of_file, of_session, of_model):
        assert torch.equal(weights(session), weights(of_run))
        assert not session.model.training
        assert session.dataset.item_num == of_run.dataset.item_num
        assert session.item_names["50"] == "Star Wars"
    assert of_session is not of_run
    assert (of_run.folder, of_file.folder) == (folder, None)
    kinds = [session.origin.kind for session in (of_run, of_file, of_session, of_model)]
    assert kinds == ["run", "checkpoint", "run", "memory"]
    assert of_file.origin.epochs in (1, 2)
    assert of_file.config["metrics"] == of_run.config["metrics"]


def test_a_checkpoint_of_recbole(tmp_path: Path) -> None:
    trained = train_with_recbole("SASRec", tmp_path)
    session = Session.open(trained.checkpoint)
    assert torch.equal(weights(session), trained.model.item_embedding.weight)
    assert session.config["loss_positions"] == "last"
    assert "HRLI" in session.config["metrics"]


def test_what_is_no_source_is_told_what_is_one(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"3 is nothing that can be opened.*the folder of a run"):
        Session.open(3)  # type: ignore[arg-type]
    with pytest.raises(CheckpointError, match=r"'nowhere'.*a checkpoint"):
        Session.open("nowhere")
    with pytest.raises(ConfigError, match=r"does not know its data.*dataset="):
        Session.open(Session.open(folder).model)
    with pytest.raises(ConfigError, match="not the folder of a run"):
        Session.open(tmp_path)
    unfinished = RunFolder.create("SASRecResidual", "ml-100k", str(tmp_path / "begun"))
    unfinished.write_config({"model": "SASRecResidual", "dataset": "ml-100k"})
    with pytest.raises(CheckpointError, match="holds no checkpoint"):
        Session.open(unfinished.path)


def test_a_context_lets_go_of_model_and_data(folder: Path) -> None:
    with Session.open(folder) as session:
        assert "SASRecResidual" in repr(session)
        assert "ml-100k" in session._repr_html_()
        copy = Session.open(session)
    assert session.model is None
    assert session.test_data is None
    assert "closed" in repr(session)
    assert copy.model is not None, "a session opened from another one is its own"


def test_a_diagnosed_session_opens_with_the_alpha_it_had(folder: Path, tmp_path: Path) -> None:
    session = Session.open(folder)
    session.model.alpha = [0.3, 0.7]
    session.model.attention = "uniform"
    quick: dict[str, Any] = {"probe": "none", "report": False}
    first = diagnose(session, config_dict={**quick, "output_dir": str(tmp_path / "first")})
    again = Session.open(first.folder)
    assert again.model.alpha == [0.3, 0.7]
    assert again.model.attention == "uniform"
    with scale_residual(session.model, 0.5):
        second = diagnose(session, config_dict={**quick, "output_dir": str(tmp_path / "second")})
    assert Session.open(second.folder).model.alpha == [0.5, 0.5]
    unsaid = pytest.raises(ConfigError, match="no configuration says")
    with scale_residual(session.model, feed_forward=0.5), unsaid:
        diagnose(session, config_dict={**quick, "output_dir": str(tmp_path / "third")})


def test_what_a_run_holds_is_read_of_its_session_too(folder: Path) -> None:
    session = Session.open(folder)
    pages = [recbole_residual.report(source) for source in (folder, session)]
    assert str(pages[0]) == str(pages[1])
    with pytest.raises(ConfigError, match="has no folder of a run"):
        recbole_residual.report(Session.open(folder / "checkpoint.pth"))
    with pytest.raises(ConfigError, match="the same run is given twice"):
        recbole_residual.compare([folder, session])


def test_a_run_that_was_moved_knows_where_it_is(folder: Path, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    shutil.copytree(folder, moved)
    assert resume(moved)["run_folder"] == str(moved)


def test_a_run_that_cannot_begin_leaves_no_folder(tmp_path: Path) -> None:
    setup = {**SMALL, "output_dir": str(tmp_path / "run"), "topk": [10, 5000]}
    with pytest.raises(ConfigError, match="topk = 5000"):
        run("SASRecResidual", "ml-100k", config_dict=setup)
    assert not (tmp_path / "run").exists()


def test_rooms_are_called_like_their_functions() -> None:
    for name in ("run", "diagnose", "report", "tune"):
        room = getattr(recbole_residual, name)
        assert room.__wrapped__.__name__ == name
        assert inspect.signature(room) == inspect.signature(room.__wrapped__)
    assert recbole_residual.run.session.Session is Session
    with pytest.raises(ConfigError, match="no model"):
        recbole_residual.run(dataset="ml-100k")


def test_running_and_opening_leave_recboles_classes_alone(folder: Path) -> None:
    """In a process of its own: other tests register."""
    program = (
        "from recbole.data.dataset import Dataset, SequentialDataset\n"
        "from recbole.trainer import Trainer\n"
        "from scipy.sparse import dok_matrix\n"
        "import recbole_residual\n"
        "classes = (Dataset, SequentialDataset, Trainer, dok_matrix)\n"
        "before = [dict(vars(each)) for each in classes]\n"
        f"recbole_residual.Session.open({str(folder)!r})\n"
        "assert [dict(vars(each)) for each in classes] == before\n"
        "with recbole_residual.register():\n"
        "    assert [dict(vars(each)) for each in classes] != before\n"
        "assert [dict(vars(each)) for each in classes] == before\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)
