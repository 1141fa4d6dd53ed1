"""Two real processes, connected by gloo, against one: the same steps and the same metrics."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from torch import multiprocessing

from recbole_residual import processes
from recbole_residual.config.residual_config import ResidualConfig
from recbole_residual.evaluator import per_user_table
from recbole_residual.model import bert4rec_residual
from recbole_residual.processes import Place
from recbole_residual.run.session import build_session
from recbole_residual.trainer.trainer import get_trainer
from tests.conftest import SMALL

SETUP: dict[str, Any] = {
    **SMALL,
    "val_interval": {"user_id": [str(user) for user in range(1, 76)]},
    "item_inter_num_interval": "[15,inf)",
    "MAX_ITEM_LIST_LENGTH": 20,
    "long_sequences": "latest",
    "train_batch_size": 37,  # 75 rows: the last batch has one, and a process none
    "hidden_dropout_prob": 0.0,
    "attn_dropout_prob": 0.0,
    "metrics": ["NDCG", "MRR", "HRLI", "MixingRatio", "RecoveryRate", "ItemCoverage", "GAUC"],
    "topk": [1, 10],
    "valid_metric": "NDCG@10",
    "export_per_user": True,
    "learning_rate": 0.01,
}
ROWS = {
    "val_interval": {"user_id": ["1", "2", "3"]},
    "item_inter_num_interval": "[1,inf)",
    "loss_positions": "last",
    "train_batch_size": 64,
}
SAMPLED = {"metrics": ["NDCG", "GAUC"], "eval_args": {"mode": "uni20"}}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "whole sequences": ("SASRecResidual", {}),
    "learned alpha, pairs": ("SASRecResidual", {"alpha_train": "learned", "loss_type": "BPR"}),
    "parameters without use": ("SASRecUniform", {**ROWS, "metrics": ["NDCG"]}),
    "masked sequences": ("BERT4RecResidual", {}),
    "RecBole's negatives, sampled ranking": (
        "SASRec",
        {**ROWS, **SAMPLED, "loss_type": "BPR", "loss_positions": "last"},
    ),
}


def every_second(maskable: torch.Tensor, mask_ratio: float, ft_ratio: float) -> torch.Tensor:
    """Masks that do not depend on the batch: chance would draw others in every process."""
    return maskable & (torch.arange(maskable.shape[1]) % 2 == 0)


def trained(folder: Path) -> dict[str, Any]:
    """What this process has after an evaluation and an epoch of every case."""
    bert4rec_residual.mask_at_random = every_second
    made: dict[str, Any] = {}
    for name, (model, changes) in CASES.items():
        config = ResidualConfig(model, "ml-100k", config_dict={**SETUP, **changes})
        config["checkpoint_dir"] = str(folder)
        session = build_session(config)
        trainer = get_trainer(config["MODEL_TYPE"], config.model_class)(config, session.model)
        trainer.eval_collector.data_collect(session.train_data)
        result = trainer.evaluate(session.test_data, load_best_model=False)
        table = per_user_table(trainer.evaluator, session.test_data._dataset)
        loss = trainer._train_epoch(session.train_data, 0)
        made[name] = {
            "loss": loss,
            "weights": {key: value.clone() for key, value in session.model.state_dict().items()},
            "result": dict(result),
            "table": table,
        }
    return made


def one_of_two(number: int, folder: str) -> None:
    torch.set_num_threads(1)
    place = Place(number, 2, number, str(Path(folder) / "meeting"))
    with processes.joined(place, torch.device("cpu")):
        assert processes.gathered(number) == [0, 1]
        assert processes.of_first(number) == 0
        made = trained(Path(folder))
        processes.leave()
        assert processes.count() == 1
    (Path(folder) / f"{number}.made").write_bytes(pickle.dumps(made))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """By one process alone, and by each of two."""
    folder = tmp_path_factory.mktemp("two")
    multiprocessing.spawn(one_of_two, args=(str(folder),), nprocs=2)
    mask_at_random = bert4rec_residual.mask_at_random
    try:
        alone = trained(folder)
    finally:
        bert4rec_residual.mask_at_random = mask_at_random
    pair = [pickle.loads((folder / f"{number}.made").read_bytes()) for number in range(2)]
    return [alone, *pair]


@pytest.mark.parametrize("case", CASES)
def test_two_processes_train_what_one_trains(made: list[dict[str, Any]], case: str) -> None:
    alone, first, second = (of_one[case] for of_one in made)
    assert first["loss"] == second["loss"] == pytest.approx(alone["loss"], rel=1e-5)
    for name, weights in alone["weights"].items():
        assert torch.equal(first["weights"][name], second["weights"][name])
        # Adam makes much of rounding where a gradient is nearly 0
        close = torch.isclose(first["weights"][name], weights, rtol=1e-3, atol=2e-4)
        assert close.float().mean() > 0.999, name


@pytest.mark.parametrize("case", CASES)
def test_two_processes_evaluate_what_one_evaluates(made: list[dict[str, Any]], case: str) -> None:
    alone, first, second = (of_one[case] for of_one in made)
    assert first["result"] == pytest.approx(second["result"], nan_ok=True)
    assert first["table"].equals(second["table"])
    assert first["result"] == pytest.approx(alone["result"], abs=1e-4, nan_ok=True)
    pd.testing.assert_frame_equal(first["table"], alone["table"], rtol=1e-4)
