"""Training on ml-100k: time of an epoch, share of the machine's matrix product, and quality.

    python benchmarks/training.py [--quick] [--full] [--quality] [--processor_time]
        [--data_path=... --dataset=... --length=50]

One process measures in turn, and takes medians of:

- RecBole's SASRec with its own loader and Trainer, its defaults (batch 2048). A few batches of the
  epoch are timed and scaled to all of them, unless ``--full`` is given;
- a loop written by hand over plain tensors: RecBole's network on the same windows as below, 128
  rows to a batch, cross-entropy on all scores at once, Adam;
- this package: SASRecResidual, its loader and its Trainer, the same network, 128 rows to a batch;
- one large matrix product in float32.

The network is RecBole's default: 64 dimensions, 2 layers, 2 heads, length 50, dropout 0.5. All
three see every training target once in an epoch. A whole epoch is training and validation (NDCG@10)
by each side's own Trainer. ``--processor_time`` counts, in the place of the clock, what the
processor spends on this process with one thread: for a machine that does other work too.
``--quality`` also trains both objectives to the end (early stopping on validation NDCG@10, patience
10). RecBole's own forward would take hours for it: its rows, batches and loss go through this
package's forward instead.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Callable

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import recbole.data
import torch
import torch.nn.functional as F  # noqa: N812
from recbole.config import Config
from recbole.model.sequential_recommender import SASRec
from recbole.trainer import Trainer
from recbole.utils import init_seed
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.device import DEVICE, HAS_GPU, now
from recbole_residual.compat import tensorboard_under
from recbole_residual.config.residual_config import ResidualConfig
from recbole_residual.data import create_dataset, data_preparation
from recbole_residual.model.fast_forward import Packing, packed_positions
from recbole_residual.model.loss import linear_cross_entropy
from recbole_residual.model.sasrec_residual import SASRecResidual
from recbole_residual.trainer.trainer import ResidualTrainer

# Importing RecBole's models turns it on for the whole process, unless this package is imported
# first. RecBole alone is timed with it, as it is shipped; the others without.
torch.autograd.set_detect_anomaly(False)

BATCH = 128


def settings(options: argparse.Namespace, folder: str, **more: Any) -> dict[str, Any]:
    values = {
        "checkpoint_dir": folder,
        "load_col": {"inter": ["user_id", "item_id", "timestamp"]},
        "use_gpu": HAS_GPU,
        "show_progress": False,
        "train_neg_sample_args": None,
        "metrics": ["NDCG"],
        "topk": [10],
        "valid_metric": "NDCG@10",
        "MAX_ITEM_LIST_LENGTH": options.length,
        "hidden_dropout_prob": 0.5,
        "attn_dropout_prob": 0.5,
        **more,
    }
    if options.data_path:
        values["data_path"] = options.data_path
    return values


class RecBoleSide:
    """RecBole alone: its Config, dataset, loader, model and Trainer."""

    def __init__(self, options: argparse.Namespace, folder: str, **more: Any) -> None:
        init_seed(2020, True)
        config = Config(
            SASRec, options.dataset, [str(_recbole_yaml())], settings(options, folder, **more)
        )
        self.train, self.valid, _ = recbole.data.data_preparation(
            config, recbole.data.create_dataset(config)
        )
        with tensorboard_under(folder):
            self.trainer = Trainer(config, SASRec(config, self.train.dataset).to(DEVICE))

    def seconds_per_epoch(self, batches: int | None) -> float:
        """Time ``batches`` batches and scale, or the whole epoch.

        RecBole runs as it is shipped: importing its models turns anomaly detection on (sine.py).
        """
        with torch.autograd.detect_anomaly(check_nan=True):
            return self._seconds_per_epoch(batches)

    def _seconds_per_epoch(self, batches: int | None) -> float:
        total = len(self.train)
        if batches is None:
            return timed(lambda: self.trainer._train_epoch(self.train, 0))
        iterator = iter(self.train)
        step = _Batches(list(itertools.islice(iterator, batches)))
        loading = timed(lambda: list(itertools.islice(iterator, batches)))
        return (timed(lambda: self.trainer._train_epoch(step, 0)) + loading) / batches * total


class _Batches(list):
    """What the Trainer asks of a loader."""

    shuffle = False


class OurSide:
    """This package's Config, dataset, loader, model and Trainer."""

    def __init__(
        self,
        options: argparse.Namespace,
        folder: str,
        model_class: type = SASRecResidual,
        **more: Any,
    ) -> None:
        init_seed(2020, True)
        config = ResidualConfig(
            model_class, options.dataset, config_dict=settings(options, folder, **more)
        )
        self.config = config
        self.train, self.valid, _ = data_preparation(config, create_dataset(config))
        self.model = model_class(config, self.train.dataset).to(DEVICE)
        self.trainer = ResidualTrainer(config, self.model)

    def seconds_per_epoch(self) -> float:
        return timed(lambda: self.trainer._train_epoch(self.train, 0))

    def flops_per_epoch(self) -> int:
        """Operations of all matrix products of an epoch, forward and backward, as torch counts
        them while the package runs: none for padding, none twice."""
        in_place = {torch.ops.aten.addmm_: _addmm_flops}  # torch counts all but this one
        with FlopCounterMode(display=False, custom_mapping=in_place) as counter:
            self.trainer._train_epoch(self.train, 0)
        return counter.get_total_flops()


