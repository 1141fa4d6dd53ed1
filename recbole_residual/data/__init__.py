"""From atomic files to batches: flat sequences, the papers' preprocessing and splits."""

from __future__ import annotations

from logging import getLogger
from typing import Any, NamedTuple

import recbole.data
import recbole.data.dataset
from recbole.data import create_samplers, get_dataloader
from recbole.data.dataloader import FullSortEvalDataLoader
from recbole.utils import ModelType

from recbole_residual.data.dataset import SequenceDataset
from recbole_residual.data.loader import AllPositionsDataLoader, UnseenItemsEvalDataLoader
from recbole_residual.data.statistics import (
    DatasetStatistics,
    SplitStatistics,
    dataset_statistics,
    split_statistics,
)
from recbole_residual.errors import DataError
from recbole_residual.model.objective import trains_at_all_positions

__all__ = [
    "AllPositionsDataLoader",
    "DatasetStatistics",
    "Loaders",
    "SequenceDataset",
    "SplitStatistics",
    "UnseenItemsEvalDataLoader",
    "create_dataset",
    "data_preparation",
    "dataset_statistics",
    "split_statistics",
]

_RECBOLE_CACHES = ("save_dataset", "dataset_save_path", "save_dataloaders", "dataloaders_save_path")


class Loaders(NamedTuple):
    """The three loaders, in RecBole's order."""

    train: Any
    valid: Any
    test: Any


def _uses_sequence_dataset(config: Any) -> bool:
    """Sequential models, but those for which RecBole has a dataset of its own, and but ready-made
    splits (``benchmark_filename``)."""
    return (
        config["MODEL_TYPE"] == ModelType.SEQUENTIAL
        and config["benchmark_filename"] is None
        and not any(
            hasattr(recbole.data.dataset, f"{ancestor.__name__}Dataset")
            for ancestor in config.model_class.__mro__
        )
    )


def create_dataset(config: Any) -> Any:
    """Load and preprocess a dataset.

    Args:
        config: the configuration.

    Returns:
        SequenceDataset: for sequential models; RecBole's own dataset for every other, and for those
        that RecBole has a special dataset for.

    Raises:
        AtomicFileError: if a file cannot be read.
    """
    if not _uses_sequence_dataset(config):
        if config["filter_seen"] and config["MODEL_TYPE"] == ModelType.SEQUENTIAL:
            raise DataError(
                f"filter_seen: True does not work for {config['model']} on {config['dataset']}: it "
                "needs a dataset class of RecBole's own. Set it to False."
            )
        return recbole.data.create_dataset(config)
    unused = [key for key in _RECBOLE_CACHES if config[key]]
    if unused:
        getLogger().warning(
            f"{', '.join(unused)}: not used, sequences are read from the atomic files every time."
        )
    dataset = SequenceDataset(config)
    getLogger().info(f"{config['dataset']}: {dataset.statistics}")
    return dataset


def data_preparation(config: Any, dataset: Any) -> Loaders:
    """Split a dataset and make the loaders for training, validation and test.

    Args:
        config: the configuration.
        dataset: what :func:`create_dataset` gave.

    Returns:
        Loaders: training, validation, test.

    Raises:
        ValueError: if ``filter_seen`` meets an evaluation that ranks sampled items only.
    """
    if not isinstance(dataset, SequenceDataset):
        return Loaders(*recbole.data.data_preparation(config, dataset))
    parts = dataset.build()
    samplers = create_samplers(config, dataset, parts)
    all_positions = trains_at_all_positions(config)
    train_class = AllPositionsDataLoader if all_positions else get_dataloader(config, "train")
    loaders = Loaders(
        train_class(config, parts[0], samplers[0], shuffle=config["shuffle"]),
        _eval_loader_class(config, "valid")(config, parts[1], samplers[1], shuffle=False),
        _eval_loader_class(config, "test")(config, parts[2], samplers[2], shuffle=False),
    )
    getLogger().info(f"{config['dataset']}, split: {split_statistics(*parts)}")
    return loaders


def _eval_loader_class(config: Any, phase: str) -> Any:
    loader_class = get_dataloader(config, phase)
    if not config["filter_seen"]:
        return loader_class
    if loader_class is not FullSortEvalDataLoader:
        mode = config["eval_args"]["mode"][phase]
        raise DataError(
            f"filter_seen: True needs full ranking, but eval_args: mode is {mode!r} for {phase}."
        )
    return UnseenItemsEvalDataLoader
