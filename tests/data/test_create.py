"""create_dataset and data_preparation: who gets which dataset and loader, and the statistics."""

from __future__ import annotations

import logging

import pytest
import torch
from recbole.data.dataloader import FullSortEvalDataLoader, TrainDataLoader
from recbole.data.dataset import Dataset
from recbole.model.general_recommender import BPR
from recbole.model.sequential_recommender import SASRec

from recbole_residual.config.residual_config import ResidualConfig
from recbole_residual.data import (
    AllPositionsDataLoader,
    SequenceDataset,
    UnseenItemsEvalDataLoader,
    create_dataset,
    data_preparation,
    dataset_statistics,
)
from recbole_residual.errors import ConfigError, DataError
from tests.data.conftest import random_inter, write_inter


@pytest.fixture(autouse=True)
def inter(tmp_path):
    frame = random_inter(seed=20)
    write_inter(tmp_path, "tiny", frame)
    return frame


def test_all_positions_is_the_default_of_our_models(make_config):
    config = make_config()
    train, valid, _ = data_preparation(config, create_dataset(config))
    assert type(train) is AllPositionsDataLoader
    assert type(valid) is FullSortEvalDataLoader


@pytest.mark.parametrize("values", [{"loss_positions": "last"}, {"model": SASRec}])
def test_recboles_samples_otherwise(make_config, values):
    config = make_config(**values)
    dataset = create_dataset(config)
    assert isinstance(dataset, SequenceDataset)
    assert type(data_preparation(config, dataset).train) is TrainDataLoader


def test_seen_items(make_config):
    config = make_config(filter_seen=True)
    loaders = data_preparation(config, create_dataset(config))
    assert type(loaders.valid) is type(loaders.test) is UnseenItemsEvalDataLoader


def test_models_that_are_not_sequential_get_recboles_dataset(make_config):
    config = make_config(
        model=BPR,
        embedding_size=8,
        train_neg_sample_args={"distribution": "uniform", "sample_num": 1},
    )
    dataset = create_dataset(config)
    assert isinstance(dataset, Dataset)
    assert not isinstance(dataset, SequenceDataset)
    statistics = dataset_statistics(dataset)
    assert statistics.interactions == len(dataset)
    assert len(data_preparation(config, dataset).train) > 0
    with pytest.raises(ValueError, match="before data_preparation"):
        dataset_statistics(dataset)


def test_a_model_with_a_dataset_of_its_own_in_recbole(make_config):
    class GRU4RecKG(SASRec):
        """Named like a model that RecBole has GRU4RecKGDataset for."""

    with pytest.raises(ValueError, match="filter_seen: True does not work for GRU4RecKG"):
        create_dataset(make_config(model=GRU4RecKG, filter_seen=True))


def test_statistics_are_those_of_the_file(make_config, inter, caplog):
    with caplog.at_level(logging.INFO):
        config = make_config()
        dataset = create_dataset(config)
        data_preparation(config, dataset)
    statistics = dataset_statistics(dataset)
    users, items = inter.user_id.nunique(), inter.item_id.nunique()
    assert statistics.to_dict() == {
        "users": users,
        "items": items,
        "interactions": len(inter),
        "avg_length": len(inter) / users,
        "density": len(inter) / users / items,
        "days": pytest.approx((inter.timestamp.max() - inter.timestamp.min()) / 86400),
    }
    assert f"tiny: {users:,} users, {items:,} items, {len(inter):,} interactions" in caplog.text
    assert "cold targets" in caplog.text


def test_recboles_pickles_are_not_read(make_config, caplog):
    with caplog.at_level(logging.WARNING):
        create_dataset(make_config(save_dataset=True, dataloaders_save_path="somewhere.pth"))
    assert "save_dataset, dataloaders_save_path: not used" in caplog.text


def test_memory_grows_with_the_interactions_and_not_with_the_padding(make_config):
    def stored(max_length):
        config = make_config(MAX_ITEM_LIST_LENGTH=max_length)
        dataset = create_dataset(config)
        rows = dataset.build()[0].inter_feat
        tensors = [*dataset.sequences.fields.values(), dataset.sequences.first, rows.positions]
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors)

    assert stored(5) == stored(5000)


def test_evaluation_sees_the_latest_items_of_a_long_history(make_config):
    config = make_config(MAX_ITEM_LIST_LENGTH=3)
    dataset = create_dataset(config)
    _, _, test = data_preparation(config, dataset)
    rows = test.dataset.inter_feat
    for items, position in zip(rows["item_id_list"], rows.positions):
        before = torch.arange(int(position) - 3, int(position))
        assert items.tolist() == dataset.sequences.at("item_id", before).tolist()


def resolved(tmp_path, **values):
    given = {"data_path": str(tmp_path), "show_progress": False, **values}
    return ResidualConfig("SASRecResidual", "tiny", None, given)


def test_times_are_loaded_without_being_asked_for(tmp_path, inter):
    config = resolved(tmp_path)
    assert create_dataset(config).statistics.interactions == len(inter)
    assert config["load_col"] == {"inter": ["user_id", "item_id", "timestamp"]}
    again = ResidualConfig("SASRecResidual", "tiny", None, config.to_plain())
    assert create_dataset(again).statistics.interactions == len(inter)


def test_named_columns_are_loaded_without_being_asked_for(tmp_path, inter):
    names = {"user_id": "visitor", "timestamp": "when"}
    write_inter(tmp_path, "tiny", inter.rename(columns=names))
    path = tmp_path / "tiny" / "tiny.inter"
    path.write_text(path.read_text().replace("when:token", "when:float", 1))
    config = resolved(tmp_path, USER_ID_FIELD="visitor", TIME_FIELD="when")
    assert create_dataset(config).statistics.interactions == len(inter)


def test_no_time_is_one_message(tmp_path, inter):
    write_inter(tmp_path, "tiny", inter.drop(columns="timestamp"))
    with pytest.raises(DataError, match="no column 'timestamp' was loaded"):
        create_dataset(resolved(tmp_path))


def test_ready_made_rows_are_trained_as_they_are(tmp_path):
    names = ["train", "valid", "test"]
    config = resolved(tmp_path, benchmark_filename=names)
    assert config["loss_positions"] == "last"
    assert config["load_col"] == {"inter": ["user_id", "item_id", "item_id_list"]}
    with pytest.raises(ConfigError, match="benchmark_filename"):
        resolved(tmp_path, benchmark_filename=names, loss_positions="all")
