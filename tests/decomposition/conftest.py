"""RecBole's own attention models on a tiny dataset with an item feature."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable

import numpy as np
import pytest
import torch
from recbole.config import Config
from recbole.data import create_dataset
from recbole.data.interaction import Interaction
from recbole.utils import get_model

N_USERS, N_ITEMS, LENGTH = 12, 20, 10

SETTINGS: dict[str, Any] = {
    "load_col": {"inter": ["user_id", "item_id", "timestamp"], "item": ["item_id", "class"]},
    "eval_args": {"split": {"LS": "valid_and_test"}, "order": "TO", "mode": "full"},
    "train_neg_sample_args": None,
    "selected_features": ["class"],
    "item_attribute": "class",
    "pooling_mode": "mean",
    "MAX_ITEM_LIST_LENGTH": LENGTH,
    "n_layers": 2,
    "n_heads": 2,
    "hidden_size": 16,
    "embedding_size": 16,
    "inner_size": 32,
    "hidden_act": "gelu",
    "layer_norm_eps": 1e-12,
    "loss_type": "CE",
    "reranker_CAN_NUM": 10,
    "initializer_range": 0.5,
    "use_gpu": False,
    "show_progress": False,
}


@pytest.fixture(scope="session")
def data_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset named "tiny"."""
    folder = tmp_path_factory.mktemp("data") / "tiny"
    folder.mkdir()
    random = np.random.default_rng(0)
    lines = ["user_id:token\titem_id:token\ttimestamp:float"]
    for user in range(N_USERS):
        for time in range(random.integers(4, 2 * LENGTH)):
            lines.append(f"{user}\t{random.integers(N_ITEMS)}\t{time}")
    (folder / "tiny.inter").write_text("\n".join(lines))
    classes = [f"{item}\t{item % 3} {item % 4}" for item in range(N_ITEMS)]
    (folder / "tiny.item").write_text("\n".join(["item_id:token\tclass:token_seq", *classes]))
    return folder.parent


@pytest.fixture(scope="session")
def build_model(data_path: Path) -> Callable[..., Any]:
    """RecBole's model of a name with random weights, in eval mode."""

    def build(name: str, **changes: Any) -> Any:
        config = Config(
            model=name,
            dataset="tiny",
            config_dict={**SETTINGS, "data_path": str(data_path), **changes},
        )
        dataset = create_dataset(config)
        torch.manual_seed(1)
        model = get_model(name)(config, dataset.build()[0])
        for parameter in model.parameters():  # so that no bias is 0 and no gain is 1
            parameter.data += 0.1 * torch.randn_like(parameter)
        return model.eval()

    return build


def tiny_interaction(length: int = LENGTH, rows: int = 7, seed: int = 0) -> Interaction:
    """Random sequences of every length from 1 to ``length``, padded at the end."""
    random = torch.Generator().manual_seed(seed)
    item_seq = torch.randint(1, N_ITEMS, (rows, length), generator=random)
    item_seq_len = torch.linspace(1, length, rows).round().long()
    item_seq[torch.arange(length) >= item_seq_len.unsqueeze(1)] = 0
    target = torch.randint(1, N_ITEMS, (rows,), generator=random)
    return Interaction({"item_id_list": item_seq, "item_length": item_seq_len, "item_id": target})
