"""One evaluation by RecBole 1.2.1 and by this package, in turn, and its peak memory.

    python benchmarks/evaluation.py --data_path=data      # amazon-beauty and ml-1m
    python benchmarks/evaluation.py --quick               # ml-100k alone, needs no download

Prints one line per figure, ``name: value``. RecBole's side is a process of its own that never
imports this package: RecBole's Config, dataset, loader, SASRec, Trainer and metrics. It has the
weights that this side has trained for some epochs, and the same users; that both results are the
same is checked. Ratios compare medians of runs that took turns:

- ``evaluation_speedup_vs_recbole_DATASET``: NDCG@10 and Hit@10 of the validation data. Higher is
  better.
- ``four_metrics_ratio_DATASET``: the same with HRLI, HRL2I, MixingRatio and RecoveryRate as well,
  against those two alone, both by this package. Lower is better.
- ``evaluation_share_DATASET``: a validation against an epoch of training with the defaults. Lower
  is better.
- ``evaluation_peak_memory_ratio``: peak memory of an evaluation with 101,000 items and
  ``eval_batch_size: 4096``, against that of model, data and one chunk. Lower is better.

``--mode uni100`` lets both sides rank 100 sampled items and the target, the same on both sides.
``--processor_time`` counts, in the place of the clock, what the processor spends on each side, with
one thread: for a machine that does other work too.
"""

from __future__ import annotations

import argparse
import functools
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Callable

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import torch

from benchmarks.device import DEVICE, HAS_GPU, now
from recbole_residual.config.residual_config import ResidualConfig
from recbole_residual.data import create_dataset, data_preparation
from recbole_residual.model.registry import get_model
from recbole_residual.trainer.trainer import ResidualTrainer

OWN_METRICS = ["HRLI", "HRL2I", "MixingRatio", "RecoveryRate"]
FIGURE = {"ml-100k": "ml100k", "amazon-beauty": "beauty", "ml-1m": "ml1m"}
WORKERS = Path(__file__).resolve().parent / "evaluation_workers"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="ml-100k alone, short sequences")
    parser.add_argument("--data_path", help="folder with amazon-beauty and ml-1m")
    parser.add_argument("--datasets", nargs="*", choices=FIGURE, help="default: all there are")
    parser.add_argument("--length", type=int, help="MAX_ITEM_LIST_LENGTH, by default 50; quick 20")
    parser.add_argument("--epochs", type=int, help="of training before; by default 3, quick 2")
    parser.add_argument("--mode", default="full", help="full, or sampled items, such as uni100")
    parser.add_argument("--repeats", type=int, help="runs of each side, by default 3")
    parser.add_argument("--processor_time", action="store_true")
    parser.add_argument("--no_memory", action="store_true", help="leave the memory out")
    options = parser.parse_args()
    sys.argv = sys.argv[:1]  # RecBole reads it too
    if options.processor_time:
        torch.set_num_threads(1)
    alone = options.quick or not options.data_path
    names = options.datasets
    if names is None:
        names = ["ml-100k"] if alone else ["amazon-beauty", "ml-1m"]
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            measure(name, options, folder)
        if not options.no_memory:
            measure_memory(folder, 5_000 if options.quick else 20_000)


def measure(name: str, options: argparse.Namespace, folder: str) -> None:
    """Print the figures of one dataset."""
    settings = _settings(name, options, folder)
    config = ResidualConfig("SASRecResidual", name, None, settings)
    train, valid, _ = data_preparation(config, create_dataset(config))
    model = get_model("SASRecResidual")(config, train.dataset).to(DEVICE)
    own = ResidualTrainer(config, model)
    # the rank of an input item is one in the whole catalogue
    more = OWN_METRICS if options.mode == "full" else OWN_METRICS[2:]
    all_metrics = {**settings, "metrics": [*settings["metrics"], *more]}
    everything = ResidualTrainer(ResidualConfig("SASRecResidual", name, None, all_metrics), model)
    epochs: list[float] = []
    for epoch in range(options.epochs or (2 if options.quick else 3)):
        train_epoch = functools.partial(own._train_epoch, train, epoch)
        epochs.append(seconds_of(train_epoch, options)[0])
    with RecBoleSide(name, settings, model, options, folder) as recbole:
        times = in_turn(
            {
                "recbole": recbole.evaluate,
                "own": lambda: seconds_of(lambda: own.evaluate(valid, False), options),
                "everything": lambda: seconds_of(
                    lambda: everything.evaluate(valid, False), options
                ),
            },
            options.repeats or 3,
        )
    epoch_seconds, figure = statistics.median(epochs), FIGURE[name]
    print(f"training_epoch_seconds_{figure}: {epoch_seconds:.3f}")
    for side, seconds in times.items():
        print(f"evaluation_{side}_seconds_{figure}: {seconds:.3f}")
    print(f"evaluation_speedup_vs_recbole_{figure}: {times['recbole'] / times['own']:.2f}")
    print(f"four_metrics_ratio_{figure}: {times['everything'] / times['own']:.2f}")
    print(f"evaluation_share_{figure}: {times['own'] / epoch_seconds:.3f}", flush=True)


