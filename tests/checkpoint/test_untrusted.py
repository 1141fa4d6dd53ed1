"""RecBole's own checkpoints, and files that pretend to be some."""

from __future__ import annotations

import codecs
import functools
import logging
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from recbole.config import Config

from recbole_residual.checkpoint.untrusted import ConfigRecord, StandIn, load_recbole_checkpoint
from recbole_residual.errors import CheckpointError, UntrustedCheckpointError
from tests.conftest import SMALL


@pytest.fixture
def config(monkeypatch: pytest.MonkeyPatch) -> Config:
    monkeypatch.setattr("sys.argv", ["test"])
    return Config("SASRec", "ml-100k", config_dict={**SMALL, "train_neg_sample_args": None})


def save_as_recbole(path: Path, **extra) -> None:
    """As RecBole's Trainer._save_checkpoint writes it."""
    weight = torch.nn.Parameter(torch.arange(6.0).view(2, 3))
    state = {
        "epoch": 3,
        "cur_step": 0,
        "best_valid_score": np.float64(0.25),
        "state_dict": {"weight": torch.arange(6.0), "half": torch.ones(2).half()},
        "other_parameter": {"mean": np.float32(0.5)},
        "optimizer": torch.optim.Adam([weight]).state_dict(),
        **extra,
    }
    torch.save(state, path, pickle_protocol=4)


def test_recboles_checkpoint_is_read(tmp_path: Path, config: Config) -> None:
    path = tmp_path / "SASRec.pth"
    save_as_recbole(path, config=config)
    state = load_recbole_checkpoint(path)
    assert state["state_dict"]["weight"].tolist() == [0, 1, 2, 3, 4, 5]
    assert state["best_valid_score"] == 0.25
    assert state["other_parameter"] == {"mean": 0.5}
    record = state["config"]
    assert isinstance(record, ConfigRecord)
    assert record["model"] == "SASRec"
    assert record["hidden_size"] == SMALL["hidden_size"]
    assert record["eval_args"] == config["eval_args"]
    assert issubclass(record.model_class, StandIn)
    assert record.model_class.name == "SASRec"
    assert "no such key" not in record


def test_a_class_that_the_file_calls_does_nothing(tmp_path: Path) -> None:
    class Calls:
        def __reduce__(self):
            return (Config, ("SASRec", "ml-100k", None, {"alpha": "open('ran', 'w')"}))

    class Loads:
        def __reduce__(self):
            return (pd.read_pickle, ("nothing.pkl",))

    path = tmp_path / "c.pth"
    save_as_recbole(path, other=[Calls(), Loads()])
    called, loaded = load_recbole_checkpoint(path)["other"]
    assert isinstance(called, ConfigRecord)
    assert isinstance(loaded, StandIn)
    assert not Path("ran").exists()


def test_a_model_that_keeps_layers_and_its_dataset_in_the_checkpoint(tmp_path: Path) -> None:
    """As SASRecF does."""
    frame = pd.DataFrame({"item_id": ["a", "b"], "year": [1.0, 2.0]})
    layer = torch.nn.ModuleDict({"item": torch.nn.Embedding(3, 2)})
    layer.logger, layer.frame = logging.getLogger(), frame
    path = tmp_path / "c.pth"
    save_as_recbole(path, other_parameter={"feature_embed_layer": layer, "mean": 0.5})
    state = load_recbole_checkpoint(path)
    assert state["other_parameter"] == {"mean": 0.5}
    assert state["state_dict"]["weight"].tolist() == [0, 1, 2, 3, 4, 5]


def test_a_partial_calls_nothing(tmp_path: Path) -> None:
    """Frames of pandas 1.3 bring one along."""

    class Payload:
        def __reduce__(self):
            return (functools.partial(torch.nn.Linear, 2, 3), ())

    path = tmp_path / "c.pth"
    save_as_recbole(path, other_parameter={"layer": Payload(), "mean": 0.5})
    assert load_recbole_checkpoint(path)["other_parameter"] == {"layer": None, "mean": 0.5}


@pytest.mark.parametrize(
    ("function", "arguments", "wanted"),
    [
        (os.system, ("touch ran",), "posix.system"),
        (eval, ("open('ran', 'w')",), "builtins.eval"),
        (getattr, ("", "join"), "builtins.getattr"),
        (np.load, ("ran",), "numpy.load"),
        (torch.load, ("ran",), "torch.serialization.load"),
    ],
)
def test_what_is_not_on_the_list_is_refused_by_name(
    tmp_path: Path, function, arguments, wanted: str
) -> None:
    class Payload:
        def __reduce__(self):
            return (function, arguments)

    path = tmp_path / "c.pth"
    save_as_recbole(path, other=Payload())
    with pytest.raises(UntrustedCheckpointError) as caught:
        load_recbole_checkpoint(path)
    name = wanted.rsplit(".", 1)[1]
    assert caught.value.wanted.endswith(name)
    assert "trust_checkpoint" in str(caught.value)
    assert not Path("ran").exists()


def test_other_encodings_are_refused(tmp_path: Path) -> None:
    class Payload:
        def __reduce__(self):
            return (codecs.encode, ("text", "rot13"))

    path = tmp_path / "c.pth"
    save_as_recbole(path, other=Payload())
    with pytest.raises(UntrustedCheckpointError, match="rot13"):
        load_recbole_checkpoint(path)


def test_trusting_loads_anything(tmp_path: Path) -> None:
    path = tmp_path / "c.pth"
    save_as_recbole(path, other=Path("x"))
    with pytest.raises(UntrustedCheckpointError, match="Path"):
        load_recbole_checkpoint(path)
    assert load_recbole_checkpoint(path, trust_checkpoint=True)["other"] == Path("x")


def test_broken_and_foreign_files_say_so(tmp_path: Path) -> None:
    path = tmp_path / "c.pth"
    with pytest.raises(FileNotFoundError):
        load_recbole_checkpoint(path)
    path.write_bytes(b"not a checkpoint")
    with pytest.raises(CheckpointError, match="cannot be read"):
        load_recbole_checkpoint(path)
    torch.save([1, 2], path)
    with pytest.raises(CheckpointError, match="no 'state_dict'"):
        load_recbole_checkpoint(path)
