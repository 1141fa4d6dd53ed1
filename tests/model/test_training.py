"""Every model trains on ml-100k, with every metric that it can give, and learns something."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from recbole_residual.config.residual_config import ResidualConfig
from recbole_residual.data import create_dataset, data_preparation
from recbole_residual.diagnose.full_run import run
from recbole_residual.errors import ConfigError
from recbole_residual.model import get_model
from recbole_residual.run.session import Session
from tests.conftest import SMALL

SASREC = {"hidden_size": 16, "inner_size": 32}
MODELS: list[tuple[str, dict[str, Any]]] = [
    ("SASRecResidual", SASREC),
    ("SASRecResidual", {**SASREC, "position": "none", "attention": "uniform"}),
    ("SASRecResidual", {**SASREC, "position": "rotary", "residual": "attention+ffn"}),
    ("SASRecResidual", {**SASREC, "norm": "pre"}),
    ("SASRecUniform", SASREC),
    ("BERT4RecResidual", SASREC),
    ("GRU4RecResidual", {"hidden_size": 16, "embedding_size": 16}),
    ("DuoRecResidual", SASREC),
    ("SASRecPSD", SASREC),
    ("SASRecTAM", {**SASREC, "tam_text_size": 8}),
    ("SASRecResidual", {**SASREC, "block": "ligr"}),
    ("BSARecResidual", SASREC),
]
SMALLEST = {
    **{key: value for key, value in SMALL.items() if key not in SASREC},
    "val_interval": {"user_id": [str(user) for user in range(1, 31)]},
    "metrics": ["NDCG", "HRLI", "HRL2I", "MixingRatio", "RecoveryRate"],
    "topk": [1, 10],
    "probe": "none",
}


def positions_of(model: str) -> list[str]:
    if model == "SASRecPSD":  # it needs what comes after the target
        return ["all"]
    return ["all", "last"] if get_model(model).can_train_at_all_positions else ["last"]


@pytest.mark.parametrize(
    ("model", "changes", "positions"),
    [(*model, positions) for model in MODELS for positions in positions_of(model[0])],
    ids=str,
)
def test_trains_with_every_metric(model: str, changes: dict[str, Any], positions: str) -> None:
    batch = 16 if positions == "all" else 512
    setup = {**SMALLEST, **changes, "loss_positions": positions, "train_batch_size": batch}
    result = run(model, "ml-100k", config_dict=setup)
    first, second = result["train_losses"]
    assert second < first
    neutral = 0.0 if model == "GRU4RecResidual" else 1.0
    assert set(result["alpha"]) == {neutral}
    test = result["test_result_unrounded"]
    ratios = {key for key in test if key.startswith("mixingratio")}
    stages = ("gate",) if model == "GRU4RecResidual" else ("attn", "res", "ln")
    assert ratios == {f"mixingratio_{stage}{at}" for stage in stages for at in ("", "_last")}
    for key in (*ratios, "ndcg@10", "hrli@1", "hrl2i@10", "recoverybase@10"):
        assert np.isfinite(test[key]), key
    session = Session.open(result["run_folder"])
    scores = session.model.full_sort_predict(next(iter(session.test_data))[0])
    assert torch.isfinite(scores[:, 1:]).all()


def popularity_ndcg(setup: dict[str, Any]) -> float:
    """NDCG@10 on the test targets of ranking every item by its number of training targets."""
    config = ResidualConfig("SASRecResidual", "ml-100k", config_dict=setup)
    loaders = data_preparation(config, create_dataset(config))
    counts = torch.bincount(
        loaders.train._dataset.inter_feat["item_id"], minlength=loaders.train._dataset.item_num
    )
    targets = loaders.test._dataset.inter_feat["item_id"]
    rank = 1 + (counts.unsqueeze(0) > counts[targets].unsqueeze(1)).sum(dim=1)
    gain = torch.where(rank <= 10, 1 / torch.log2(rank + 1.0), torch.zeros(()))
    return float(gain.mean())


@pytest.mark.slow
@pytest.mark.parametrize(("model", "changes"), MODELS, ids=str)
def test_beats_popularity(model: str, changes: dict[str, Any]) -> None:
    setup = {
        "metrics": ["NDCG"],
        "topk": [10],
        "MAX_ITEM_LIST_LENGTH": 20,
        "show_progress": False,
        "probe": "none",
    }
    by_popularity = popularity_ndcg(setup)
    at_all = positions_of(model)[0] == "all"
    trained = run(
        model,
        "ml-100k",
        config_dict={
            **setup,
            **{key: 64 if key.endswith("size") else value for key, value in changes.items()},
            "epochs": 10 if at_all else 2,
            "train_batch_size": 64 if at_all else 512,
            "learning_rate": 0.003,
        },
    )
    assert trained["test_result_unrounded"]["ndcg@10"] > 1.5 * by_popularity


def test_recboles_transforms_need_recboles_samples() -> None:
    bert = {"transform": "mask_itemseq"}
    at_all = ResidualConfig("BERT4RecResidual", "ml-100k", config_dict=bert)
    assert at_all["transform"] is None
    at_last = ResidualConfig(
        "BERT4RecResidual", "ml-100k", config_dict={**bert, "loss_positions": "last"}
    )
    assert at_last["transform"] == "mask_itemseq"
    with pytest.raises(ConfigError, match="transform = 'crop_itemseq' works on RecBole's own"):
        ResidualConfig("SASRecResidual", "ml-100k", config_dict={"transform": "crop_itemseq"})


def test_attention_switch_leaves_training_and_early_stopping_alone() -> None:
    learned, uniform = (
        run(
            "SASRecResidual",
            "ml-100k",
            config_dict={**SMALLEST, **SASREC, "attention": attention},
        )
        for attention in ("learned", "uniform")
    )
    assert uniform["train_losses"] == learned["train_losses"]
    assert str(uniform["best_valid_result"]) == str(learned["best_valid_result"])
    assert str(uniform["valid_result"]) != str(learned["valid_result"])
    assert Session.open(uniform["run_folder"]).model.attention == "uniform"
