"""Small data and RecBole sessions for the tests of the evaluator."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable
from unittest import mock

import numpy as np
import pytest
import torch
from recbole.config import Config
from recbole.data import create_dataset, data_preparation
from recbole.trainer import Trainer
from recbole.utils import init_seed

from recbole_residual.evaluator import register, register_metrics

register_metrics()

N_USERS, N_ITEMS = 40, 30


@pytest.fixture(scope="package", autouse=True)
def _registered_for_fixtures() -> None:
    """RecBole's own Trainers are asked for this package's metrics in this room."""
    register()


@pytest.fixture(scope="module", autouse=True)
def _registered() -> None:
    """Once more for every file, as others end the registration."""
    register()


SETTINGS: dict[str, Any] = {
    "load_col": {"inter": ["user_id", "item_id", "timestamp"], "item": ["item_id", "class"]},
    "eval_args": {
        "split": {"LS": "valid_and_test"},
        "group_by": "user",
        "order": "TO",
        "mode": "full",
    },
    "selected_features": ["class"],
    "pooling_mode": "mean",
    "metrics": ["Hit", "NDCG"],
    "topk": [1, 5],
    "valid_metric": "NDCG@5",
    "train_neg_sample_args": None,
    "MAX_ITEM_LIST_LENGTH": 8,
    "n_layers": 2,
    "n_heads": 2,
    "hidden_size": 16,
    "embedding_size": 16,
    "inner_size": 32,
    "hidden_dropout_prob": 0.1,
    "attn_dropout_prob": 0.1,
    "hidden_act": "gelu",
    "layer_norm_eps": 1e-12,
    "loss_type": "CE",
    "reranker_CAN_NUM": 10,
    "initializer_range": 0.5,
    "train_batch_size": 64,
    "epochs": 2,
    "use_gpu": False,
    "show_progress": False,
    "checkpoint_dir": "saved",
}


@pytest.fixture(scope="session")
def data_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Atomic files of 40 users with 2 to 13 interactions; an item can repeat, also in a row."""
    path = tmp_path_factory.mktemp("data")
    folder = path / "tiny"
    folder.mkdir()
    random = np.random.default_rng(7)
    rows = ["user_id:token\titem_id:token\ttimestamp:float"]
    for user in range(N_USERS):
        items = random.integers(0, N_ITEMS, 2 + user % 12)
        if user % 5 == 0:
            items[-2] = items[-3] if len(items) > 2 else items[-2]
        rows += [f"u{user}\ti{item}\t{time}" for time, item in enumerate(items)]
    (folder / "tiny.inter").write_text("\n".join(rows) + "\n")
    rows = ["item_id:token\tclass:token_seq"]
    rows += [f"i{item}\tc{item % 3} c{item % 4}" for item in range(N_ITEMS)]
    (folder / "tiny.item").write_text("\n".join(rows) + "\n")
    return path


@dataclass
class Session:
    """A model on data, with RecBole's own Trainer."""

    config: Config
    train_data: Any
    valid_data: Any
    test_data: Any
    model: Any
    trainer: Trainer


def open_session(
    model: str,
    dataset: str = "tiny",
    dtype: torch.dtype = torch.float32,
    config_class: type[Config] = Config,
    **settings: Any,
) -> Session:
    """Build everything as RecBole's run_recbole does; the model is in eval mode, untrained."""
    with mock.patch.object(sys, "argv", ["pytest"]):
        config = config_class(model, dataset, config_dict={**SETTINGS, **settings})
    init_seed(config["seed"], config["reproducibility"])
    loaders = data_preparation(config, create_dataset(config))
    init_seed(config["seed"], config["reproducibility"])
    made = config.model_class(config, loaders[0]._dataset).to(dtype).eval()
    trainer = Trainer(config, made)
    trainer.eval_collector.data_collect(loaders[0])
    return Session(config, *loaders, made, trainer)


@pytest.fixture
def session(data_path: Path) -> Callable[..., Session]:
    """Opens a session on the tiny data."""

    def make(model: str = "SASRec", **settings: Any) -> Session:
        return open_session(model, data_path=str(data_path), **settings)

    return make


@contextmanager
def inside(folder: Path) -> Iterator[None]:
    """RecBole writes into the current folder: let it be this one."""
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


@pytest.fixture(scope="package")
def trained(tmp_path_factory: pytest.TempPathFactory, _one_thread: None) -> Session:
    """RecBole's SASRec after two epochs on 60 users of ml-100k, in float64 from then on.

    In float64 two ways to compute a score agree so far that they never rank differently.
    """
    with inside(tmp_path_factory.mktemp("trained")):
        opened = open_session(
            "SASRec",
            "ml-100k",
            load_col={"inter": ["user_id", "item_id", "timestamp"]},
            val_interval={"user_id": [str(user) for user in range(1, 61)]},
            MAX_ITEM_LIST_LENGTH=12,
            initializer_range=0.02,
            metrics=["Hit", "HRLI", "HRL2I", "MixingRatio", "RecoveryRate"],
            topk=[1, 10, 50],
            valid_metric="Hit@10",
            train_batch_size=512,
        )
        opened.trainer.fit(opened.train_data, saved=False)
    opened.model.double().eval()
    return opened
