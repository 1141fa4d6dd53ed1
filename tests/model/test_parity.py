"""Two epochs of ``loss_positions: last`` are RecBole's own, for every model that RecBole has."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from recbole.config import Config
from recbole.data import create_dataset, data_preparation
from recbole.trainer import Trainer
from recbole.utils import get_model, init_seed

from recbole_residual.config.residual_config import ResidualConfig
from recbole_residual.run.session import build_session
from recbole_residual.trainer.trainer import get_trainer
from tests.conftest import SMALL

SETUP = {
    **SMALL,
    "metrics": ["Recall", "MRR", "NDCG", "Hit"],
    "topk": [1, 10],
    "valid_metric": "MRR@10",
    "train_batch_size": 1024,
}
GRU = {"inner_size": None, "embedding_size": 8, "dropout_prob": 0.2}


def setup_of(changes: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in {**SETUP, **changes}.items() if value is not None}


def run(config: Config, train: Any, valid: Any, test: Any, model: Any, trainer_class: type) -> list:
    """Losses by epoch, best validation, test and weights."""
    trainer = trainer_class(config, model)
    _, best_valid = trainer.fit(train, valid, saved=False)
    result = trainer.evaluate(test, load_best_model=False)
    losses = [trainer.train_loss_dict[epoch] for epoch in sorted(trainer.train_loss_dict)]
    return [losses, dict(best_valid), dict(result), model.state_dict()]


@pytest.mark.parametrize(
    ("name", "changes", "own_changes"),
    [
        ("SASRec", {}, {}),
        ("BERT4Rec", {}, {"mask_position": "recbole"}),
        ("BERT4Rec", {"loss_type": "BPR"}, {"mask_position": "recbole"}),
        ("GRU4Rec", GRU, {}),
    ],
    ids=["SASRec", "BERT4Rec", "BERT4Rec-BPR", "GRU4Rec"],
)
def test_two_epochs_are_recboles(name, changes, own_changes, monkeypatch) -> None:
    setup = setup_of(changes)
    monkeypatch.setattr("sys.argv", ["test"])
    negatives = (
        None if setup.get("loss_type") != "BPR" else {"distribution": "uniform", "sample_num": 1}
    )
    config = Config(name, "ml-100k", config_dict={**setup, "train_neg_sample_args": negatives})
    init_seed(config["seed"], config["reproducibility"])
    loaders = data_preparation(config, create_dataset(config))
    init_seed(config["seed"], config["reproducibility"])
    model = get_model(name)(config, loaders[0]._dataset)
    theirs = run(config, *loaders, model, Trainer)

    config = ResidualConfig(
        f"{name}Residual",
        "ml-100k",
        config_dict={**setup, **own_changes, "loss_positions": "last"},
    )
    session = build_session(config)
    loaders = (session.train_data, session.valid_data, session.test_data)
    trainer_class = get_trainer(config["MODEL_TYPE"], config.model_class)
    ours = run(config, *loaders, session.model, trainer_class)

    assert ours[:3] == theirs[:3]
    assert len(ours[0]) == 2
    assert ours[3].keys() == theirs[3].keys()
    assert all(torch.equal(ours[3][key], theirs[3][key]) for key in theirs[3])
