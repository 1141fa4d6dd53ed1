"""What the sides of the peers benchmark share; needs numpy and, with a peer, its Lightning.

Every side runs in a process of its own, so that its peak memory is its own, in the interpreter of
its own environment, and prints one line of JSON at the end.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path
from typing import Any, Callable

import numpy as np


class Task:
    """Sizes and sequences of one comparison.

    Args:
        folder: holds ``task.json`` (sizes by name) and ``sequences.npz``.

    Attributes:
        train: items of each user that are trained on, ids from 1.
        history: what each test user had before the target.
        target: the item that has to be found, [users].
    """

    dataset: str
    data_path: str | None
    hidden_size: int
    n_layers: int
    n_heads: int
    dropout: float
    max_length: int
    batch_size: int
    eval_batch_size: int
    learning_rate: float
    epochs: int
    batches: int | None
    n_items: int
    threads: int

    def __init__(self, folder: str) -> None:
        vars(self).update(json.loads((Path(folder) / "task.json").read_text()))
        with np.load(Path(folder) / "sequences.npz") as arrays:
            ends = arrays["ends"]
            items = np.split(arrays["items"], ends[:-1])
        self.train = [sequence[:-2] for sequence in items if len(sequence) > 3]
        self.history = [sequence[:-1] for sequence in items if len(sequence) > 3]
        self.target = np.array([sequence[-1] for sequence in items if len(sequence) > 3])


class EpochTimes:
    """Seconds of every epoch by the clock, and those that the processor spent on this process."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.cpu_seconds: list[float] = []

    def start(self) -> None:
        self._begin = time.perf_counter(), time.process_time()

    def stop(self) -> None:
        self.seconds.append(time.perf_counter() - self._begin[0])
        self.cpu_seconds.append(time.process_time() - self._begin[1])

    def callback(self) -> Any:
        """For a Lightning Trainer."""
        try:
            from lightning import Callback
        except ImportError:
            from pytorch_lightning import Callback

        times = self

        class Watch(Callback):
            def on_train_epoch_start(self, *_: Any) -> None:
                times.start()

            def on_train_epoch_end(self, *_: Any) -> None:
                times.stop()

        return Watch()


def ndcg_at_10(best: np.ndarray, target: np.ndarray) -> float:
    """Mean NDCG@10 of one target a user.

    Args:
        best: ten best items of every user, best first, [users, 10].
        target: the item to be found, [users].
    """
    hit = best == target[:, None]
    return float((hit / np.log2(np.arange(2, 12))).sum(1).mean())


def measure_and_print(make_peer: Callable[[Task], Any], task: Task) -> None:
    """Train and rank one side; the last line of the output is its figures as JSON."""
    import torch

    torch.set_num_threads(task.threads)
    torch.manual_seed(0)
    peer = make_peer(task)
    epochs = peer.fit()
    ranking = EpochTimes()
    ranking.start()
    found = peer.rank()
    ranking.stop()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    figures = {
        # the first epoch warms up
        "epoch_seconds": float(np.median(epochs.seconds[1:] or epochs.seconds)),
        "epoch_cpu_seconds": float(np.median(epochs.cpu_seconds[1:] or epochs.cpu_seconds)),
        "rank_seconds": ranking.seconds[0],
        "rank_cpu_seconds": ranking.cpu_seconds[0],
        "peak_mb": peak / (1024**2 if sys.platform == "darwin" else 1024),
        "ndcg": found if isinstance(found, float) else ndcg_at_10(found, task.target),
    }
    print(json.dumps(figures))
