"""Settings of the data that cannot be used, told before a file is opened."""

from __future__ import annotations

import pytest
from recbole.model.general_recommender import BPR

from recbole_residual.data import check_settings
from recbole_residual.errors import DataError


def split(value, **others):
    return {"eval_args": {"split": value, "order": "TO", "mode": "full", **others}}


def test_what_is_usable(make_config):
    for value in ({"GT": [0.9]}, {"GT": [0.9, 0.5]}, {"LS": "test_only"}, {"RS": [8, 1, 1]}):
        check_settings(make_config(**split(value)))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (split({"GT": [1.5]}), "GT"),
        (split({"GT": []}), "GT"),
        (split({"GT": [0.9]}, order="RO"), "order: TO"),
        (split({"LS": "valid_and_test"}, order="RO"), "order: TO"),
        (split({"LS": "last"}), "valid_and_test"),
        (split({"RS": [0.8, 0.2]}), "three numbers"),
        (split({"RS": 0.8}), "three numbers"),
        (split({"TS": [0, 1, 1]}), "three numbers"),
        (split({"XS": [0.8]}), "no split 'XS'"),
        (split({"RS": [8, 1, 1], "LS": "test_only"}), "more than one"),
        ({**split({"LS": "test_only"}, mode="uni10"), "filter_seen": True}, "full ranking"),
        ({"field_separator": ""}, "field_separator"),
        ({"seq_separator": 5}, "seq_separator"),
        ({"encoding": "utf9"}, "encoding"),
        ({"user_inter_num_interval": 5}, r"\[5,inf\)"),
        ({"load_col": {"itme": ["item_id"]}}, "itme"),
        ({"load_col": ["item_id"]}, "load_col"),
    ],
)
def test_what_is_not(make_config, values, message):
    with pytest.raises(DataError, match=message):
        check_settings(make_config(**values))


def test_a_temporal_split_is_for_sequences(make_config):
    negatives = {"distribution": "uniform", "sample_num": 1, "alpha": 1.0}
    config = make_config(model=BPR, train_neg_sample_args=negatives, **split({"GT": [0.9]}))
    with pytest.raises(DataError, match="sequential models"):
        check_settings(config)
