"""Every model that plain RecBole trains on this machine trains here, through the same keys.

All of them take minutes (``-m slow``); a few that once failed run every time.
"""

from __future__ import annotations

import inspect
import math
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import recbole.model.context_aware_recommender
import recbole.model.general_recommender
import recbole.model.knowledge_aware_recommender
import recbole.model.sequential_recommender
from recbole.config import Config
from recbole.data import create_dataset, data_preparation
from recbole.model.abstract_recommender import AbstractRecommender
from recbole.utils import get_model, get_trainer, init_seed

from recbole_residual.diagnose.full_run import run

SETUP: dict[str, Any] = {
    "val_interval": {"user_id": [str(user) for user in range(1, 16)]},
    "item_inter_num_interval": "[3,inf)",
    "MAX_ITEM_LIST_LENGTH": 10,
    "epochs": 1,
    "show_progress": False,
}
OURS: dict[str, Any] = {"probe": "none", "report": False}

SETUPS: dict[str, dict[str, Any]] = {
    "KD_DAGFM": {"phase": "teacher_training"},
    "S3Rec": {"train_stage": "pretrain", "pretrain_epochs": 1, "save_step": 1},
    "RaCT": {"train_stage": "actor_pretrain", "pretrain_epochs": 1, "save_step": 1},
    "LINE": {"second_order_loss_weight": 0.5},
    "DMF": {"inter_matrix_type": "01"},
}
"""Keys without which a model does not train on this part of ml-100k, in plain RecBole either."""


def _models(package: ModuleType) -> list[str]:
    return sorted(
        name
        for name, value in vars(package).items()
        if inspect.isclass(value)
        and issubclass(value, AbstractRecommender)
        and value.__module__.startswith(package.__name__ + ".")
    )


MODELS = [
    name
    for package in (
        recbole.model.general_recommender,
        recbole.model.context_aware_recommender,
        recbole.model.sequential_recommender,
        recbole.model.knowledge_aware_recommender,
    )
    for name in _models(package)
]


def plain_recbole(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """Train with RecBole's own classes and defaults, and test."""
    monkeypatch.setattr("sys.argv", ["test"])
    settings = {**SETUP, **SETUPS.get(name, {}), "checkpoint_dir": str(folder / "saved")}
    if _has_cross_entropy(name):
        settings["train_neg_sample_args"] = None
    config = Config(name, "ml-100k", config_dict=settings)
    init_seed(config["seed"], config["reproducibility"])
    train_data, valid_data, test_data = data_preparation(config, create_dataset(config))
    model = get_model(name)(config, train_data._dataset).to(config["device"])
    trainer = get_trainer(config["MODEL_TYPE"], name)(config, model)
    trainer.fit(train_data, valid_data, saved=False, show_progress=False)
    return dict(trainer.evaluate(test_data, load_best_model=False))


def _has_cross_entropy(name: str) -> bool:
    config = Config(name, "ml-100k", config_dict={"train_neg_sample_args": None})
    return config["loss_type"] == "CE" and config["MODEL_TYPE"].name == "SEQUENTIAL"


def ours(name: str) -> dict[str, Any]:
    """The same through this package."""
    return run(name, "ml-100k", config_dict={**SETUP, **OURS, **SETUPS.get(name, {})})


@pytest.mark.parametrize(
    "name",
    [
        "BPR",
        "NeuMF",
        "ItemKNN",
        "EASE",
        "Pop",
        "DeepFM",
        "TransRec",
        "DIN",
        "FOSSIL",
        "CKE",
        "LightGCN",
    ],
)
def test_a_model_that_once_failed_trains(name: str) -> None:
    result = ours(name)
    assert result["test_result"]
    assert all(math.isfinite(value) for value in result["test_result"].values())
    assert (Path(result["run_folder"]) / "checkpoint.pth").is_file()


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_what_plain_recbole_trains_trains_here(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    try:
        result = ours(name)
    except Exception as error:
        try:
            plain_recbole(name, tmp_path, monkeypatch)
        except Exception as plain_error:  # RecBole's models fail on newer libraries in many ways
            pytest.skip(f"plain RecBole neither: {type(plain_error).__name__}: {plain_error}")
        raise error
    assert result["test_result"]
