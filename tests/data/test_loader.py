"""Batches of whole sequences: every target once, the same batches for the same seed."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from recbole_residual.data import create_dataset, data_preparation
from recbole_residual.data.loader import Windows
from recbole_residual.model.sasrec_residual import SASRecResidual
from recbole_residual.model.set_rec import SetRec
from tests.data.conftest import random_inter, write_inter


def slow_windows(positions, max_length, latest):
    """Per user: inputs are all positions but the last target's; cut from the end."""
    sequences = []
    for position in sorted(positions):
        if sequences and sequences[-1][-1] == position - 1:
            sequences[-1].append(position)
        else:
            sequences.append([position])
    windows = []
    for targets in sequences:
        own = []
        while targets:
            own.insert(0, targets[-max_length:])
            targets = targets[:-max_length]
        windows += own[-1:] if latest else own
    return [(window[0] - 1, len(window)) for window in windows]


@settings(deadline=None, max_examples=200)
@given(
    st.lists(st.integers(1, 9), max_size=8),
    st.integers(1, 5),
    st.sampled_from(["window", "latest"]),
)
def test_windows_are_the_slow_ones(targets_per_user, max_length, long_sequences):
    positions, at = [], 0
    for n in targets_per_user:
        positions += range(at + 1, at + 1 + n)
        at += n + 2  # first interaction and a held-out last one
    windows = Windows(np.array(positions, dtype=int), max_length, long_sequences)
    expected = slow_windows(positions, max_length, long_sequences == "latest")
    starts, lengths = windows.cut(np.zeros_like(windows.room))
    assert list(zip(starts.tolist(), lengths.tolist())) == expected
    assert len(windows) == len(expected)


