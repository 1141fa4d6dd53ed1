"""Data and models that several rooms test on: a part of ml-100k, which comes with RecBole."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from recbole.data.interaction import Interaction

from recbole_residual.compat import mend_recbole

SMALL = {
    "val_interval": {"user_id": [str(user) for user in range(1, 61)]},
    "MAX_ITEM_LIST_LENGTH": 12,
    "hidden_size": 16,
    "inner_size": 32,
    "train_batch_size": 16,
    "show_progress": False,
    "epochs": 2,
    "probe": "none",
    "report": False,
}
"""Configuration of a network and a part of ml-100k (60 users) that train in a second."""


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """RecBole writes into the current folder: give every test its own."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session", autouse=True)
def _recbole_works_in_fixtures() -> None:
    """RecBole, with which this package is compared, needs the mends on newer libraries too."""
    mend_recbole()


@pytest.fixture(autouse=True)
def _recbole_works_here() -> None:
    """Once more before every test, as one that ends a registration takes them off."""
    mend_recbole()


class TinyDataset:
    """What a RecBole model asks of its dataset when it is built."""

    field2type: ClassVar[dict[str, Any]] = {}
    inter_feat: ClassVar[dict[str, torch.Tensor]] = {}

    def __init__(self, n_items: int) -> None:
        self.n_items = n_items

    def num(self, field: str) -> int:
        return self.n_items


class TinyConfig(dict):
    """Like RecBole's Config, a missing key is None."""

    def __missing__(self, key: str) -> None:
        return None


def tiny_config(**changes: Any) -> TinyConfig:
    """A configuration with which RecBole's attention models can be built."""
    settings = {
        "USER_ID_FIELD": "user_id",
        "ITEM_ID_FIELD": "item_id",
        "LIST_SUFFIX": "_list",
        "ITEM_LIST_LENGTH_FIELD": "item_length",
        "NEG_PREFIX": "neg_",
        "MAX_ITEM_LIST_LENGTH": 8,
        "device": torch.device("cpu"),
        "n_layers": 2,
        "n_heads": 2,
        "hidden_size": 16,
        "inner_size": 32,
        "hidden_dropout_prob": 0.0,
        "attn_dropout_prob": 0.0,
        "hidden_act": "gelu",
        "layer_norm_eps": 1e-12,
        "initializer_range": 0.5,
        "loss_type": "CE",
        "mask_ratio": 0.2,
        "MASK_ITEM_SEQ": "Mask_item_id_list",
        "POS_ITEMS": "Pos_item_id",
        "NEG_ITEMS": "Neg_item_id",
        "MASK_INDEX": "MASK_INDEX",
        "alpha": 1.0,
        "alpha_train": 1.0,
        "position": "learned",
        "norm": "post",
        "residual": "attention",
        "attention": "learned",
        "mask_position": "after_last",
        "ft_ratio": 0.5,
        "logits_chunk": None,
        **changes,
    }
    return TinyConfig(settings)


def random_interaction(
    rows: int = 5, length: int = 8, n_items: int = 30, seed: int = 0
) -> Interaction:
    """Sequences of random items and lengths, padded at the end, as RecBole batches them."""
    generator = torch.Generator().manual_seed(seed)
    item_seq = torch.randint(1, n_items, (rows, length), generator=generator)
    item_seq_len = torch.randint(1, length + 1, (rows,), generator=generator)
    item_seq[torch.arange(length) >= item_seq_len[:, None]] = 0
    target = torch.randint(1, n_items, (rows,), generator=generator)
    return Interaction({"item_id_list": item_seq, "item_length": item_seq_len, "item_id": target})
