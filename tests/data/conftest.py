"""Small atomic files and configurations for the tests of the data room."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Callable

import numpy as np
import pandas as pd
import pytest
import recbole
from recbole.config import Config

from recbole_residual.model.sasrec_residual import SASRecResidual

MODEL_PROPERTIES = Path(recbole.__file__).parent / "properties" / "model"


def write_inter(folder: Path, name: str, frame: pd.DataFrame) -> None:
    """Write ``<folder>/<name>/<name>.inter`` with float columns as float, every other as token."""
    path = folder / name
    path.mkdir(exist_ok=True)
    header = {
        column: f"{column}:{'float' if column in ('timestamp', 'rating') else 'token'}"
        for column in frame
    }
    frame.rename(columns=header).to_csv(path / f"{name}.inter", sep="\t", index=False)


def random_inter(
    seed: int, users: int = 20, items: int = 15, rows: int = 300, times: int = 40
) -> pd.DataFrame:
    """Interactions in random order with few distinct times, so that many rows share one."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "user_id": [f"u{i}" for i in rng.integers(0, users, rows)],
            "item_id": [f"i{int(i)}" for i in np.minimum(rng.geometric(0.15, rows), items)],
            "rating": rng.integers(1, 6, rows),
            "timestamp": 1.5e9 + rng.integers(0, times, rows) * 60.0,
        }
    )


@pytest.fixture
def make_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Config]:
    """RecBole's Config for a small SASRecResidual on a dataset under ``tmp_path``."""
    monkeypatch.setattr("sys.argv", ["pytest"])

    def make(dataset: str = "tiny", model: Any = SASRecResidual, **values: Any) -> Config:
        settings = {
            "data_path": str(tmp_path),
            "checkpoint_dir": str(tmp_path / "saved"),
            "load_col": {"inter": ["user_id", "item_id", "rating", "timestamp"]},
            "MAX_ITEM_LIST_LENGTH": 8,
            "train_batch_size": 16,
            "train_neg_sample_args": None,
            "alpha": 1.0,
            "alpha_train": 1.0,
            "hidden_size": 8,
            "inner_size": 16,
            "use_gpu": False,
            "show_progress": False,
            "valid_metric": "NDCG@10",
            **values,
        }
        os.makedirs(settings["checkpoint_dir"], exist_ok=True)
        yaml = str(MODEL_PROPERTIES / "SASRec.yaml")
        return Config(model=model, dataset=dataset, config_file_list=[yaml], config_dict=settings)

    return make
