"""Parts without rows, negatives that there are not, and the same batches for any worker."""

from __future__ import annotations

import logging

import numpy as np
import pandas as pd
import pytest
import torch
from recbole.model.general_recommender import BPR
from recbole.model.sequential_recommender import BERT4Rec, SASRec
from recbole.trainer import Trainer
from recbole.utils import init_seed

from recbole_residual.data import create_dataset, data_preparation
from recbole_residual.errors import DataError
from tests.data.conftest import random_inter, write_inter

UNIFORM = {"distribution": "uniform", "sample_num": 1, "alpha": 1.0}
POPULAR = {"distribution": "popularity", "sample_num": 1, "alpha": 1.0}
PAIRS = {"loss_type": "BPR", "train_neg_sample_args": UNIFORM}


def frame_of(lengths, times=None):
    """Users with so many interactions each, over seven items, one second apart."""
    users = np.repeat(np.arange(len(lengths)), lengths)
    stamps = 1.5e9 + np.arange(len(users)) if times is None else times
    items = [f"i{i * 3 % 7}" for i in range(len(users))]
    return pd.DataFrame(
        {"user_id": [f"u{u}" for u in users], "item_id": items, "rating": 1, "timestamp": stamps}
    )


def eval_args(split, mode="full"):
    return {"eval_args": {"split": split, "order": "TO", "mode": mode, "group_by": "user"}}


@pytest.fixture
def prepare(tmp_path, make_config):
    def prepare(frame=None, **values):
        write_inter(tmp_path, "tiny", random_inter(seed=40) if frame is None else frame)
        config = make_config(**values)
        return data_preparation(config, create_dataset(config))

    return prepare


@pytest.mark.parametrize("mode", ["full", "uni5"])
@pytest.mark.parametrize(
    "model", [{}, {"loss_positions": "last"}, {"model": BPR, "train_neg_sample_args": UNIFORM}]
)
@pytest.mark.parametrize(
    ("split", "empty"),
    [({"LS": "test_only"}, 1), ({"LS": "valid_only"}, 2), ({"RS": [0.8, 0, 0.2]}, 1)],
)
def test_a_part_without_rows_has_an_empty_loader(prepare, caplog, split, empty, model, mode):
    with caplog.at_level(logging.WARNING):
        loaders = prepare(**model, **eval_args(split, mode), filter_seen=False)
    assert [bool(loader) for loader in loaders] == [i != empty for i in range(3)]
    assert len(loaders[empty]) == len(loaders[empty].dataset) == 0
    assert list(loaders[empty]) == []
    assert "the split leaves no row for" in caplog.text
    assert len(list(loaders[3 - empty])) > 0


@pytest.mark.parametrize("model", [{}, {"model": SASRec}])
@pytest.mark.parametrize(
    ("frame", "split", "counts"),
    [
        (frame_of([2] * 9), {"LS": "valid_and_test"}, "0 rows for validation, 0 .* test.*9 two"),
        (frame_of([2] * 9), {"LS": "test_only"}, "9 rows for training, 0 .*18 interactions"),
        (frame_of([1] * 9), {"LS": "valid_and_test"}, "nothing to train on.*9 users a single"),
        (frame_of([5] * 9, 1.5e9), {"GT": [0.9, 0.9]}, "nothing to evaluate.*at 1 different"),
        (frame_of([5] * 9, 1.5e9), {"GT": [0.9]}, "36 rows for training.*at 1 different"),
        (frame_of([2] * 9), {"RS": [0.8, 0.1, 0.1]}, "nothing to evaluate"),
    ],
)
def test_what_cannot_work_is_refused_with_the_counts(prepare, model, frame, split, counts):
    with pytest.raises(DataError, match=f"tiny: .*{counts}"):
        prepare(frame, **model, **eval_args(split))


ONE_ITEM = frame_of([5] * 9).assign(item_id="i1")


@pytest.mark.parametrize("positions", ["all", "last"])
@pytest.mark.parametrize("negatives", [UNIFORM, POPULAR], ids=["uniform", "popularity"])
def test_a_catalogue_of_one_item_has_no_negatives(prepare, positions, negatives):
    with pytest.raises(DataError, match=r"1 item.*at least two"):
        prepare(
            ONE_ITEM,
            loss_type="BPR",
            train_neg_sample_args=negatives,
            loss_positions=positions,
        )


