"""At the neutral setting this package computes RecBole's numbers, from the first to the last."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from recbole.config import Config
from recbole.data import create_dataset, data_preparation
from recbole.trainer import Trainer
from recbole.utils import get_model, init_seed

from recbole_residual.config.residual_config import ResidualConfig
from recbole_residual.diagnose.full_run import run
from recbole_residual.run.session import build_session
from recbole_residual.trainer.trainer import get_trainer
from tests.conftest import SMALL

SETUP = {**SMALL, "metrics": ["Recall", "MRR", "NDCG", "Hit", "Precision"], "topk": [1, 10]}


def recbole_run(setup: dict[str, Any], monkeypatch) -> tuple[list[float], dict, dict, dict]:
    """Losses by epoch, best validation, test and weights, by RecBole's classes alone."""
    monkeypatch.setattr("sys.argv", ["test"])
    config = Config("SASRec", "ml-100k", config_dict={"train_neg_sample_args": None, **setup})
    init_seed(config["seed"], config["reproducibility"])
    train_data, valid_data, test_data = data_preparation(config, create_dataset(config))
    init_seed(config["seed"], config["reproducibility"])
    model = get_model("SASRec")(config, train_data._dataset)
    trainer = Trainer(config, model)
    _, best_valid = trainer.fit(train_data, valid_data, saved=False)
    test = trainer.evaluate(test_data, load_best_model=False)
    return list(trainer.train_loss_dict.values()), best_valid, test, model.state_dict()


def own_run(setup: dict[str, Any]) -> tuple[list[float], dict, dict, dict]:
    """The same by this package."""
    config = ResidualConfig(
        "SASRecResidual", "ml-100k", config_dict={**setup, "loss_positions": "last"}
    )
    session = build_session(config)
    trainer = get_trainer(config["MODEL_TYPE"], config.model_class)(config, session.model)
    _, best_valid = trainer.fit(session.train_data, session.valid_data, saved=False)
    test = trainer.evaluate(session.test_data, load_best_model=False)
    return (
        list(trainer.train_loss_dict.values()),
        best_valid,
        test,
        session.model.state_dict(),
    )


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {
            "loss_type": "BPR",
            "train_neg_sample_args": {"distribution": "uniform", "sample_num": 1},
        },
        {"eval_args": {"mode": "uni20", "split": {"LS": "valid_and_test"}, "order": "TO"}},
    ],
    ids=["CE", "BPR", "sampled evaluation"],
)
def test_two_epochs_are_recboles(changes: dict[str, Any], monkeypatch) -> None:
    setup = {**SETUP, "train_batch_size": 512, "valid_metric": "MRR@10", **changes}
    theirs = recbole_run(setup, monkeypatch)
    ours = own_run(setup)
    assert ours[0] == theirs[0], "losses"
    assert dict(ours[1]) == dict(theirs[1]), "validation"
    assert dict(ours[2]) == dict(theirs[2]), "test"
    assert ours[3].keys() == theirs[3].keys()
    assert all(torch.equal(ours[3][name], theirs[3][name]) for name in ours[3])


def test_the_same_seed_gives_the_same_weights_whatever_alpha_is() -> None:
    results = [
        run("SASRecResidual", "ml-100k", config_dict={**SMALL, "alpha": alpha})
        for alpha in (1.0, 0.2)
    ]
    assert results[0]["train_losses"] == results[1]["train_losses"]
    assert results[0]["best_valid_result"] == results[1]["best_valid_result"]
    assert results[0]["valid_result"] == results[0]["best_valid_result"]
    assert results[1]["valid_result"] != results[0]["valid_result"]
    assert results[1]["test_result"] != results[0]["test_result"]
    assert results[1]["alpha"] == [0.2, 0.2]
