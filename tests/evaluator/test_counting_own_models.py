"""Evaluation by counting for this package's models and loaders, against batch by batch."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch

from recbole_residual.config.residual_config import ResidualConfig
from recbole_residual.data.create import create_dataset
from recbole_residual.data.preparation import data_preparation
from recbole_residual.evaluator import ResidualCollector, ResidualEvaluator, per_user_table
from recbole_residual.model.registry import get_model
from recbole_residual.trainer.trainer import get_trainer
from tests.evaluator.test_counting_evaluation import OURS

MODELS = ["SASRecResidual", "SASRecUniform", "BSARec", "DuoRec", "BERT4RecResidual"]


@pytest.fixture(scope="module")
def values(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return {
        "load_col": {"inter": ["user_id", "item_id", "timestamp"]},
        "val_interval": {"user_id": [str(user) for user in range(1, 41)]},
        "MAX_ITEM_LIST_LENGTH": 10,
        "hidden_size": 16,
        "metrics": ["NDCG", "MRR", "ItemCoverage", *OURS],
        "topk": [1, 10],
        "valid_metric": "NDCG@10",
        "metric_decimal_place": 12,
        "export_per_user": True,
        "use_gpu": False,
        "show_progress": False,
        "checkpoint_dir": str(tmp_path_factory.mktemp("saved")),
    }


def both_ways(model: str, values: dict[str, Any]) -> list[Any]:
    """The evaluators of a trained model after an evaluation by counting, and batch by batch."""
    config = ResidualConfig(model, "ml-100k", None, values)
    train, _, test = data_preparation(config, create_dataset(config))
    made = get_model(model)(config, train.dataset)
    trainer = get_trainer(config["MODEL_TYPE"], type(made))(config, made)
    trainer.eval_collector.data_collect(train)
    for epoch in range(2):
        trainer._train_epoch(train, epoch)
    evaluators = []
    for plainly in (False, True):
        trainer.eval_collector = ResidualCollector(config)
        trainer.eval_collector.data_collect(train)
        trainer.evaluator = ResidualEvaluator(config)
        if plainly:
            trainer._evaluates_otherwise = lambda: True
        evaluate = functools.partial(trainer.evaluate, test, load_best_model=False)
        evaluators.append((evaluate(), trainer.evaluator, test._dataset))
    return evaluators


def same(model: str, values: dict[str, Any]) -> None:
    (counted, own, dataset), (expected, plain, _) = both_ways(model, values)
    assert counted.keys() == expected.keys()
    for key, value in expected.items():
        tolerance = 1e-6 if key.startswith("mixing") else 0
        assert counted[key] == pytest.approx(value, abs=tolerance, rel=0, nan_ok=True), key
    left, right = per_user_table(own, dataset), per_user_table(plain, dataset)
    assert left.index.equals(right.index)
    for name in left:
        if left[name].dtype.kind != "f":
            assert left[name].equals(right[name]), name
            continue
        tolerance = 2e-6 if name.startswith("mixing") else 0
        found, wanted = (
            torch.from_numpy(table[name].to_numpy(copy=True)) for table in (left, right)
        )
        torch.testing.assert_close(found, wanted, atol=tolerance, rtol=0, equal_nan=True)


@pytest.mark.parametrize("model", [*MODELS, "GRU4RecResidual"])
def test_own_models_trained_and_every_user(model: str, values: dict[str, Any]) -> None:
    same(model, {**values, "embedding_size": 16} if model == "GRU4RecResidual" else values)


def test_the_loader_that_leaves_out_what_was_seen(values: dict[str, Any]) -> None:
    metrics = ["NDCG", "MRR", "ItemCoverage", "MixingRatio", "RecoveryRate"]
    same("SASRecResidual", {**values, "metrics": metrics, "filter_seen": True})


def test_sampled_items(values: dict[str, Any]) -> None:
    sampled = {
        "split": {"LS": "valid_and_test"},
        "order": "TO",
        "group_by": "user",
        "mode": "uni20",
    }
    metrics = ["NDCG", "MRR", "MixingRatio", "RecoveryRate"]
    (counted, own, _), _ = both_ways(
        "SASRecResidual", {**values, "metrics": metrics, "eval_args": sampled}
    )
    assert 0 < counted["ndcg@10"] <= 1
    assert len(own.evaluated.get("rec.topk")) == 40
