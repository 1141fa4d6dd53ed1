"""A key with a mapping is merged with what stood there, entry by entry."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from recbole_residual.config.residual_config import ResidualConfig
from recbole_residual.errors import ConfigError

TEMPORAL = {"split": {"GT": [0.9, 0.9]}, "order": "TO", "group_by": "user"}


def made(
    dataset: str = "ml-1m", files: Any = None, model: str = "SASRecResidual", **keys: Any
) -> Any:
    return ResidualConfig(model, dataset, files, keys)


@pytest.mark.parametrize(
    "given", ["{mode: full}", "{'order':'TO','mode':'full'}", {"mode": "full"}]
)
def test_a_temporal_dataset_stays_temporal(given: Any) -> None:
    full = {"valid": "full", "test": "full"}
    assert made(eval_args=given)["eval_args"] == {**TEMPORAL, "mode": full}


@pytest.mark.parametrize("order", ["TO", "to"])
def test_order_alone(order: str) -> None:
    assert made("ml-100k", eval_args={"order": order})["eval_args"]["split"] == {
        "LS": "valid_and_test"
    }


def test_a_split_takes_the_place_of_a_split() -> None:
    arguments = made(eval_args={"split": {"ls": "valid_and_test"}})["eval_args"]
    assert arguments["split"] == {"LS": "valid_and_test"}
    assert arguments["order"] == "TO"


def test_one_phase_is_both_as_in_recbole() -> None:
    arguments = made(eval_args={"mode": {"valid": "uni100"}}, metrics=["NDCG"])["eval_args"]
    assert arguments["mode"] == {"valid": "uni100", "test": "uni100"}
    assert arguments["split"] == TEMPORAL["split"]


def test_grouping_can_be_empty() -> None:
    for nothing in (None, "none"):
        assert made("ml-100k", eval_args={"group_by": nothing})["eval_args"]["group_by"] in (
            None,
            "none",
        )


def test_files_and_keys_are_merged_too(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("eval_args: {split: {LS: valid_and_test}}\nval_interval: {rating: '[3,inf)'}\n")
    config = made(files=[file], eval_args={"mode": "full"}, val_interval={"user_id": ["1", "2"]})
    assert config["eval_args"]["split"] == {"LS": "valid_and_test"}
    assert config["eval_args"]["order"] == "TO"
    assert config["val_interval"] == {"rating": "[3,inf)", "user_id": ["1", "2"]}


def test_columns() -> None:
    config = made(load_col={"item": ["item_id", "title"]})
    assert config["load_col"] == {
        "inter": ["user_id", "item_id", "timestamp"],
        "item": ["item_id", "title"],
    }
    assert made(load_col={"inter": "*"})["load_col"] == {"inter": "*"}
    assert made(load_col={"inter": "user_id"})["load_col"] == {"inter": ["user_id"]}
    assert made(load_col={"inter": None})["load_col"] == {}
    config = made(load_col={"emb": "*"}, additional_feat_suffix="emb")
    assert config["load_col"]["emb"] == "*"
    assert config["additional_feat_suffix"] == ["emb"]
    assert made(load_col=None, unload_col={"inter": ["rating"]})["unload_col"] == {
        "inter": ["rating"]
    }


def test_negatives() -> None:
    config = made("ml-100k", loss_type="bpr", train_neg_sample_args={"distribution": "popularity"})
    assert config["train_neg_sample_args"] == {
        "distribution": "popularity",
        "sample_num": 1,
        "alpha": 1.0,
        "dynamic": False,
        "candidate_num": 0,
    }
    for none in (None, "None", {"distribution": "none"}, "{distribution: none}"):
        assert (
            made("ml-100k", train_neg_sample_args=none)["train_neg_sample_args"]["distribution"]
            == "none"
        )


def test_a_threshold_takes_the_place_of_a_threshold(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("threshold: {rating: 4}")
    assert made("ml-100k", [file], threshold={"age": 30})["threshold"] == {"age": 30}


def test_the_users_mapping_is_left_as_it_was() -> None:
    given = {"mode": "full"}
    made(eval_args=given)
    assert given == {"mode": "full"}


@pytest.mark.parametrize("model", ["BPR", "NeuMF", "FM", "DeepFM"])
def test_models_that_are_not_sequential_on_a_temporal_dataset(model: str) -> None:
    config = made(model=model)
    assert "GT" not in config["eval_args"]["split"]
    with pytest.raises(ConfigError, match=r"sequential models|order"):
        made(model=model, eval_args={"split": {"GT": [0.9]}})


@pytest.mark.parametrize(
    ("model", "metrics", "mode"),
    [("DIN", ["AUC", "LogLoss"], "uni100"), ("FM", ["AUC", "LogLoss"], "labeled")],
)
def test_models_that_recbole_evaluates_by_value_are_so_here(
    model: str, metrics: list[str], mode: str
) -> None:
    config = made("ml-100k", model=model)
    assert config["metrics"] == metrics
    assert config["valid_metric"] == "AUC"
    assert config["eval_args"]["mode"]["test"] == mode
