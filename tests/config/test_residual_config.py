from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from recbole_residual.config.checks import check_topk
from recbole_residual.config.residual_config import ResidualConfig
from recbole_residual.errors import ConfigError, UnknownModelError
from recbole_residual.model import SASRecResidual


def config(**values: Any) -> ResidualConfig:
    return ResidualConfig("SASRecResidual", "ml-100k", config_dict=values)


def test_defaults_are_recboles_with_this_packages_on_top() -> None:
    made = config()
    assert made["n_layers"] == 2  # RecBole's SASRec.yaml
    assert made["alpha"] == 1.0  # properties/model/SASRecResidual.yaml
    assert made["loss_positions"] == "all"  # properties/overall.yaml
    assert made["valid_metric"] == "NDCG@10"
    assert made["train_batch_size"] == 128
    assert config(loss_positions="last")["train_batch_size"] == 2048
    assert any(file.endswith("SASRecResidual.yaml") for file in made.loaded_files)


def test_text_is_read_as_a_literal_and_never_run() -> None:
    made = config(alpha="[0.3, 1]", topk="[1,10]", show_progress="false", learning_rate="1e-2")
    assert made["alpha"] == [0.3, 1]
    assert made["topk"] == [1, 10]
    assert made["show_progress"] is False
    assert made["learning_rate"] == 0.01
    with pytest.raises(ConfigError, match="alpha"):
        config(alpha="__import__('os').system('touch ran')")
    assert not Path("ran").exists()


def test_the_callers_command_line_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["pytest", "--alpha=0.1", "--cov=recbole", "-x"])
    assert config()["alpha"] == 1.0


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"alhpa": 0.3}, "unknown option 'alhpa', did you mean 'alpha'?"),
        ({"alpha": -1}, "alpha = -1"),
        ({"alpha": "nan"}, "alpha = 'nan'"),
        ({"alpha": float("nan")}, "alpha = nan"),
        ({"alpha": "abc"}, "alpha = 'abc'"),
        ({"alpha": [1, 1, 1]}, "3 entries, but the model has 2 layers"),
        ({"alpha_train": [1]}, "alpha_train"),
        ({"loss_positions": "some"}, "loss_positions"),
        ({"epochs": "many"}, "must be a whole number of at least 1"),
        ({"epochs": 0}, "of at least 1"),
        ({"filter_seen": "maybe"}, "True or False"),
        ({"topk": [0]}, "topk"),
        ({"topk": "ten"}, "topk"),
        ({"valid_metric": "NDCG@7"}, "ndcg@5|ndcg@10"),
        ({"valid_metric": "NDGC@10"}, "did you mean 'ndcg@10'"),
        ({"metrics": ["NDGC"]}, "NDGC"),
    ],
)
def test_mistakes_are_refused_with_what_to_do(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message.replace("?", r"\?")):
        config(**values)


def test_not_strict_only_warns_of_unknown_keys(caplog: pytest.LogCaptureFixture) -> None:
    made = config(alhpa=0.3, strict_config=False)
    assert made["alpha"] == 1.0
    assert "did you mean 'alpha'" in caplog.text


def test_unknown_model_and_missing_names() -> None:
    with pytest.raises(UnknownModelError):
        ResidualConfig("NoSuchModel", "ml-100k")
    with pytest.raises(ConfigError, match="no model"):
        ResidualConfig(dataset="ml-100k")
    with pytest.raises(ConfigError, match="no dataset"):
        ResidualConfig("SASRecResidual")


@pytest.mark.parametrize(
    ("text", "message"),
    [("alpha: [", "not yaml"), ("- a\n- b", "key: value"), (None, "cannot be read")],
)
def test_broken_files(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "mine.yaml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(ConfigError, match=message):
        ResidualConfig("SASRecResidual", "ml-100k", [file])


def test_files_run_nothing(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("alpha: !!python/object/apply:os.system ['touch ran']")
    with pytest.raises(ConfigError, match="not yaml"):
        ResidualConfig("SASRecResidual", "ml-100k", [file])
    assert not Path("ran").exists()


def test_later_wins_and_everything_read_is_listed(tmp_path: Path) -> None:
    first, second = tmp_path / "1.yaml", tmp_path / "2.yaml"
    first.write_text("alpha: 0.1\nepochs: 3")
    second.write_text("alpha: 0.2")
    made = ResidualConfig("SASRecResidual", "ml-100k", [first, second], {"epochs": 4})
    assert (made["alpha"], made["epochs"]) == (0.2, 4)
    assert str(second) in made.loaded_files


def test_resolved_configuration_reads_back_the_same(tmp_path: Path) -> None:
    import yaml

    made = config(alpha=[0.5, 1.0], topk=[1, 10])
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump(made.to_plain()))
    again = ResidualConfig(config_file_list=[file])
    assert again.to_plain() == made.to_plain()
    for key in ("eval_args", "train_neg_sample_args", "data_path", "MODEL_INPUT_TYPE"):
        assert again[key] == made[key]


def test_recboles_own_model_trains_with_recboles_samples() -> None:
    made = ResidualConfig("SASRec", "ml-100k")
    assert made["loss_positions"] == "last"
    assert made["train_batch_size"] == 2048
    with pytest.raises(ConfigError, match="loss_positions"):
        ResidualConfig("SASRec", "ml-100k", config_dict={"loss_positions": "all"})


def test_default_metrics_leave_out_what_a_model_cannot_give() -> None:
    assert "MixingRatio" in config()["metrics"]
    assert "MixingRatio" not in ResidualConfig("NARM", "ml-100k")["metrics"]
    with pytest.raises(ValueError, match="SASRec"):
        ResidualConfig("NARM", "ml-100k", config_dict={"metrics": ["NDCG", "MixingRatio"]})


def test_bpr_gets_a_negative_and_ce_none() -> None:
    assert config()["train_neg_sample_args"]["distribution"] == "none"
    assert config(loss_type="BPR")["train_neg_sample_args"]["sample_num"] == 1


def test_a_users_class_brings_keys_and_defaults_of_its_own() -> None:
    class Mine(SASRecResidual):
        config_defaults = {"my_default": 3}

        def __init__(self, config, dataset):
            super().__init__(config, dataset)
            self.extra = config["my_extra"]

    made = ResidualConfig(Mine, "ml-100k", config_dict={"my_extra": 5})
    assert (made["my_default"], made["my_extra"], made["alpha"]) == (3, 5, 1.0)
    assert made["model"] == "Mine"


def test_topk_above_the_number_of_items() -> None:
    check_topk([1, 10], 10)
    with pytest.raises(ConfigError, match="topk = 11 is more than the 10 items"):
        check_topk([11], 10)


def test_a_gpu_given_by_the_surroundings_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    config()
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "3"
    config(gpu_id="1")
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "1"
    assert config(use_gpu=False)["device"].type == "cpu"
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "1"
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    config()
    assert "CUDA_VISIBLE_DEVICES" not in os.environ
