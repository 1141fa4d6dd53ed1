"""This package's SASRecResidual in a peers benchmark, and the sequences for the others."""

from __future__ import annotations

import itertools
import logging
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
import torch
from common import EpochTimes, Task, measure_and_print

from recbole_residual.config.residual_config import ResidualConfig
from recbole_residual.data import create_dataset, data_preparation
from recbole_residual.model.sasrec_residual import SASRecResidual
from recbole_residual.trainer.trainer import ResidualTrainer


def settings(task: Any, folder: str) -> dict[str, Any]:
    values = {
        "checkpoint_dir": folder,
        "load_col": {"inter": ["user_id", "item_id", "timestamp"]},
        "use_gpu": False,
        "show_progress": False,
        "train_neg_sample_args": None,
        "metrics": ["NDCG"],
        "topk": [10],
        "valid_metric": "NDCG@10",
        # the peers train on each user's latest items
        "long_sequences": "latest",
        "MAX_ITEM_LIST_LENGTH": task.max_length,
        "hidden_size": task.hidden_size,
        "inner_size": task.hidden_size * 4,
        "n_layers": task.n_layers,
        "n_heads": task.n_heads,
        "hidden_dropout_prob": task.dropout,
        "attn_dropout_prob": task.dropout,
        "train_batch_size": task.batch_size,
        "eval_batch_size": task.eval_batch_size,
        "learning_rate": task.learning_rate,
    }
    if task.data_path:
        values["data_path"] = task.data_path
    return values


def write_sequences(dataset: Any, path: Path) -> None:
    """Every user's items in order of time, and where each user ends."""
    sequences = dataset.sequences
    starts = np.flatnonzero(sequences.first.numpy() == np.arange(len(sequences)))
    items = sequences.fields[dataset.iid_field].numpy().astype(np.int64)
    np.savez(path, items=items, ends=np.append(starts[1:], len(items)))


class Part(list):
    """The first batches of an epoch: what a Trainer asks of a loader."""

    shuffle = False


class Peer:
    def __init__(self, task: Task) -> None:
        self.task = task
        self._folder = tempfile.TemporaryDirectory()
        config = ResidualConfig(
            SASRecResidual, task.dataset, config_dict=settings(task, self._folder.name)
        )
        self.train, _, self.test = data_preparation(config, create_dataset(config))
        self.trainer = ResidualTrainer(config, SASRecResidual(config, self.train.dataset))
        torch.set_num_threads(task.threads)

    def fit(self) -> EpochTimes:
        times = EpochTimes()
        for epoch in range(self.task.epochs):
            times.start()
            batches = self.train
            if self.task.batches:
                batches = Part(itertools.islice(self.train, self.task.batches))
            self.trainer._train_epoch(batches, epoch)
            times.stop()
        return times

    def rank(self) -> float:
        return self.trainer.evaluate(self.test, load_best_model=False)["ndcg@10"]


if __name__ == "__main__":
    folder, sys.argv = sys.argv[1], sys.argv[:1]  # RecBole reads it too
    warnings.simplefilter("ignore")
    logging.disable(logging.INFO)
    measure_and_print(Peer, Task(folder))