def _settings(name: str, options: argparse.Namespace, folder: str) -> dict[str, Any]:
    """What both sides are given; both have RecBole's defaults of SASRec."""
    settings = {
        "load_col": {"inter": ["user_id", "item_id", "timestamp"]},
        "eval_args": {
            "split": {"LS": "valid_and_test"},
            "group_by": None,
            "order": "TO",
            "mode": options.mode,
        },
        "MAX_ITEM_LIST_LENGTH": options.length or (20 if options.quick else 50),
        "train_neg_sample_args": None,
        "metrics": ["NDCG", "Hit"],
        "topk": [10],
        "valid_metric": "NDCG@10",
        "metric_decimal_place": 12,
        "show_progress": False,
        "use_gpu": HAS_GPU,
        "checkpoint_dir": folder,
    }
    if options.data_path and name != "ml-100k":
        settings["data_path"] = str(Path(options.data_path).resolve())
    return settings


class RecBoleSide:
    """RecBole alone, in a process of its own that lives from one turn to the next."""

    def __init__(
        self,
        name: str,
        settings: dict[str, Any],
        model: torch.nn.Module,
        options: argparse.Namespace,
        folder: str,
    ) -> None:
        self._processor_time = options.processor_time
        weights, file = Path(folder) / "weights.pth", Path(folder) / "recbole.json"
        torch.save(model.state_dict(), weights)
        file.write_text(
            json.dumps(
                {
                    "dataset": name,
                    "config": settings,
                    "weights": str(weights),
                    "threads": torch.get_num_threads(),
                }
            )
        )
        self._log = (Path(folder) / "recbole.log").open("w")
        self._process = subprocess.Popen(
            [sys.executable, str(WORKERS / "recbole_side.py"), str(file)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            cwd=folder,
        )

    def __enter__(self) -> RecBoleSide:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.communicate()
        self._log.close()

    def evaluate(self) -> tuple[float, dict[str, float]]:
        """Seconds of one evaluation, and its result."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("evaluate\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(Path(self._log.name).read_text())
        clock, processor, result = json.loads(answer)
        return (processor if self._processor_time else clock), result


def seconds_of(run: Callable[[], Any], options: argparse.Namespace) -> tuple[float, Any]:
    """Seconds of a call, and its result."""
    clock = time.process_time if options.processor_time else now
    # RecBole draws the sampled items from it
    np.random.seed(2020)  # noqa: NPY002
    begin = clock()
    result = run()
    return clock() - begin, result


def in_turn(
    sides: dict[str, Callable[[], tuple[float, dict[str, float]]]], repeats: int
) -> dict[str, float]:
    """Median seconds of each side; they run in turns, after one run of each that is not counted.

    Raises:
        RuntimeError: if one side's NDCG@10 or Hit@10 is not the other's.
    """
    seconds: dict[str, list[float]] = {side: [] for side in sides}
    for repeat in range(repeats + 1):
        results = {}
        for side, run in sides.items():
            taken, result = run()
            results[side] = {key: result[key] for key in ("ndcg@10", "hit@10")}
            if repeat:
                seconds[side].append(taken)
        if not results["recbole"] == results["own"] == results["everything"]:
            raise RuntimeError(f"The sides have different results: {results}")
    return {side: statistics.median(values) for side, values in seconds.items()}


def measure_memory(folder: str, n_users: int, n_items: int = 101_000) -> None:
    """Print peak memory with many items, of one process for each side."""
    data = Path(folder) / "made"
    data.mkdir()
    random = np.random.default_rng(2020)
    # Every item once, the rest at random.
    items = np.concatenate([np.arange(n_items), random.integers(0, n_items, n_items)])
    users = np.sort(random.integers(0, n_users, len(items)))
    rows = [f"{user}\t{item}\t{at}" for at, (user, item) in enumerate(zip(users, items))]
    header = "user_id:token\titem_id:token\ttimestamp:float"
    (data / "made.inter").write_text("\n".join([header, *rows]) + "\n")
    peak = {}
    for side in ("chunk", "own", "recbole"):
        command = [sys.executable, str(WORKERS / "memory.py"), folder, "4096", side]
        done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
        if done.returncode:
            raise RuntimeError(done.stderr)
        peak[side] = float(done.stdout.split()[-1])
        print(f"evaluation_peak_memory_{side}_mb: {peak[side]:.0f}")
    print(f"evaluation_peak_memory_ratio: {peak['own'] / peak['chunk']:.3f}", flush=True)


if __name__ == "__main__":
    main()
