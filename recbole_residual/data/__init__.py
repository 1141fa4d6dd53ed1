"""From atomic files to batches: flat sequences, the papers' preprocessing and splits."""

from __future__ import annotations

from recbole_residual.data.create import create_dataset
from recbole_residual.data.dataset import SequenceDataset
from recbole_residual.data.importing import Imported, ImportOptions, import_interactions
from recbole_residual.data.loader import AllPositionsDataLoader, UnseenItemsEvalDataLoader
from recbole_residual.data.preparation import Loaders, data_preparation
from recbole_residual.data.statistics import (
    DatasetStatistics,
    SplitStatistics,
    dataset_statistics,
    split_statistics,
)

__all__ = [
    "AllPositionsDataLoader",
    "DatasetStatistics",
    "ImportOptions",
    "Imported",
    "Loaders",
    "SequenceDataset",
    "SplitStatistics",
    "UnseenItemsEvalDataLoader",
    "create_dataset",
    "data_preparation",
    "dataset_statistics",
    "import_interactions",
    "split_statistics",
]
