"""Peak memory of an evaluation, in a process of its own.

    python benchmarks/evaluation_workers/memory.py FOLDER BATCH_SIZE SIDE

``FOLDER`` holds the atomic files of the dataset ``made``. ``SIDE`` is ``chunk`` (model and data,
and one chunk of sequences ranked), ``own`` or ``recbole`` (everything, by that Trainer). Prints
megabytes, of Linux alone.
"""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from recbole.data.dataloader import FullSortEvalDataLoader
from recbole.trainer import Trainer

from recbole_residual.compat import tensorboard_under
from recbole_residual.config.residual_config import ResidualConfig
from recbole_residual.data import create_dataset, data_preparation
from recbole_residual.model.registry import get_model
from recbole_residual.trainer.trainer import ResidualTrainer

CHUNK_ROWS = 256


class FirstBatch(FullSortEvalDataLoader):
    """A loader that stops after its first batch."""

    def __iter__(self) -> Iterator[Any]:
        return itertools.islice(super().__iter__(), 1)


def main() -> None:
    folder, batch_size, side = sys.argv[1:]
    sys.argv = sys.argv[:1]
    values = {
        "data_path": folder,
        "metrics": ["NDCG", "Hit"],
        "topk": [10],
        "valid_metric": "NDCG@10",
        "use_gpu": False,
        "show_progress": False,
        "checkpoint_dir": folder,
        "eval_batch_size": CHUNK_ROWS if side == "chunk" else int(batch_size),
    }
    config = ResidualConfig("SASRecResidual", "made", None, values)
    train, valid, _ = data_preparation(config, create_dataset(config))
    model = get_model("SASRecResidual")(config, train.dataset)
    with tensorboard_under(folder):
        trainer = (Trainer if side == "recbole" else ResidualTrainer)(config, model)
    if side == "chunk":
        valid.__class__ = FirstBatch
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak of reading the data
    trainer.evaluate(valid, load_best_model=False)
    peak = re.search(r"VmHWM:\s*(\d+)", Path("/proc/self/status").read_text())
    assert peak is not None
    print(int(peak[1]) / 1024)


if __name__ == "__main__":
    main()