@pytest.mark.parametrize("mode", ["uni1", "pop1"])
def test_a_catalogue_of_one_item_cannot_be_ranked_by_samples(prepare, mode):
    with pytest.raises(DataError, match=r"1 item.*at least two"):
        prepare(ONE_ITEM, **eval_args({"LS": "valid_and_test"}, mode))


def test_a_single_popular_item(prepare):
    # u0 begins with another item, so there are two items, but one alone is ever a target
    frame = ONE_ITEM.copy()
    frame.loc[0, "item_id"] = "i2"
    values = {"loss_type": "BPR", "train_neg_sample_args": POPULAR}
    assert len(prepare(frame, **values, loss_positions="all").train)  # i2 counts as an item there
    with pytest.raises(DataError, match="all targets together have 1 item"):
        prepare(frame, **values, loss_positions="last")


def test_users_with_every_item(prepare):
    frame = frame_of([30] * 3)
    with pytest.raises(DataError, match="3 of 3 users have all 7 items"):
        prepare(frame, model=BPR, train_neg_sample_args=POPULAR)
    with pytest.raises(DataError, match="interacted with all items"):
        prepare(frame, model=BPR, train_neg_sample_args=UNIFORM)


def test_masking_needs_an_item_that_is_not_there(prepare):
    values = {"model": BERT4Rec, "transform": "mask_itemseq", "mask_ratio": 0.2, "ft_ratio": 0.5}
    with pytest.raises(DataError, match="hold all 7 items"):
        prepare(frame_of([30] * 3), **values)
    assert len(prepare(frame_of([30] * 3), **values, MAX_ITEM_LIST_LENGTH=5).train)


WAYS = {
    "all": {"loss_positions": "all"},
    "all pairs": {"loss_positions": "all", **PAIRS},
    "all popular": {"loss_positions": "all", **PAIRS, "train_neg_sample_args": POPULAR},
    "last": {"loss_positions": "last"},
    "last pairs": {"loss_positions": "last", **PAIRS},
    "sampled": {**eval_args({"LS": "valid_and_test"}, "uni5")},
    "masked": {"model": BERT4Rec, "transform": "mask_itemseq", "mask_ratio": 0.2, "ft_ratio": 0.5},
    "general": {"model": BPR, "train_neg_sample_args": UNIFORM, "embedding_size": 8},
}


def everything(value):
    """A batch as plain lists."""
    if isinstance(value, torch.Tensor):
        return value.tolist()
    if isinstance(value, tuple):
        return [everything(item) for item in value]
    return None if value is None else {k: v.tolist() for k, v in value.interaction.items()}


@pytest.mark.parametrize("way", WAYS)
def test_any_number_of_workers_gives_the_same_batches(prepare, way):
    seen = []
    for worker in (0, 1, 2):
        init_seed(3, True)
        loaders = prepare(worker=worker, **WAYS[way])
        init_seed(4, True)
        seen.append([[everything(batch) for batch in loader] for loader in (*loaders, *loaders)])
    assert seen[0] == seen[1] == seen[2]
    assert len(seen[0][0]) > 2
    epochs = seen[0][0], seen[0][3]
    assert epochs[0] != epochs[1]


def test_batches_of_an_epoch_have_negatives_of_their_own(prepare):
    loader = prepare(worker=2, train_batch_size=4, shuffle=False, **WAYS["all pairs"]).train
    drawn = [batch["neg_item_id_list"][0, :3].flatten().tolist() for batch in loader]
    assert len({tuple(negatives) for negatives in drawn}) > len(drawn) / 2


@pytest.mark.parametrize("way", ["all pairs", "last pairs"])
def test_training_is_the_same(prepare, way):
    network = {"position": "learned", "norm": "post", "residual": "attention"}
    network["attention"] = "learned"
    losses = []
    for worker in (0, 2):
        init_seed(3, True)
        train = prepare(worker=worker, **network, **WAYS[way]).train
        config = train.config
        init_seed(3, True)
        model = config.model_class(config, train.dataset)
        trainer = Trainer(config, model)
        losses.append([trainer._train_epoch(train, epoch) for epoch in range(2)])
    assert losses[0] == losses[1]
