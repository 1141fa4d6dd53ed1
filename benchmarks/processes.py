"""Two processes that train one model, against one.

    python benchmarks/processes.py [--quick] [--rounds=3] [--epochs=2] [--data_path=...]

Prints

- ``speedup_2_processes``: time of an epoch (training and validation) of one process with one thread
  over that of two processes with one thread each, on ml-1m with RecBole's default network;
- ``single_process_overhead``: what an epoch of one process costs inside a group of one, where the
  loss goes through DistributedDataParallel, over what it costs without: what the machinery itself
  takes. Without ``nproc`` no such code runs.

Times are those of the epochs after the first one, medians over rounds that take turns. They mean
something on a machine with two free processors only; ``load`` says how busy it was. ``--quick``
takes ml-100k, which comes with RecBole.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
from torch import multiprocessing

from recbole_residual import processes
from recbole_residual.config.residual_config import ResidualConfig
from recbole_residual.processes import Place
from recbole_residual.run.session import build_session
from recbole_residual.trainer.data_parallel import DataParallelLoss
from recbole_residual.trainer.trainer import ResidualTrainer


def epoch_seconds(dataset: str, settings: dict[str, Any], epochs: int) -> float:
    """The median over epochs, the first one left out."""
    with tempfile.TemporaryDirectory() as folder:
        config = ResidualConfig("SASRecResidual", dataset, config_dict=settings)
        config["checkpoint_dir"] = folder
        session = build_session(config)
        trainer = ResidualTrainer(config, session.model)
        trainer.eval_collector.data_collect(session.train_data)
        if torch.distributed.is_initialized():  # in a group of one, too
            trainer._parallel = DataParallelLoss(session.model, config["seed"])
        times = []
        for epoch in range(epochs + 1):
            processes.wait_for_all()
            begin = time.perf_counter()
            trainer._train_epoch(session.train_data, epoch)
            trainer._valid_epoch(session.valid_data)
            processes.wait_for_all()
            times.append(time.perf_counter() - begin)
        trainer.tensorboard.close()
    return statistics.median(times[1:])


def one_of(number: int, count: int, folder: str, arguments: tuple[Any, ...]) -> None:
    """One process with one thread, of several or, where ``folder`` is empty, without a group."""
    torch.set_num_threads(1)
    if not folder:
        seconds = epoch_seconds(*arguments)
    else:
        place = Place(number, count, number, str(Path(folder) / "meeting"))
        with processes.joined(place, torch.device("cpu")):
            seconds = epoch_seconds(*arguments)
    if number == 0:
        Path(arguments[1]["output_dir"]).joinpath("seconds").write_text(str(seconds))


def measure(
    count: int, grouped: bool, dataset: str, settings: dict[str, Any], epochs: int
) -> float:
    with tempfile.TemporaryDirectory() as folder:
        arguments = (dataset, {**settings, "output_dir": folder}, epochs)
        meeting = folder if grouped else ""
        multiprocessing.spawn(one_of, args=(count, meeting, arguments), nprocs=count)
        return float(Path(folder, "seconds").read_text())


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--quick", action="store_true", help="ml-100k in the place of ml-1m")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--epochs", type=int, default=2)
    options.add_argument("--data_path", help="folder of ml-1m")
    asked = options.parse_args()
    settings: dict[str, Any] = {"use_gpu": False, "show_progress": False, "metrics": ["NDCG"]}
    settings.update(topk=[10], valid_metric="NDCG@10", use_gpu=False)
    if asked.data_path:
        settings["data_path"] = str(Path(asked.data_path).absolute())
    dataset = "ml-100k" if asked.quick else "ml-1m"
    ways = {"alone": (1, False), "group of one": (1, True), "two": (2, True)}
    times: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(asked.rounds):
        for way, (count, grouped) in ways.items():
            times[way].append(measure(count, grouped, dataset, settings, asked.epochs))
    medians = {way: statistics.median(values) for way, values in times.items()}
    for way, seconds in medians.items():
        print(f"{dataset}, {way}: {seconds:.2f} s an epoch")
    if hasattr(os, "getloadavg"):
        print(f"load: {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    print(f"speedup_2_processes: {medians['alone'] / medians['two']:.2f}")
    print(f"single_process_overhead: {medians['group of one'] / medians['alone']:.2f}")


if __name__ == "__main__":
    main()
