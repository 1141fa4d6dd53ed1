"""What is written in one of several usual ways is read as it is meant."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from recbole_residual.config.residual_config import ResidualConfig
from recbole_residual.config.typed import split_files


@pytest.mark.parametrize(
    ("key", "given", "read"),
    [
        ("epochs", "1e2", 100),
        ("epochs", "64.0", 64),
        ("epochs", 64.0, 64),
        ("hidden_size", "128.0", 128),
        ("topk", "10", [10]),
        ("topk", "1e1", [10]),
        ("topk", (1, 10.0), [1, 10]),
        ("seed", "0", 0),
        ("learning_rate", "1e-2", 0.01),
        ("learning_rate", 1, 1),
        ("loss_type", "ce", "CE"),
        ("learner", "Adam", "adam"),
        ("state", "debug", "DEBUG"),
        ("latex", "1", True),
        ("latex", "yes", True),
        ("report", 0, False),
        ("use_gpu", "FALSE", False),
        ("output_dir", "2026", "2026"),
        ("output_dir", 2026, "2026"),
        ("output_dir", "'runs'", "runs"),
        ("output_dir", "None", None),
        ("output_dir", "1e5", "1e5"),
        ("output_dir", "[a]", "[a]"),
        ("gpu_id", "0,1", "0,1"),
        ("gpu_id", (0, 1), "0,1"),
        ("gpu_id", "", ""),
        ("field_separator", "\\t", "\t"),
        ("field_separator", "::", "::"),
        ("field_separator", ",", ","),
        ("field_separator", "'\\t'", "\t"),
        ("seq_separator", " ", " "),
        ("metrics", "NDCG", ["NDCG"]),
        ("metrics", "NDCG, Hit", ["NDCG", "Hit"]),
        ("topk", "1,5,10", [1, 5, 10]),
        ("gpu_id", "GPU-8a1b", "GPU-8a1b"),
        ("gpu_id", "-1", "-1"),
        ("benchmark_filename", "a,b,c", ["a", "b", "c"]),
        ("metrics", "[NDCG, Hit]", ["NDCG", "Hit"]),
        ("user_inter_num_interval", "[5,10]", "[5,10]"),
        ("user_inter_num_interval", [5, 10], "[5,10]"),
        ("user_inter_num_interval", "(0,1];[3, inf)", "(0,1];[3, inf)"),
        ("user_inter_num_interval", None, None),
        ("benchmark_filename", "[train,valid,test]", ["train", "valid", "test"]),
        ("load_col", "{inter:[user_id,item_id]}", {"inter": ["user_id", "item_id"]}),
        ("load_col", None, None),
        ("load_col", "~", None),
        ("clip_grad_norm", "{max_norm: 5}", {"max_norm": 5}),
        (
            "clip_grad_norm",
            {"max_norm": "5", "norm_type": "inf"},
            {"max_norm": 5, "norm_type": float("inf")},
        ),
        ("alpha", "[0.3,1]", [0.3, 1]),
        ("alpha", "(0, 0)", [0, 0]),
        ("encoding", "latin-1", "latin-1"),
        ("nproc", 1, 1),
        ("train_batch_size", "None", 128),
    ],
)
def test_values(key: str, given: Any, read: Any) -> None:
    made = ResidualConfig("SASRecResidual", "ml-100k", config_dict={key: given})[key]
    assert made == read
    assert type(made) is type(read)


def test_the_home_folder_in_every_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    file = tmp_path / "mine.yaml"
    file.write_text("epochs: 7\ncheckpoint_dir: ~/saved\n")
    keys = {"output_dir": "~/runs", "data_path": "~/data", "dataset_save_path": Path("~/cache")}
    made = ResidualConfig("SASRecResidual", "ml-100k", ["~/mine.yaml"], keys)
    assert made["epochs"] == 7
    assert made["output_dir"] == str(tmp_path) + "/runs"
    assert made["checkpoint_dir"] == str(tmp_path) + "/saved"
    assert made["dataset_save_path"] == os.path.expanduser("~/cache")
    assert made.base_data_path == str(tmp_path / "data")


def test_files_of_one_option_may_have_blanks_in_their_names(tmp_path: Path) -> None:
    folder = tmp_path / "my configs"
    folder.mkdir()
    first, second = folder / "a.yaml", tmp_path / "b.yaml"
    first.write_text("epochs: 3")
    second.write_text("epochs: 4")
    assert split_files(f"{first} {second}") == [str(first), str(second)]
    assert split_files(f"  {second}   {first} ") == [str(second), str(first)]
    assert split_files(f"'{first}' {second}") == [str(first), str(second)]
    assert split_files("missing.yaml other.yaml") == ["missing.yaml", "other.yaml"]
    assert split_files("") == []


def test_one_file_need_not_be_a_list(tmp_path: Path) -> None:
    file = tmp_path / "a b.yaml"
    file.write_text("epochs: 3")
    assert ResidualConfig("SASRecResidual", "ml-100k", str(file))["epochs"] == 3
    assert ResidualConfig("SASRecResidual", "ml-100k", file)["epochs"] == 3


def test_a_models_own_key_may_have_the_name_of_one_of_recboles() -> None:
    from recbole_residual.model import SASRecResidual

    class Mine(SASRecResidual):
        config_defaults = {"temperature": "hot", "loss_type": "CE"}

    made = ResidualConfig(Mine, "ml-100k", config_dict={"temperature": "cold"})
    assert made["temperature"] == "cold"