@settings(deadline=None, max_examples=200)
@given(st.lists(st.integers(1, 13), max_size=6), st.integers(1, 5), st.data())
def test_moved_cuts_keep_every_target_once_and_whole_what_fits(targets, max_length, data):
    positions, at = [], 0
    for n in targets:
        positions += range(at + 1, at + 1 + n)
        at += n + 2
    windows = Windows(np.array(positions, dtype=int), max_length, "window")
    shift = np.array([data.draw(st.integers(0, room)) for room in windows.room.tolist()], dtype=int)
    starts, lengths = (part.tolist() for part in windows.cut(shift))
    assert [p for s, n in zip(starts, lengths) for p in range(s + 1, s + 1 + n)] == positions
    assert all(1 <= n <= max_length for n in lengths)
    assert len(windows) == sum(-(-n // max_length) for n in targets)


@pytest.fixture
def loaders(tmp_path, make_config):
    write_inter(tmp_path, "tiny", random_inter(seed=5, users=23, rows=500))

    def make(**values):
        config = make_config(**{"loss_positions": "all", **values})
        return data_preparation(config, create_dataset(config))

    return make


def as_lists(batch):
    return {name: values.tolist() for name, values in batch.interaction.items()}


def pairs(train):
    """(user, history in the window, target) of every target that a loader yields."""
    found = []
    for batch in train:
        rows = zip(
            batch["user_id"].tolist(),
            batch["item_id_list"].tolist(),
            batch["item_length"].tolist(),
            batch["target_item_id_list"].tolist(),
        )
        for user, items, length, targets in rows:
            assert items[length:] == targets[length:] == [0] * (len(items) - length)
            assert 0 not in items[:length] + targets[:length]
            assert items[1:length] == targets[: length - 1]
            found += [(user, tuple(items[: i + 1]), targets[i]) for i in range(length)]
    return found


def test_every_training_target_has_its_loss_once(loaders):
    train, _, _ = loaders(MAX_ITEM_LIST_LENGTH=6, train_batch_size=7)
    rows = train.dataset.inter_feat
    expected = Counter(zip(rows["user_id"].tolist(), rows["item_id"].tolist()))
    found = pairs(train)
    assert Counter((user, target) for user, _, target in found) == expected
    assert sum(len(batch["user_id"]) for batch in train) == train.sample_size
    assert len(train) == -(-train.sample_size // 7)


def test_windows_and_rows_agree_on_sequences_that_fit(loaders):
    train, _, _ = loaders(MAX_ITEM_LIST_LENGTH=100)
    rows = train.dataset.inter_feat
    expected = Counter()
    for user, items, length, target in zip(
        rows["user_id"].tolist(),
        rows["item_id_list"].tolist(),
        rows["item_length"].tolist(),
        rows["item_id"].tolist(),
    ):
        expected[user, tuple(items[:length]), target] += 1
    assert Counter(pairs(train)) == expected


def test_latest_keeps_the_last_window_of_every_user(loaders):
    train, _, _ = loaders(MAX_ITEM_LIST_LENGTH=5, long_sequences="latest")
    rows = train.dataset.inter_feat
    assert train.sample_size == len(set(rows["user_id"].tolist()))
    last = {}
    for user, items, target in pairs(train):
        last[user] = (items, target)  # the longest history comes last in a window
    positions = rows.positions.numpy()
    for user in last:
        own = positions[rows["user_id"].numpy() == user]
        items = train.dataset.sequences.at("item_id", torch.arange(own.max() - 5, own.max() + 1))
        items = items[max(0, 5 - len(own)) :].tolist()
        assert last[user] == (tuple(items[:-1]), items[-1])


def test_cuts_move_from_epoch_to_epoch(loaders):
    train, _, _ = loaders(MAX_ITEM_LIST_LENGTH=4)
    assert set(pairs(train)) != set(pairs(train))
    kept, _, _ = loaders(MAX_ITEM_LIST_LENGTH=4, shuffle=False)
    assert pairs(kept) == pairs(kept)
    latest, _, _ = loaders(MAX_ITEM_LIST_LENGTH=4, long_sequences="latest")
    assert set(pairs(latest)) == set(pairs(latest))


def test_the_seed_decides_and_the_generator_resumes(loaders):
    first = loaders()[0]
    epochs = [[as_lists(batch) for batch in first] for _ in range(3)]
    assert epochs[0] != epochs[1]
    again = loaders()[0]
    assert [as_lists(batch) for batch in again] == epochs[0]
    state = again.generator.get_state()
    resumed = loaders()[0]
    resumed.generator.set_state(state)
    assert [as_lists(batch) for batch in resumed] == epochs[1]
    assert [as_lists(batch) for batch in loaders(seed=1)[0]] != epochs[0]


def test_without_shuffling_the_order_is_that_of_the_users(loaders):
    users = [u for batch in loaders(shuffle=False)[0] for u in batch["user_id"].tolist()]
    assert users == sorted(users)


def test_batches_are_trimmed_and_of_like_lengths(loaders):
    train, _, _ = loaders(MAX_ITEM_LIST_LENGTH=30, train_batch_size=4)
    batches = list(train)
    assert all(batch["item_id_list"].shape[1] == batch["item_length"].max() for batch in batches)
    padding = sum((batch["item_id_list"] == 0).sum().item() for batch in batches)
    spread = train._lengths.max().item() * train.sample_size - train._lengths.sum().item()
    assert padding < spread / 3


@pytest.mark.parametrize("distribution", ["uniform", "popularity"])
def test_negatives_of_bpr(loaders, distribution):
    train, _, _ = loaders(
        loss_type="BPR",
        train_neg_sample_args={"distribution": distribution, "sample_num": 50, "alpha": 1.0},
    )
    drawn = Counter()
    n_items = train.dataset.item_num
    for batch in train:
        targets, negatives = batch["target_item_id_list"], batch["neg_item_id_list"]
        assert negatives.shape == (*targets.shape, 50)
        assert negatives.min() >= 1
        assert negatives.max() < n_items
        assert not (negatives == targets.unsqueeze(-1)).any()
        drawn.update(negatives[targets > 0].flatten().tolist())
    assert set(drawn) == set(range(1, n_items))
    items = train.dataset.sequences.at("item_id", torch.arange(len(train.dataset.sequences)))
    counts = torch.bincount(items, minlength=n_items)[1:].double()
    share = torch.tensor([drawn[i] for i in range(1, n_items)]).double()
    target_share = torch.bincount(train.dataset.inter_feat["item_id"], minlength=n_items)[1:]
    target_share = target_share.double() / target_share.sum()
    weight = torch.ones_like(counts) if distribution == "uniform" else counts
    # exactly: for each target the others in proportion to their weight
    expected = sum(
        p * torch.where(torch.arange(len(weight)) == t, 0.0, weight) / (weight.sum() - weight[t])
        for t, p in enumerate(target_share)
    )
    assert torch.allclose(share / share.sum(), expected, atol=0.01)


def test_settings_that_make_no_sense(loaders):
    with pytest.raises(ValueError, match="long_sequences = 'newest'"):
        loaders(long_sequences="newest")
    with pytest.raises(ValueError, match="loss_positions = 'both'"):
        loaders(loss_positions="both")
    with pytest.raises(ValueError, match="dynamic"):
        loaders(
            loss_type="BPR",
            train_neg_sample_args={
                "distribution": "uniform",
                "sample_num": 1,
                "alpha": 1.0,
                "dynamic": True,
                "candidate_num": 2,
            },
        )


def test_seen_items_leave_the_ranking(loaders):
    _, plain, _ = loaders(MAX_ITEM_LIST_LENGTH=4)
    assert all(history is None for _, history, _, _ in plain)
    _, valid, _ = loaders(MAX_ITEM_LIST_LENGTH=4, filter_seen=True, eval_batch_size=5)
    sequences = valid.dataset.sequences
    row = 0
    for interaction, (users, items), positive_u, positive_i in valid:
        assert positive_u.tolist() == list(range(len(interaction)))
        assert positive_i.tolist() == interaction["item_id"].tolist()
        for i in range(len(interaction)):
            position = int(valid.dataset.inter_feat.positions[row])
            before = torch.arange(int(sequences.first[position]), position)
            # the whole history, also what the input window has cut off
            assert items[users == i].tolist() == sequences.at("item_id", before).tolist()
            row += 1
    assert row == len(valid.dataset)
    with pytest.raises(ValueError, match="uni100"):
        loaders(
            filter_seen=True,
            eval_args={"mode": "uni100", "order": "TO", "split": {"LS": "valid_and_test"}},
        )


@pytest.mark.parametrize("loss_positions", ["all", "last"])
def test_ratings_stand_beside_their_items_for_a_model_that_reads_them(loaders, loss_positions):
    columns = {"load_col": {"inter": ["user_id", "item_id", "timestamp"]}, "seed": 1}
    told = {**columns, "model": SetRec, "loss_positions": loss_positions, "loss_type": "CE"}
    train, valid, _ = loaders(**told)
    sequences = train.dataset.sequences
    rated = list(
        zip(
            sequences.at("user_id", torch.arange(len(sequences))).tolist(),
            sequences.at("item_id", torch.arange(len(sequences))).tolist(),
            sequences.at("rating", torch.arange(len(sequences))).tolist(),
        )
    )
    assert len({rating for _, _, rating in rated}) == 5
    for batch in [*train, *(rows for rows, *_ in valid)]:
        ratings, items = batch["rating_list"], batch["item_id_list"]
        assert ratings.shape == items.shape
        for user, item_row, rating_row, length in zip(
            batch["user_id"].tolist(), items.tolist(), ratings.tolist(), batch["item_length"]
        ):
            own = [(item, rating) for owner, item, rating in rated if owner == user]
            shown = list(zip(item_row, rating_row))[:length]
            assert shown in [own[at : at + length] for at in range(len(own))]
            assert not any(rating_row[length:])

    for without in (
        {"ratings": "off"},
        {"model": SASRecResidual},
        {"load_col": None, "unload_col": {"inter": ["rating"]}},
    ):
        train, *_ = loaders(**{**told, **without})
        assert "rating_list" not in next(iter(train))
        assert "rating" not in train.dataset.sequences.fields
