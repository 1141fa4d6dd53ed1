"""RePlay's SASRec on the sequences of a peers benchmark; runs in RePlay's own environment."""

from __future__ import annotations

import sys
import warnings

import lightning
import numpy as np
import pandas as pd
from common import EpochTimes, Task, measure_and_print
from replay.data import FeatureHint, FeatureType
from replay.data.nn import PandasSequentialDataset, TensorFeatureInfo, TensorSchema
from replay.models.nn.optimizer_utils import FatOptimizerFactory
from replay.models.nn.sequential import SasRec
from replay.models.nn.sequential.callbacks import PandasPredictionCallback
from replay.models.nn.sequential.sasrec import SasRecPredictionDataset, SasRecTrainingDataset
from torch.utils.data import DataLoader


class Peer:
    def __init__(self, task: Task) -> None:
        self.task, self.times = task, EpochTimes()
        self.schema = TensorSchema(
            TensorFeatureInfo(
                name="item_id",
                feature_type=FeatureType.CATEGORICAL,
                is_seq=True,
                feature_hint=FeatureHint.ITEM_ID,
                cardinality=task.n_items,
                padding_value=task.n_items,
                embedding_dim=task.hidden_size,
            )
        )
        self.model = SasRec(
            self.schema,
            block_count=task.n_layers,
            head_count=task.n_heads,
            hidden_size=task.hidden_size,
            max_seq_len=task.max_length,
            dropout_rate=task.dropout,
            loss_type="CE",
            optimizer_factory=FatOptimizerFactory(
                learning_rate=task.learning_rate, betas=(0.9, 0.999)
            ),
        )

    def _sequences(self, sequences: list[np.ndarray]) -> PandasSequentialDataset:
        latest = [items[-self.task.max_length - 1 :] for items in sequences]
        frame = pd.DataFrame({"user_id": np.arange(len(latest)), "item_id": latest})
        return PandasSequentialDataset(self.schema, "user_id", "item_id", frame)

    def _trainer(self, callback: lightning.Callback) -> lightning.Trainer:
        return lightning.Trainer(
            max_epochs=self.task.epochs,
            limit_train_batches=self.task.batches or 1.0,
            enable_progress_bar=False,
            enable_model_summary=False,
            enable_checkpointing=False,
            logger=False,
            accelerator="cpu",
            devices=1,
            callbacks=[callback],
        )

    def fit(self) -> EpochTimes:
        rows = SasRecTrainingDataset(self._sequences(self.task.train), self.task.max_length)
        loader = DataLoader(rows, batch_size=self.task.batch_size, shuffle=True)
        self._trainer(self.times.callback()).fit(self.model, loader)
        return self.times

    def rank(self) -> np.ndarray:
        """The ten best items of every test user, [users, 10]."""
        history = [items[-self.task.max_length :] for items in self.task.history]
        rows = SasRecPredictionDataset(self._sequences(history), self.task.max_length)
        top = PandasPredictionCallback(top_k=10, query_column="user_id", item_column="item_id")
        self._trainer(top).predict(
            self.model,
            DataLoader(rows, batch_size=self.task.eval_batch_size),
            return_predictions=False,
        )
        found = top.get_result()
        order = np.argsort(found["user_id"].to_numpy(), kind="stable")
        return found["item_id"].to_numpy(dtype=np.int64)[order].reshape(-1, 10)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    measure_and_print(Peer, Task(sys.argv[1]))
