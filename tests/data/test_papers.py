"""The papers' own datasets, where they are at hand: RECBOLE_RESIDUAL_DATA names the folder.

RECBOLE_RESIDUAL_DATA=data pytest tests/data/test_papers.py
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from recbole_residual.config.residual_config import ResidualConfig
from recbole_residual.data import create_dataset, data_preparation, split_statistics

DATA = os.environ.get("RECBOLE_RESIDUAL_DATA")

STATISTICS = {
    "amazon-beauty": (22_363, 12_101, 198_502),
    "amazon-sports-outdoors": (35_598, 18_357, 296_337),
    "amazon-toys-games": (19_412, 11_924, 167_597),
    "amazon-video-games": (24_303, 10_672, 231_780),
    "ml-1m": (6_040, 3_416, 999_611),
}
"""Users, items, interactions after preprocessing (Kozaki et al. 2026, Residual Dominance)."""


def load(dataset):
    if DATA is None or not (Path(DATA) / dataset / f"{dataset}.inter").is_file():
        pytest.skip(f"needs {dataset} in the folder that RECBOLE_RESIDUAL_DATA names")
    settings = {"data_path": DATA, "use_gpu": False, "show_progress": False}
    config = ResidualConfig("SASRecResidual", dataset, config_dict=settings)
    return config, create_dataset(config)


@pytest.mark.parametrize("dataset", STATISTICS)
def test_statistics_are_the_papers(dataset):
    statistics = load(dataset)[1].statistics
    assert (statistics.users, statistics.items, statistics.interactions) == STATISTICS[dataset]


def test_temporal_split_of_ml_1m_is_pandas():
    config, dataset = load("ml-1m")
    parts = [loader.dataset for loader in data_preparation(config, dataset)]
    frame = pd.read_csv(Path(DATA) / "ml-1m" / "ml-1m.inter", sep="\t", dtype=str)
    frame = frame.rename(columns=lambda name: name.split(":")[0])[
        ["user_id", "item_id", "timestamp"]
    ]
    frame["timestamp"] = frame.timestamp.astype(float)
    frame = frame.sort_values(["user_id", "timestamp"], kind="stable")  # 5-core as it comes

    def cut(data, quantile):
        at = data.timestamp.quantile(quantile)
        number = data.groupby("user_id").cumcount()
        second = data.timestamp[number == 1].groupby(data.user_id[number == 1]).first()
        before = data[(data.timestamp <= at) & (data.user_id.map(second) <= at)]
        last = data[(number > 0) & ~data.user_id.duplicated(keep="last")]
        return before, last[last.timestamp > at]

    part, test = cut(frame, config["eval_args"]["split"]["GT"][0])
    train, valid = cut(part, config["eval_args"]["split"]["GT"][1])
    targets = train[train.user_id.duplicated()]

    def tokens(dataset_part):
        rows = dataset_part.inter_feat
        return sorted(
            zip(
                dataset.id2token("user_id", rows["user_id"].numpy()),
                dataset.id2token("item_id", rows["item_id"].numpy()),
                dataset.sequences.time[rows.positions.numpy()],
            )
        )

    for ours, theirs in zip(parts, (targets, valid, test)):
        assert tokens(ours) == sorted(zip(theirs.user_id, theirs.item_id, theirs.timestamp))
    statistics = split_statistics(*parts)
    assert statistics.valid_cold_targets == np.sum(~valid.item_id.isin(train.item_id))
    assert statistics.test_cold_targets == np.sum(~test.item_id.isin(train.item_id))
    assert statistics.train_users == train.user_id.nunique()
