"""RecBole's own datasets, with files read to the letter."""

from __future__ import annotations

import pickle

import pytest
import recbole.data
import torch
from recbole.data.dataset import Dataset, SequentialDataset
from recbole.model.general_recommender import BPR
from recbole.model.sequential_recommender import DIEN
from recbole.utils import ModelType

from recbole_residual.data import create_dataset, data_preparation
from recbole_residual.data.recbole_datasets import own_dataset_of, recbole_dataset
from tests.data.conftest import random_inter, write_inter

NEGATIVES = {"distribution": "uniform", "sample_num": 1, "alpha": 1.0}


class MyDIEN(DIEN):
    """A user's own subclass of a model that RecBole has a dataset for."""


def test_which_class_it_is():
    assert own_dataset_of(MyDIEN) == "DIENDataset"
    assert own_dataset_of(BPR) is None
    assert issubclass(recbole_dataset(BPR, ModelType.GENERAL), Dataset)
    assert issubclass(recbole_dataset(MyDIEN, ModelType.SEQUENTIAL), SequentialDataset)


@pytest.mark.parametrize("model", [BPR, DIEN])
def test_the_same_dataset_as_recboles(tmp_path, make_config, model):
    frame = random_inter(seed=50)
    frame.loc[::9, "rating"] = None
    write_inter(tmp_path, "tiny", frame)
    config = make_config(
        model=model,
        train_neg_sample_args=NEGATIVES if model is BPR else None,
        item_inter_num_interval="[5,inf)",
        embedding_size=8,
        metrics=["Recall"],
    )
    ours, theirs = create_dataset(config), recbole.data.create_dataset(config)
    for field, tokens in theirs.field2id_token.items():
        assert ours.field2id_token[field].tolist() == tokens.tolist()
    assert ours.field2type == theirs.field2type
    assert ours.field2seqlen == theirs.field2seqlen
    parts = []
    for dataset in (ours, theirs):
        torch.manual_seed(0)  # RecBole shuffles the rows of general models
        parts.append(dataset.build())
    for our_part, their_part in zip(*parts):
        rows, expected = our_part.inter_feat.interaction, their_part.inter_feat.interaction
        assert list(rows) == list(expected)
        random = [name for name in expected if name.startswith("neg_")]
        for name in set(expected) - set(random):
            assert rows[name].dtype == expected[name].dtype
            assert rows[name].tolist() == expected[name].tolist(), name


@pytest.mark.parametrize("values", [{}, {"model": BPR, "train_neg_sample_args": NEGATIVES}])
def test_loaders_can_be_sent_to_a_worker_that_was_not_forked(tmp_path, make_config, values):
    write_inter(tmp_path, "tiny", random_inter(seed=51))
    config = make_config(**values)
    train = data_preparation(config, create_dataset(config)).train
    collate = pickle.loads(pickle.dumps(train.collate_fn))
    assert len(collate([0, 1, 2])) == 3
