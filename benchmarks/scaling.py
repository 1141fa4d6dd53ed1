"""How the cost of a training epoch grows with users, length, items and width.

    python benchmarks/scaling.py [--quick] [--figure scaling.svg]

Made data: every user has the same number of interactions, items drawn at random. One of the four
sizes changes at a time, the others stay at 400 users, length 25, 2,000 items and width 64 (2
layers, 2 heads, batches of 32 users). The time is what the processor spends on an epoch with one
thread, the least of the repeats; the exponent is the slope of a line through log time over log
size. ``--quick`` repeats once.
"""

from __future__ import annotations

import argparse
import logging
import math
import sys
import tempfile
import time
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import torch

from recbole_residual.config.residual_config import ResidualConfig
from recbole_residual.data import create_dataset, data_preparation
from recbole_residual.model.sasrec_residual import SASRecResidual
from recbole_residual.trainer.trainer import ResidualTrainer

BASE = {"users": 400, "length": 25, "items": 2000, "width": 64}
SIZES = {
    "users": (200, 400, 800, 1600),
    "length": (12, 25, 50, 100),
    "items": (1000, 4000, 16000, 64000),
    "width": (32, 64, 128, 256),
}
BATCH = 32


def write_data(folder: Path, users: int, length: int, items: int) -> None:
    """An atomic file with ``length`` training inputs, and the three targets, of every user."""
    generator = np.random.default_rng(0)
    per_user = length + 3
    drawn = generator.integers(0, items, users * per_user)
    # the catalogue is the one asked for: what is not drawn belongs to a user without a target
    rest = np.setdiff1d(np.arange(items), drawn)
    user = np.append(np.repeat(np.arange(users), per_user), users + np.arange(len(rest)))
    item = np.append(drawn, rest)
    lines = (f"{u}\t{i}\t{t}\n" for t, (u, i) in enumerate(zip(user, item)))
    path = folder / "made" / "made.inter"
    path.parent.mkdir()
    path.write_text("user_id:token\titem_id:token\ttimestamp:float\n" + "".join(lines))


def epoch_seconds(repeats: int, users: int, length: int, items: int, width: int) -> float:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_data(folder, users, length, items)
        config = ResidualConfig(
            SASRecResidual,
            "made",
            config_dict={
                "data_path": name,
                "checkpoint_dir": str(folder / "run"),
                "load_col": {"inter": ["user_id", "item_id", "timestamp"]},
                "use_gpu": False,
                "show_progress": False,
                "train_neg_sample_args": None,
                "MAX_ITEM_LIST_LENGTH": length,
                "hidden_size": width,
                "inner_size": 4 * width,
                "train_batch_size": BATCH,
            },
        )
        train, _, _ = data_preparation(config, create_dataset(config))
        trainer = ResidualTrainer(config, SASRecResidual(config, train.dataset))
        torch.set_num_threads(1)
        measured = []
        for epoch in range(repeats + 1):
            begin = time.process_time()
            trainer._train_epoch(train, epoch)
            measured.append(time.process_time() - begin)
        return min(measured[1:])  # the first epoch warms up


def exponent(sizes: list[int], seconds: list[float]) -> float:
    """Slope of the line of least squares through log seconds over log size."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def draw(measured: dict[str, list[float]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "scaling"
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, len(measured), figsize=(10, 2.8), sharey=True)
    for axis, (name, seconds) in zip(axes, measured.items()):
        sizes = SIZES[name]
        slope = exponent(list(sizes), seconds)
        middle = math.exp(np.log(seconds).mean() - slope * np.log(sizes).mean())
        axis.loglog(sizes, seconds, "o", color="#1f5a8a")
        axis.loglog(sizes, [middle * size**slope for size in sizes], color="#1f5a8a", lw=1)
        axis.set_title(f"{name}: exponent {slope:.2f}", fontsize=10)
        axis.set_xticks(sizes, [f"{size:,}" for size in sizes], fontsize=7)
        axis.minorticks_off()
    every = [value for seconds in measured.values() for value in seconds]
    powers = range(math.floor(math.log2(min(every))), math.ceil(math.log2(max(every))) + 1)
    axes[0].set_yticks([2.0**power for power in powers], [f"{2.0**power:g}" for power in powers])
    axes[0].set_ylabel("seconds an epoch")
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one repeat")
    parser.add_argument("--figure", type=Path, help="write the log-log figure here (svg or png)")
    options = parser.parse_args()
    sys.argv = sys.argv[:1]  # RecBole reads it too
    warnings.simplefilter("ignore")
    logging.disable(logging.INFO)
    repeats = 1 if options.quick else 3
    measured: dict[str, list[float]] = {}
    for name, sizes in SIZES.items():
        measured[name] = []
        for size in sizes:
            seconds = epoch_seconds(repeats, **{**BASE, name: size})
            measured[name].append(seconds)
            print(f"epoch_cpu_seconds_{name}_{size}: {seconds:.3g}", flush=True)
        print(f"exponent_{name}: {exponent(list(sizes), measured[name]):.2f}", flush=True)
    if options.figure:
        draw(measured, options.figure)


if __name__ == "__main__":
    main()
