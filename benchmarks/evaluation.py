"""One evaluation by RecBole's Trainer and by this package's, in turn.

    python benchmarks/evaluation.py --data_path=data          # amazon-beauty and ml-1m
    python benchmarks/evaluation.py --quick                   # ml-100k alone, needs no download

Prints one line per figure, ``name: value``; a ratio compares medians of runs that took turns in
this process, on the same model and the same loader:

- ``evaluation_speedup_vs_recbole_DATASET``: NDCG@10 and Hit@10 of the validation data, RecBole
  1.2.1's own Trainer against this package's. Higher is better.
- ``evaluation_own_metrics_DATASET``: the same with HRLI, HRL2I, MixingRatio and RecoveryRate as
  well, against those two alone, both by this package's Trainer. Lower is better.
- ``evaluation_share_DATASET``: a validation against an epoch of training with the defaults. Lower
  is better.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Callable

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from recbole.trainer import Trainer

from recbole_residual.compat import tensorboard_under
from recbole_residual.config.residual_config import ResidualConfig
from recbole_residual.data import create_dataset, data_preparation
from recbole_residual.model.registry import get_model
from recbole_residual.trainer.trainer import ResidualTrainer

OWN_METRICS = ["HRLI", "HRL2I", "MixingRatio", "RecoveryRate"]
FIGURE = {"ml-100k": "ml100k", "amazon-beauty": "beauty", "ml-1m": "ml1m"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="ml-100k alone, fewer repeats")
    parser.add_argument("--data_path", help="folder with amazon-beauty and ml-1m")
    parser.add_argument("--datasets", nargs="+", choices=FIGURE, help="default: all there are")
    parser.add_argument("--repeats", type=int, help="runs of each side; the median counts")
    options = parser.parse_args()
    sys.argv = sys.argv[:1]  # RecBole reads it too
    alone = options.quick or not options.data_path
    names = options.datasets or (["ml-100k"] if alone else ["amazon-beauty", "ml-1m"])
    repeats = options.repeats or (3 if options.quick else 5)
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            measure(name, options.data_path if name != "ml-100k" else None, repeats, folder)


def measure(name: str, data_path: str | None, repeats: int, folder: str) -> None:
    """Print the figures of one dataset."""
    config = _config(name, data_path, folder, [])
    train, valid, _ = data_preparation(config, create_dataset(config))
    model = get_model("SASRecResidual")(config, train.dataset)
    with tensorboard_under(folder):
        recbole = Trainer(config, model)
    own = ResidualTrainer(config, model)
    everything = ResidualTrainer(_config(name, data_path, folder, OWN_METRICS), model)
    seconds = in_turn(
        {
            "train": lambda: own._train_epoch(train, 0),
            "recbole": lambda: recbole.evaluate(valid, load_best_model=False),
            "own": lambda: own.evaluate(valid, load_best_model=False),
            "everything": lambda: everything.evaluate(valid, load_best_model=False),
        },
        repeats,
    )
    figure = FIGURE[name]
    for side, value in seconds.items():
        print(f"{side}_seconds_{figure}: {value:.3f}")
    print(f"evaluation_speedup_vs_recbole_{figure}: {seconds['recbole'] / seconds['own']:.2f}")
    print(f"evaluation_own_metrics_{figure}: {seconds['everything'] / seconds['own']:.2f}")
    print(f"evaluation_share_{figure}: {seconds['own'] / seconds['train']:.3f}", flush=True)


def _config(name: str, data_path: str | None, folder: str, metrics: list[str]) -> ResidualConfig:
    values: dict[str, Any] = {
        "metrics": ["NDCG", "Hit", *metrics],
        "topk": [10],
        "valid_metric": "NDCG@10",
        "show_progress": False,
        "use_gpu": False,
        "checkpoint_dir": folder,
    }
    if data_path is not None:
        values["data_path"] = data_path
    return ResidualConfig("SASRecResidual", name, None, values)


def in_turn(sides: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Median seconds of each side; they run in turns, after one run of each that is not counted."""
    seconds: dict[str, list[float]] = {side: [] for side in sides}
    for repeat in range(repeats + 1):
        for side, run in sides.items():
            start = time.perf_counter()
            run()
            if repeat:
                seconds[side].append(time.perf_counter() - start)
    return {side: statistics.median(values) for side, values in seconds.items()}


if __name__ == "__main__":
    main()
