"""With ``loss_positions: last`` everything is RecBole's: rows, order, batches, losses."""

from __future__ import annotations

import pandas as pd
import pytest
import recbole.data
import torch
from recbole.data.dataset import SequentialDataset
from recbole.model.sequential_recommender import SASRec
from recbole.trainer import Trainer
from recbole.utils import init_seed

from recbole_residual.data import SequenceDataset, create_dataset, data_preparation
from tests.data.conftest import random_inter, write_inter

SPLITS = [
    {"LS": "valid_and_test"},
    {"LS": "valid_only"},
    {"LS": "test_only"},
    {"RS": [0.7, 0.2, 0.1]},
    {"TS": [0.8, 0.1, 0.1]},
]


def assert_same_rows(ours, theirs):
    assert len(ours) == len(theirs)
    written = ours.materialize().interaction
    assert list(written) == list(theirs.interaction)
    for name, values in theirs.interaction.items():
        assert written[name].dtype == values.dtype, name
        assert torch.equal(written[name], values), name


@pytest.mark.parametrize("split", SPLITS, ids=str)
@pytest.mark.parametrize("normalize", [True, None])
def test_rows_and_splits_are_recboles(tmp_path, make_config, split, normalize):
    write_inter(tmp_path, "tiny", random_inter(seed=1))
    config = make_config(
        loss_positions="last",
        normalize_all=normalize,
        eval_args={"split": split, "order": "TO", "mode": "full"},
        user_inter_num_interval="[4,inf)",
        item_inter_num_interval="[3,inf)",
        unused_col={"inter": ["rating"]},
    )
    ours, theirs = SequenceDataset(config), SequentialDataset(config)
    for field in ("user_id", "item_id"):
        assert ours.field2id_token[field].tolist() == theirs.field2id_token[field].tolist()
        assert ours.field2token_id[field] == theirs.field2token_id[field]
    for our_part, their_part in zip(ours.build(), theirs.build()):
        assert_same_rows(our_part.inter_feat, their_part.inter_feat)
        assert our_part.item_counter == their_part.item_counter
        assert (our_part.inter_matrix() != their_part.inter_matrix()).nnz == 0
    assert ours.field2type == theirs.field2type
    assert ours.field2seqlen == theirs.field2seqlen


def test_interactions_with_features_and_missing_values(tmp_path, make_config):
    frame = random_inter(seed=2)
    frame["genre"] = ["g1", "g2", "g3"] * 100
    frame.loc[::7, "genre"] = None
    frame.loc[::5, "rating"] = None
    frame.loc[3, "item_id"] = None
    write_inter(tmp_path, "tiny", frame)
    pd.DataFrame(
        {
            "item_id:token": [f"i{i}" for i in range(12)],
            "colour:token": ["red", "blue", None] * 4,
            "words:token_seq": ["a b", "c", "a c d"] * 4,
            "price:float": [1.5, None, 3.0] * 4,
        }
    ).to_csv(tmp_path / "tiny" / "tiny.item", sep="\t", index=False)
    config = make_config(
        loss_positions="last",
        normalize_all=True,
        load_col={
            "inter": ["user_id", "item_id", "rating", "timestamp", "genre"],
            "item": ["item_id", "colour", "words", "price"],
        },
        item_inter_num_interval="[5,inf)",
    )
    ours, theirs = SequenceDataset(config), SequentialDataset(config)
    assert ours.field2id_token.keys() == theirs.field2id_token.keys()
    for field, tokens in theirs.field2id_token.items():
        assert ours.field2id_token[field].tolist() == tokens.tolist()
    for our_part, their_part in zip(ours.build(), theirs.build()):
        assert_same_rows(our_part.inter_feat, their_part.inter_feat)
        joined, expected = our_part[[0, 5, 2]], their_part[[0, 5, 2]]
        for name in expected.interaction:
            assert torch.equal(joined[name], expected[name]), name


def test_sequences_as_a_column_of_the_interactions(tmp_path, make_config):
    frame = random_inter(seed=21)
    frame["tags"] = ["a b c", "b", "c a"] * 100
    write_inter(tmp_path, "tiny", frame)
    path = tmp_path / "tiny" / "tiny.inter"
    path.write_text(path.read_text().replace("tags:token", "tags:token_seq", 1))
    columns = ["user_id", "item_id", "timestamp", "tags"]
    config = make_config(loss_positions="last", load_col={"inter": columns})
    ours, theirs = SequenceDataset(config), SequentialDataset(config)
    for our_part, their_part in zip(ours.build(), theirs.build()):
        assert_same_rows(our_part.inter_feat, their_part.inter_feat)


def test_rows_index_like_an_interaction(tmp_path, make_config):
    write_inter(tmp_path, "tiny", random_inter(seed=3))
    config = make_config(loss_positions="last")
    ours, theirs = SequenceDataset(config), SequentialDataset(config)
    ours._change_feat_format()
    theirs._change_feat_format()
    rows, expected = ours.inter_feat, theirs.inter_feat
    for index in ([3, 1], slice(2, 9), range(4), torch.tensor([5, 5]), []):
        assert_same_rows(rows[index], expected[index])
    assert all(torch.equal(rows[4][name], expected[4][name]) for name in rows)
    rows["label"] = expected["label"] = torch.arange(len(rows))
    rows.sort(by=["timestamp", "item_id"], ascending=True)
    expected.sort(by=["timestamp", "item_id"], ascending=True)
    assert_same_rows(rows, expected)
    rows.drop("rating")
    expected.drop("rating")
    assert_same_rows(rows, expected)


@pytest.mark.parametrize("mode", ["full", "uni10"])
def test_two_epochs_give_recboles_numbers(tmp_path, make_config, mode):
    write_inter(tmp_path, "tiny", random_inter(seed=4))
    results = []
    for module in (recbole.data, None):
        config = make_config(
            model=SASRec,
            loss_positions="last",
            eval_args={"mode": mode, "order": "TO", "split": {"LS": "valid_and_test"}},
        )
        init_seed(7, True)
        make_dataset = module.create_dataset if module else create_dataset
        prepare = module.data_preparation if module else data_preparation
        train, valid, test = prepare(config, make_dataset(config))
        init_seed(7, True)
        trainer = Trainer(config, SASRec(config, train.dataset))
        losses = [trainer._train_epoch(train, epoch) for epoch in range(2)]
        metrics = [trainer.evaluate(part, load_best_model=False) for part in (valid, test)]
        results.append((losses, metrics))
    assert results[0] == results[1]