class HandWrittenSide:
    """The loop one would write over plain tensors."""

    def __init__(self, ours: OurSide) -> None:
        loader, sequences = ours.train, ours.train.dataset.sequences
        starts, lengths = loader._windows.cut(loader._windows.room * 0)
        width = sequences.max_length
        self.items = sequences.span("item_id", starts, lengths, width).to(DEVICE)
        self.targets = sequences.span("item_id", starts + 1, lengths, width).to(DEVICE)
        self.network = _AllPositions(ours.config, ours.train.dataset).to(DEVICE)
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=1e-3)

    def seconds_per_epoch(self) -> float:
        return timed(self._epoch)

    def _epoch(self) -> None:
        self.network.train()
        order = torch.randperm(len(self.items))
        for index in order.split(BATCH):
            items, targets = self.items[index], self.targets[index]
            self.optimizer.zero_grad()
            hidden = self.network(items, (items > 0).sum(1))
            scores = hidden @ self.network.item_embedding.weight.t()
            loss = F.cross_entropy(scores.flatten(0, 1), targets.flatten(), ignore_index=0)
            loss.backward()
            self.optimizer.step()


class _AllPositions(SASRec):
    def gather_indexes(self, output: torch.Tensor, gather_index: torch.Tensor) -> torch.Tensor:
        return output


def _addmm_flops(total: Any, left: Any, right: Any, *args: Any, **kwargs: Any) -> int:
    return 2 * left[0] * left[1] * right[1]


def _recbole_yaml() -> Path:
    return Path(recbole.__path__[0]) / "properties" / "model" / "SASRec.yaml"


clock = now


def timed(run: Callable[[], Any]) -> float:
    begin = clock()
    run()
    return clock() - begin


def matmul_flops_per_second(size: int = 2048) -> float:
    left, right = torch.randn(2, size, size, device=DEVICE)
    return 2 * size**3 / min(timed(lambda: left @ right) for _ in range(3))


