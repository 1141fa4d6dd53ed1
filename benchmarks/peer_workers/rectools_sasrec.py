"""RecTools' SASRec on the sequences of a peers benchmark; runs in RecTools' own environment."""

from __future__ import annotations

import sys
import warnings

import numpy as np
import pandas as pd
from common import EpochTimes, Task, measure_and_print
from pytorch_lightning import Trainer
from rectools import Columns
from rectools.dataset import Dataset
from rectools.models import SASRecModel


def make_dataset(sequences: list[np.ndarray]) -> Dataset:
    users = np.repeat(np.arange(len(sequences)), [len(items) for items in sequences])
    return Dataset.construct(
        pd.DataFrame(
            {
                Columns.User: users,
                Columns.Item: np.concatenate(sequences),
                Columns.Weight: 1.0,
                # one interaction a second keeps the order
                Columns.Datetime: pd.to_datetime(np.arange(len(users)), unit="s"),
            }
        )
    )


TASK: Task
TIMES = EpochTimes()


def make_trainer() -> Trainer:
    """RecTools writes the name of this function into its configuration, so it takes nothing."""
    task = TASK
    return Trainer(
        max_epochs=task.epochs,
        min_epochs=task.epochs,
        limit_train_batches=task.batches or 1.0,
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
        logger=False,
        accelerator="cpu",
        devices=1,
        callbacks=[TIMES.callback()],
    )


class Peer:
    def __init__(self, task: Task) -> None:
        self.task = task
        self.model = SASRecModel(
            n_blocks=task.n_layers,
            n_heads=task.n_heads,
            n_factors=task.hidden_size,
            dropout_rate=task.dropout,
            session_max_len=task.max_length,
            loss="softmax",
            lr=task.learning_rate,
            batch_size=task.batch_size,
            epochs=task.epochs,
            recommend_batch_size=task.eval_batch_size,
            get_trainer_func=make_trainer,
        )

    def fit(self) -> EpochTimes:
        self.model.fit(make_dataset(self.task.train))
        return TIMES

    def rank(self) -> np.ndarray:
        """The ten best items of every test user, [users, 10]."""
        found = self.model.recommend(
            np.arange(len(self.task.history)),
            make_dataset(self.task.history),
            k=10,
            filter_viewed=False,
        )
        best = np.full((len(self.task.history), 10), -1)
        best[found[Columns.User], found[Columns.Rank] - 1] = found[Columns.Item]
        return best


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    TASK = Task(sys.argv[1])
    measure_and_print(Peer, TASK)
