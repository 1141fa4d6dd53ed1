"""Loaders over given sequences, and models to probe, without a dataset on disk."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from recbole.data.dataloader import FullSortEvalDataLoader
from recbole.data.interaction import Interaction
from recbole.model.sequential_recommender import SASRec

from tests.conftest import TinyDataset, random_interaction, tiny_config

N_ITEMS = 40


class ListLoader(FullSortEvalDataLoader):
    """RecBole's evaluation loader over sequences that are there already."""

    is_sequential = True

    def __init__(self, interaction: Interaction, batch_size: int, history: Any = None) -> None:
        self.rows = interaction
        self.rows_per_batch = batch_size
        self.history = history
        self.n_reads = 0

    def __len__(self) -> int:
        return -(-len(self.rows) // self.rows_per_batch)

    def __iter__(self) -> Iterator[Any]:
        self.n_reads += 1
        for start in range(0, len(self.rows), self.rows_per_batch):
            part = self.rows[start : start + self.rows_per_batch]
            yield part, self.history, torch.arange(len(part)), part["item_id"]


class _Dataset(TinyDataset):
    """What some models ask for beside the number of items."""

    user_num = 2

    def __init__(self, n_items: int, length: int) -> None:
        super().__init__(n_items)
        self.field2seqlen = {"item_id_list": length}


def loader(batch_size: int = 16, **of_interaction: Any) -> ListLoader:
    """Random sequences with random targets."""
    of_interaction = {"rows": 50, "n_items": N_ITEMS, **of_interaction}
    return ListLoader(random_interaction(**of_interaction), batch_size)


def build(model_class: type = SASRec, seed: int = 0, n_items: int = N_ITEMS, **changes: Any) -> Any:
    """A model with random weights, LayerNorms and biases included, in eval mode."""
    torch.manual_seed(seed)
    config = tiny_config(**changes)
    model = model_class(config, _Dataset(n_items, config["MAX_ITEM_LIST_LENGTH"]))
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() == 1:
                weight.normal_(mean=float(name.endswith("LayerNorm.weight")), std=0.3)
    return model.eval()


@pytest.fixture
def model() -> SASRec:
    return build()