def measure_speed(options: argparse.Namespace, folder: str) -> dict[str, float]:
    recbole_side = RecBoleSide(options, folder)
    ours = OurSide(options, folder, train_batch_size=BATCH)
    hand = HandWrittenSide(ours)
    batches = None if options.full else 2 if options.quick else 4
    repeats = options.repeats or (2 if options.quick else 5)
    found: dict[str, list[float]] = {"recbole": [], "ours": [], "hand": [], "matmul": []}
    ours.seconds_per_epoch(), hand.seconds_per_epoch()  # warm up
    for i in range(repeats):
        found["matmul"].append(matmul_flops_per_second())
        found["ours"].append(ours.seconds_per_epoch())
        found["hand"].append(hand.seconds_per_epoch())
        if not options.full or i == 0:
            found["recbole"].append(recbole_side.seconds_per_epoch(batches))
        print({name: round(values[-1], 3) for name, values in found.items()}, flush=True)
    validation = {
        name: timed(lambda side=side: side.trainer._valid_epoch(side.valid))
        for name, side in (("recbole", recbole_side), ("ours", ours))
    }
    median = {name: statistics.median(values) for name, values in found.items()}
    flops = ours.flops_per_epoch()
    measured = (
        "measured whole" if options.full else f"{batches} of {len(recbole_side.train)} batches"
    )
    print(f"epoch_seconds_recbole: {median['recbole']:.1f}")
    print(f"epoch_recbole_measured: {measured}")
    print(f"epoch_seconds_hand_written: {median['hand']:.2f}")
    print(f"epoch_seconds: {median['ours']:.2f}")
    print(f"validation_seconds_recbole: {validation['recbole']:.2f}")
    print(f"validation_seconds: {validation['ours']:.2f}")
    print(f"epoch_gflop: {flops / 1e9:.1f}")
    print(f"matmul_gflop_per_second: {median['matmul'] / 1e9:.0f}")
    return {
        "hand_written_vs_ours": median["hand"] / median["ours"],
        "epoch_speedup_vs_recbole": median["recbole"] / median["ours"],
        "whole_epoch_speedup_vs_recbole": (median["recbole"] + validation["recbole"])
        / (median["ours"] + validation["ours"]),
        "matmul_share": flops / median["ours"] / median["matmul"],
    }


class RecBoleObjective(SASRecResidual):
    """RecBole's rows and its loss on them, by this package's forward: RecBole's own takes hours.

    Same rows in the same order, same batches, same network, same dropout rates; the numbers differ
    from RecBole's by the dropout masks alone.
    """

    def calculate_loss(self, interaction: Any) -> torch.Tensor:
        length = interaction[self.ITEM_SEQ_LEN]
        losses = []
        for rows in length.argsort().split(512):
            items = interaction[self.ITEM_SEQ][rows, : int(length[rows].max())]
            hidden = packed_positions(self, items, Packing(items))[length[rows].cumsum(0) - 1]
            targets = interaction[self.POS_ITEM_ID][rows]
            loss = linear_cross_entropy(hidden, self.item_embedding.weight, targets)
            losses.append(loss * len(rows) / len(length))
        return torch.stack(losses).sum()


def measure_quality(options: argparse.Namespace, folder: str) -> dict[str, float]:
    """Both objectives until early stopping on validation NDCG@10."""
    figures = {}
    for name, model_class, more in (
        ("ours", SASRecResidual, {"train_batch_size": BATCH}),
        ("recbole", RecBoleObjective, {"loss_positions": "last", "train_batch_size": 2048}),
    ):
        side = OurSide(options, folder, model_class, stopping_step=10, epochs=300, **more)
        side.trainer.logger.setLevel("ERROR")
        seconds = timed(
            lambda side=side: side.trainer.fit(side.train, side.valid, verbose=False, saved=False)
        )
        figures[f"quality_ndcg_{name}"] = float(side.trainer.best_valid_score)
        figures[f"quality_epochs_{name}"] = len(side.trainer.train_loss_dict)
        figures[f"quality_seconds_{name}"] = seconds
        print(name, figures, flush=True)
    figures["quality_ratio"] = figures["quality_ndcg_ours"] / figures["quality_ndcg_recbole"]
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer repeats and batches")
    parser.add_argument("--full", action="store_true", help="time one whole epoch of RecBole")
    parser.add_argument(
        "--quality", action="store_true", help="train both sides to the end as well"
    )
    parser.add_argument("--data_path")
    parser.add_argument("--dataset", default="ml-100k")
    parser.add_argument("--length", type=int, default=50)
    parser.add_argument("--repeats", type=int)
    parser.add_argument("--processor_time", action="store_true")
    options = parser.parse_args()
    if options.processor_time:
        global clock
        clock = time.process_time
        torch.set_num_threads(1)
    sys.argv = sys.argv[:1]  # RecBole reads it too
    with tempfile.TemporaryDirectory() as folder:
        figures = measure_speed(options, folder)
        if options.quality:
            figures |= measure_quality(options, folder)
    for name, value in figures.items():
        print(f"{name}: {value:.4g}")


if __name__ == "__main__":
    main()
