"""Training by RecBole's own classes, as a user without this package does it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from recbole.config import Config
from recbole.data import create_dataset, data_preparation
from recbole.utils import get_model, get_trainer, init_seed

from recbole_residual.compat import mend_recbole
from tests.conftest import SMALL

WITH_FEATURES = {
    "load_col": {
        "inter": ["user_id", "item_id", "timestamp"],
        "item": ["item_id", "class"],
    },
    "selected_features": ["class"],
}
"""For SASRecF, which reads features of items."""


@dataclass(frozen=True)
class Trained:
    """What RecBole left, and what it says of it.

    Attributes:
        checkpoint: the file.
        model: with the best weights.
        valid_data, test_data: RecBole's loaders.
        valid_result, test_result: RecBole's evaluation of the best weights.
    """

    checkpoint: Path
    model: Any
    valid_data: Any
    test_data: Any
    valid_result: dict[str, float]
    test_result: dict[str, float]


def train_with_recbole(name: str, folder: Path, **changes: Any) -> Trained:
    """Train a model of RecBole's for an epoch on a part of ml-100k."""
    own_keys = ("probe", "report")
    settings: dict[str, Any] = {
        **{key: value for key, value in SMALL.items() if key not in own_keys},
        "embedding_size": 16,
        "epochs": 1,
        "train_batch_size": 512,
        "train_neg_sample_args": None,
        "checkpoint_dir": str(folder / "saved"),
        **changes,
    }
    mend_recbole()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["test"])
        patch.chdir(folder)
        config = Config(name, "ml-100k", config_dict=settings)
        init_seed(config["seed"], config["reproducibility"])
        train_data, valid_data, test_data = data_preparation(config, create_dataset(config))
        model = get_model(name)(config, train_data._dataset).to(config["device"])
        trainer = get_trainer(config["MODEL_TYPE"], name)(config, model)
        trainer.fit(train_data, valid_data, show_progress=False)
        test_result = trainer.evaluate(test_data)
        valid_result = trainer.evaluate(valid_data)
    return Trained(
        Path(trainer.saved_model_file),
        model,
        valid_data,
        test_data,
        dict(valid_result),
        dict(test_result),
    )
