"""A dataset out of its files: ours for sequences, RecBole's for every other model."""

from __future__ import annotations

from logging import getLogger
from typing import Any

from recbole.utils import ModelType

from recbole_residual.data.benchmark import BenchmarkDataset
from recbole_residual.data.dataset import SequenceDataset
from recbole_residual.data.recbole_datasets import own_dataset_of, recbole_dataset
from recbole_residual.errors import DataError

_RECBOLE_CACHES = ("save_dataset", "dataset_save_path", "save_dataloaders", "dataloaders_save_path")


def dataset_class(config: Any) -> type:
    """The class of a configuration's dataset.

    Sequential models get :class:`~recbole_residual.data.dataset.SequenceDataset`, or
    :class:`~recbole_residual.data.benchmark.BenchmarkDataset` for ready-made splits
    (``benchmark_filename``); every other model, and those for which RecBole has a special dataset,
    RecBole's own.
    """
    if config["MODEL_TYPE"] != ModelType.SEQUENTIAL or own_dataset_of(config.model_class):
        return recbole_dataset(config.model_class, config["MODEL_TYPE"])
    return SequenceDataset if config["benchmark_filename"] is None else BenchmarkDataset


def create_dataset(config: Any) -> Any:
    """Load and preprocess a dataset.

    Args:
        config: the configuration.

    Returns:
        SequenceDataset: for sequential models; a subclass of RecBole's own dataset for ready-made
        splits, for every other model, and for those that RecBole has a special dataset for.

    Raises:
        DataError: if a file cannot be read, or a setting cannot be used with it.
    """
    wanted = dataset_class(config)
    sequential = config["MODEL_TYPE"] == ModelType.SEQUENTIAL
    if config["filter_seen"] and sequential and wanted is not SequenceDataset:
        raise DataError(
            f"filter_seen: True does not work for {config['model']} on {config['dataset']}: it "
            "needs a dataset class of RecBole's own. Set it to False."
        )
    unused = [key for key in _RECBOLE_CACHES if config[key]]
    if unused:
        getLogger().warning(
            f"{', '.join(unused)}: not used, sequences are read from the atomic files every time."
        )
    dataset = wanted(config)
    if isinstance(dataset, SequenceDataset):
        getLogger().info(f"{config['dataset']}: {dataset.statistics}")
    return dataset
