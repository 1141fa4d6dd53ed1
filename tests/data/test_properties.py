"""The yaml files of the datasets: known names, known keys, the papers' protocol."""

from __future__ import annotations

from pathlib import Path

import pytest
import recbole
import yaml

from recbole_residual.config.property_files import properties_dir
from recbole_residual.config.residual_config import ResidualConfig

DATASETS = sorted(path.stem for path in (properties_dir() / "dataset").glob("*.yaml"))
PAPERS = {
    "amazon-beauty",
    "amazon-sports-outdoors",
    "amazon-toys-games",
    "amazon-video-games",
    "beeradvocate",
    "diginetica-not-merged",
    "ml-1m",
    "steam-not-merged",
    "zvuk",
}


def test_all_datasets_of_the_papers_are_there():
    assert set(DATASETS) >= PAPERS | {"ml-100k"}


def test_names_are_recboles():
    url_file = Path(recbole.__path__[0]) / "properties" / "dataset" / "url.yaml"
    names = yaml.safe_load(url_file.read_text())
    assert set(DATASETS) - set(names) == {"zvuk"}  # not public under a name of RecBole's


@pytest.mark.parametrize("dataset", DATASETS)
def test_a_dataset_needs_nothing_else(dataset):
    config = ResidualConfig("SASRecResidual", dataset, config_dict={"use_gpu": False})
    columns = config["load_col"]["inter"]
    assert {config["USER_ID_FIELD"], config["ITEM_ID_FIELD"], config["TIME_FIELD"]} <= set(columns)
    assert config["eval_args"]["order"] == "TO"
    assert 50 <= config["MAX_ITEM_LIST_LENGTH"] <= 200
    if dataset in PAPERS:
        assert config["eval_args"]["split"] == {"GT": [0.9, 0.9]}
        assert config["remove_consecutive_repeats"] is True
        assert config["user_inter_num_interval"] == "[5,inf)"
        assert config["item_inter_num_interval"] == "[5,inf)"
    else:
        assert config["eval_args"]["split"] == {"LS": "valid_and_test"}
