"""SequenceDataset beyond what RecBole does: exact order, repeats, the temporal split, errors."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from recbole_residual.data import SequenceDataset, create_dataset, data_preparation
from recbole_residual.errors import AtomicFileError
from tests.data.conftest import random_inter, write_inter


def sequences_by_token(dataset):
    """user token -> item tokens in the order of the built dataset."""
    sequences = dataset.sequences
    users = dataset.id2token("user_id", sequences.fields["user_id"].numpy())
    items = dataset.id2token("item_id", sequences.fields["item_id"].numpy())
    return pd.Series(items).groupby(users).agg(list).to_dict()


def expected_sequences(frame):
    return frame.sort_values("timestamp", kind="stable").groupby("user_id").item_id.agg(list)


def test_ties_in_time_keep_the_order_of_the_file(tmp_path, make_config):
    frame = random_inter(seed=6, times=3)  # about 7 rows of every user share each time
    write_inter(tmp_path, "tiny", frame)
    dataset = SequenceDataset(make_config())
    dataset.build()
    assert sequences_by_token(dataset) == expected_sequences(frame).to_dict()


def test_times_closer_than_float32_can_tell(tmp_path, make_config):
    frame = random_inter(seed=7, times=1)
    frame["timestamp"] += np.random.default_rng(0).permutation(len(frame))  # one second apart
    assert frame.timestamp.astype(np.float32).nunique() < frame.timestamp.nunique() / 10
    write_inter(tmp_path, "tiny", frame)
    exact = SequenceDataset(make_config(loss_positions="all"))
    exact.build()
    assert sequences_by_token(exact) == expected_sequences(frame).to_dict()
    as_recbole = SequenceDataset(make_config(loss_positions="last"))
    as_recbole.build()
    assert sequences_by_token(as_recbole) != expected_sequences(frame).to_dict()
    temporal = {"split": {"GT": [0.9, 0.9]}, "order": "TO", "mode": "full"}
    exact = SequenceDataset(make_config(loss_positions="last", eval_args=temporal))
    exact.build()
    assert sequences_by_token(exact) == expected_sequences(frame).to_dict()


@pytest.mark.parametrize("repeats", [True, False])
def test_filters_run_until_stable(tmp_path, make_config, repeats):
    frame = random_inter(seed=8, users=60, items=40, rows=400)
    write_inter(tmp_path, "tiny", frame)
    config = make_config(
        remove_consecutive_repeats=repeats,
        user_inter_num_interval="[5,inf)",
        item_inter_num_interval="[5,inf)",
    )
    slow = frame.sort_values(["user_id", "timestamp"], kind="stable")
    while True:
        before = len(slow)
        if repeats:
            same = (slow.user_id == slow.user_id.shift()) & (slow.item_id == slow.item_id.shift())
            slow = slow[~same]
        slow = slow[slow.groupby("user_id").item_id.transform("size") >= 5]
        slow = slow[slow.groupby("item_id").user_id.transform("size") >= 5]
        if len(slow) == before:
            break
    dataset = create_dataset(config)
    statistics = dataset.statistics
    assert (statistics.users, statistics.items, statistics.interactions) == (
        slow.user_id.nunique(),
        slow.item_id.nunique(),
        len(slow),
    )
    assert statistics.days == pytest.approx(np.ptp(slow.timestamp) / 86400)
    dataset.build()
    assert sequences_by_token(dataset) == slow.groupby("user_id").item_id.agg(list).to_dict()


def test_ids_follow_the_first_appearance_in_the_filtered_file(tmp_path, make_config):
    frame = random_inter(seed=9, users=60)
    write_inter(tmp_path, "tiny", frame)
    dataset = SequenceDataset(make_config(user_inter_num_interval="[6,inf)"))
    kept = frame[frame.groupby("user_id").item_id.transform("size") >= 6]
    assert dataset.field2id_token["item_id"].tolist() == ["[PAD]", *kept.item_id.unique()]
    assert dataset.field2id_token["user_id"].tolist() == ["[PAD]", *kept.user_id.unique()]


@pytest.mark.parametrize("keep", ["first", "last"])
def test_duplicates_go_in_the_order_of_time_and_file(tmp_path, make_config, keep):
    frame = random_inter(seed=10, times=2)
    write_inter(tmp_path, "tiny", frame)
    dataset = SequenceDataset(make_config(rm_dup_inter=keep))
    dataset.build()
    kept = frame.sort_values("timestamp", kind="stable").drop_duplicates(
        ["user_id", "item_id"], keep=keep
    )
    assert sequences_by_token(dataset) == expected_sequences(kept).to_dict()


def test_temporal_split_end_to_end(tmp_path, make_config):
    frame = random_inter(seed=11, users=40, rows=400, times=200)
    write_inter(tmp_path, "tiny", frame)
    temporal = {"split": {"GT": [0.9, 0.9]}, "order": "TO", "mode": "full"}
    config = make_config(eval_args=temporal)
    dataset = create_dataset(config)
    train, valid, test = data_preparation(config, dataset)
    frame = frame.sort_values(["user_id", "timestamp"], kind="stable")
    cut = frame.timestamp.quantile(0.9)
    groups = {user: rows for user, rows in frame.groupby("user_id") if len(rows) > 1}
    expected = {
        user: (rows.item_id.tolist()[:-1][-8:], rows.item_id.iloc[-1])
        for user, rows in groups.items()
        if rows.timestamp.iloc[-1] > cut
    }
    rows = test.dataset.inter_feat
    found = {
        user: (dataset.id2token("item_id", items[:length]).tolist(), target)
        for user, items, length, target in zip(
            dataset.id2token("user_id", rows["user_id"].numpy()),
            rows["item_id_list"].numpy(),
            rows["item_length"].numpy(),
            dataset.id2token("item_id", rows["item_id"].numpy()),
        )
    }
    assert found == expected
    seen = {item for batch in train for item in batch["item_id_list"].flatten().tolist()}
    seen |= {item for batch in train for item in batch["target_item_id_list"].flatten().tolist()}
    from recbole_residual.data import split_statistics

    statistics = split_statistics(train.dataset, valid.dataset, test.dataset)
    assert statistics.test_users == len(expected)
    assert statistics.test_cold_targets == sum(i not in seen for i in rows["item_id"].tolist())
    assert statistics.valid_users == len(valid.dataset)


def test_a_temporal_split_without_validation(tmp_path, make_config):
    write_inter(tmp_path, "tiny", random_inter(seed=12))
    temporal = {"split": {"GT": [0.8]}, "order": "TO", "mode": "full"}
    config = make_config(eval_args=temporal)
    loaders = data_preparation(config, create_dataset(config))
    assert len(loaders.valid) == 0
    assert len(loaders.train) > 0
    assert len(loaders.test) > 0


@pytest.mark.parametrize(
    ("eval_args", "message"),
    [
        ({"split": {"GT": [0.9]}, "order": "RO"}, "order: TO"),
        ({"split": {"GT": [0.9], "LS": "test_only"}, "order": "TO"}, "more than one"),
        ({"split": {"GT": 0.9}, "order": "TO"}, "GT"),
    ],
)
def test_unusable_splits(tmp_path, make_config, eval_args, message):
    write_inter(tmp_path, "tiny", random_inter(seed=13))
    dataset = create_dataset(make_config(eval_args={"mode": "full", **eval_args}))
    with pytest.raises(ValueError, match=message):
        dataset.build()


def test_a_missing_time_is_an_error(tmp_path, make_config):
    frame = random_inter(seed=14)
    frame.loc[5, "timestamp"] = None
    write_inter(tmp_path, "tiny", frame)
    with pytest.raises(AtomicFileError, match=r"tiny.inter.*timestamp.*line 7"):
        create_dataset(make_config())


def test_a_column_that_is_not_loaded(tmp_path, make_config):
    write_inter(tmp_path, "tiny", random_inter(seed=15))
    with pytest.raises(AtomicFileError, match=r"no column 'timestamp'.*TIME_FIELD"):
        create_dataset(make_config(load_col={"inter": ["user_id", "item_id"]}))
    with pytest.raises(AtomicFileError, match=r"no column 'clock'.*user_id, item_id, rating"):
        create_dataset(make_config(TIME_FIELD="clock"))


def test_filters_that_leave_nothing(tmp_path, make_config):
    write_inter(tmp_path, "tiny", random_inter(seed=16))
    with pytest.raises(ValueError, match="empty"):
        create_dataset(make_config(user_inter_num_interval="[1000,inf)"))
