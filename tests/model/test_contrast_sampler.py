"""Other sequences with the same target: always the right ones, all equally likely."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from recbole.data.interaction import Interaction

from recbole_residual.config.residual_config import ResidualConfig
from recbole_residual.data import create_dataset, data_preparation
from recbole_residual.model.contrast_sampler import SameTarget
from tests.conftest import SMALL

FIELDS = {"target": "item_id", "item_seq": "item_id_list", "item_seq_len": "item_length"}


class Rows:
    """What is asked of a training dataset."""

    def __init__(self, n_rows: int, n_items: int, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.n_items = n_items
        length = torch.randint(1, 6, (n_rows,), generator=generator)
        item_seq = torch.randint(1, n_items, (n_rows, 5), generator=generator)
        item_seq[torch.arange(5) >= length[:, None]] = 0
        target = torch.randint(1, n_items, (n_rows,), generator=generator)
        self.inter_feat = Interaction(
            {"item_id": target, "item_id_list": item_seq, "item_length": length}
        )

    def num(self, field: str) -> int:
        return self.n_items


def as_tuples(item_seq: torch.Tensor, length: torch.Tensor) -> list[tuple[int, ...]]:
    return [tuple(row[:n]) for row, n in zip(item_seq.tolist(), length.tolist())]


def possible(rows: Any, row: int) -> set[tuple[int, ...]]:
    """By search: the other rows with the target of this one, or itself if there is none."""
    feat = rows.inter_feat
    sequences = as_tuples(feat["item_id_list"], feat["item_length"])
    targets = feat["item_id"].tolist()
    others = {
        sequence
        for other, sequence in enumerate(sequences)
        if other != row and targets[other] == targets[row]
    }
    return others or {sequences[row]}


@settings(deadline=None, max_examples=30)
@given(n_rows=st.integers(1, 30), n_items=st.integers(2, 12), seed=st.integers(0, 1000))
def test_draws_are_other_rows_with_the_same_target(n_rows, n_items, seed) -> None:
    rows = Rows(n_rows, n_items, seed)
    feat = rows.inter_feat
    same_target = SameTarget(rows, **FIELDS)
    for width in (5, 3):  # the batch may be padded less than the data
        fits = (feat["item_length"] <= width).nonzero().squeeze(1)
        if not len(fits):
            continue
        drawn = same_target.draw(
            feat["item_id"][fits], feat["item_id_list"][fits, :width], feat["item_length"][fits]
        )
        for row, sequence in zip(fits.tolist(), as_tuples(*drawn)):
            assert sequence in possible(rows, row)


def test_all_others_are_equally_likely() -> None:
    rows = Rows(6, 30, 0)
    rows.inter_feat.interaction["item_id"][:4] = 7
    feat = rows.inter_feat[torch.zeros(6000, dtype=torch.long)]
    torch.manual_seed(0)
    drawn = SameTarget(rows, **FIELDS).draw(*(feat[field] for field in FIELDS.values()))
    counts = Counter(as_tuples(*drawn))
    assert set(counts) == possible(rows, 0)
    assert len(counts) == 3
    assert all(1850 < count < 2150 for count in counts.values())


@pytest.mark.parametrize("positions", ["all", "last"])
def test_on_the_packages_dataset(positions: str) -> None:
    config = ResidualConfig(
        "DuoRecResidual", "ml-100k", config_dict={**SMALL, "loss_positions": positions}
    )
    train_data = data_preparation(config, create_dataset(config)).train
    rows = train_data._dataset
    same_target = SameTarget(rows, **FIELDS)
    batch = next(iter(train_data))
    if positions == "all":
        last = batch["item_length"].unsqueeze(1) - 1
        target = batch["target_item_id_list"].gather(1, last).squeeze(1)
    else:
        target = batch["item_id"]
    drawn = same_target.draw(target, batch["item_id_list"], batch["item_length"])
    targets = rows.inter_feat["item_id"]
    sequences = as_tuples(rows.inter_feat["item_id_list"], rows.inter_feat["item_length"])
    given_rows = as_tuples(batch["item_id_list"], batch["item_length"])
    n_others = 0
    for item, own, sequence in zip(target.tolist(), given_rows, as_tuples(*drawn)):
        matching = [sequences[row] for row in (targets == item).nonzero().squeeze(1).tolist()]
        assert own in matching
        assert sequence in matching
        assert len(matching) == 1 or sequence != own
        n_others += len(matching) > 1
    assert n_others > 3
