"""Settings of the data that cannot be used."""

from __future__ import annotations

import pytest

from recbole_residual.data.settings import check_filter_seen, check_load_col, check_split
from recbole_residual.errors import DataError


def eval_args(split, order="TO"):
    return {"split": split, "order": order, "mode": "full"}


def test_what_is_usable():
    for split in ({"GT": [0.9]}, {"GT": [0.9, 0.5]}, {"LS": "test_only"}, {"RS": [8, 1, 1]}):
        check_split(eval_args(split))
    check_split(eval_args({"RS": [8, 1, 1]}, "RO"), sequential=False)
    check_filter_seen("full", "valid")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (eval_args({"GT": [1.5]}), "GT"),
        (eval_args({"GT": []}), "GT"),
        (eval_args({"GT": [0.9]}, "RO"), "order: TO"),
        (eval_args({"LS": "valid_and_test"}, "RO"), "order: TO"),
        (eval_args({"LS": "last"}), "valid_and_test"),
        (eval_args({"RS": [0.8, 0.2]}), "three numbers"),
        (eval_args({"RS": 0.8}), "three numbers"),
        (eval_args({"TS": [0, 1, 1]}), "three numbers"),
        (eval_args({"XS": [0.8]}), "no split 'XS'"),
        (eval_args({"RS": [8, 1, 1], "LS": "test_only"}), "more than one"),
        (eval_args(None), "names no split"),
        ("full", "names no split"),
    ],
)
def test_splits_that_cannot_be_made(value, message):
    with pytest.raises(DataError, match=message):
        check_split(value)


def test_a_temporal_split_is_for_sequences():
    with pytest.raises(DataError, match="sequential models"):
        check_split(eval_args({"GT": [0.9]}), sequential=False)


def test_seen_items_need_full_ranking():
    with pytest.raises(DataError, match="full ranking"):
        check_filter_seen("uni10", "test")


@pytest.mark.parametrize("load_col", [{"itme": ["item_id"]}, ["item_id"], "item_id"])
def test_files_that_no_dataset_has(load_col):
    keys = {"load_col": load_col, "unload_col": None, "additional_feat_suffix": None}
    with pytest.raises(DataError, match="load_col"):
        check_load_col(keys)
    check_load_col({**keys, "load_col": {"emb": ["x"]}, "additional_feat_suffix": ["emb"]})
