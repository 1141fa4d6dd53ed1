"""A dataset split, and the loaders of its three parts."""

from __future__ import annotations

from logging import getLogger
from typing import Any, NamedTuple

import recbole.data
from recbole.data import create_samplers, get_dataloader
from recbole.data.dataloader import (
    FullSortEvalDataLoader,
    KGDataLoader,
    KnowledgeBasedDataLoader,
    TrainDataLoader,
)
from recbole.data.dataloader.abstract_dataloader import NegSampleDataLoader
from recbole.data.transform import Equal

from recbole_residual.data.dataset import SequenceDataset
from recbole_residual.data.loader import (
    AllPositionsDataLoader,
    OneProcessDrawsDataLoader,
    UnseenItemsEvalDataLoader,
)
from recbole_residual.data.reading import recbole_refusals
from recbole_residual.data.settings import check_filter_seen
from recbole_residual.data.statistics import split_statistics
from recbole_residual.model.objective import trains_at_all_positions


class Loaders(NamedTuple):
    """The three loaders, in RecBole's order; that of a part without rows has length 0."""

    train: Any
    valid: Any
    test: Any


def data_preparation(config: Any, dataset: Any) -> Loaders:
    """Split a dataset and make the loaders for training, validation and test.

    A part that the split leaves without rows, such as the validation part of ``{LS: test_only}``,
    has an empty loader: it is false, its length is 0, and its ``dataset`` has no rows.

    Args:
        config: the configuration.
        dataset: what :func:`~recbole_residual.data.create.create_dataset` gave.

    Returns:
        Loaders: training, validation, test. They give the same batches for every ``worker``.

    Raises:
        DataError: if ``filter_seen`` meets an evaluation that ranks sampled items only, if there is
            nothing to train or nothing to evaluate, or if no negative item can be drawn.
    """
    if isinstance(dataset, SequenceDataset):
        loaders = _sequence_loaders(config, dataset)
    else:
        with recbole_refusals("the configuration of the data"):
            loaders = Loaders(*recbole.data.data_preparation(config, dataset))
    for loader in loaders:
        _draw_in_one_process(loader)
    return loaders


def _sequence_loaders(config: Any, dataset: SequenceDataset) -> Loaders:
    classes = [_eval_loader_class(config, phase) for phase in ("valid", "test")]
    parts = dataset.build()
    with recbole_refusals("train_neg_sample_args or eval_args: mode"):
        samplers = create_samplers(config, dataset, parts)
        loaders = Loaders(
            _train_loader_class(config)(config, parts[0], samplers[0], shuffle=config["shuffle"]),
            classes[0](config, parts[1], samplers[1], shuffle=False),
            classes[1](config, parts[2], samplers[2], shuffle=False),
        )
    getLogger().info(f"{config['dataset']}, split: {split_statistics(*parts)}")
    return loaders


def _train_loader_class(config: Any) -> Any:
    if trains_at_all_positions(config):
        return AllPositionsDataLoader
    loader_class = get_dataloader(config, "train")
    if loader_class is TrainDataLoader and config["worker"]:
        return OneProcessDrawsDataLoader
    return loader_class


def _eval_loader_class(config: Any, phase: str) -> Any:
    loader_class = get_dataloader(config, phase)
    if not config["filter_seen"]:
        return loader_class
    if loader_class is not FullSortEvalDataLoader:
        check_filter_seen(config["eval_args"]["mode"][phase], phase)
    return UnseenItemsEvalDataLoader


def _draw_in_one_process(loader: Any) -> None:
    """Without workers for a loader that draws at random, one batch after the other: each worker
    would draw from a state of its own, and the numbers would depend on how many there are."""
    if isinstance(loader, KnowledgeBasedDataLoader):  # two loaders in one, and no DataLoader itself
        _draw_in_one_process(loader.general_dataloader)
        _draw_in_one_process(loader.kg_dataloader)
        return
    if not loader.num_workers or isinstance(loader, OneProcessDrawsDataLoader):
        return
    samples = (
        isinstance(loader, NegSampleDataLoader)
        and loader.neg_sample_args["distribution"] != "none"
        and loader.neg_sample_args["sample_num"] != "none"
    )
    transforms = not isinstance(loader.transform, Equal)
    draws = samples or transforms or isinstance(loader, KGDataLoader)
    if draws:
        getLogger().info(
            "worker: %s is not used for %s: RecBole draws its batches one after the other.",
            loader.num_workers,
            type(loader).__name__,
        )
        loader.num_workers = 0
