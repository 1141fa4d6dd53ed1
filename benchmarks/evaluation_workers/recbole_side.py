"""RecBole 1.2.1 alone: its Config, datasets, loaders, model, Trainer and metrics, nothing mended.

    python benchmarks/evaluation_workers/recbole_side.py SETTINGS

``SETTINGS`` is a JSON file with ``dataset``, ``config``, ``threads`` and ``weights``, a state_dict
of SASRec. For each line that comes in, the validation data is evaluated once, and one line of JSON
goes out: seconds by the clock, seconds of the processor, and the result. What RecBole itself prints
goes to standard error.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from pathlib import Path

import numpy as np
import torch
from recbole.config import Config
from recbole.data import create_dataset, data_preparation
from recbole.model.sequential_recommender import SASRec
from recbole.trainer import Trainer


def main() -> None:
    answers = sys.stdout
    settings = json.loads(Path(sys.argv.pop()).read_text())
    torch.set_num_threads(settings["threads"])
    with contextlib.redirect_stdout(sys.stderr):
        config = Config("SASRec", settings["dataset"], config_dict=settings["config"])
        train, valid, _ = data_preparation(config, create_dataset(config))
        model = SASRec(config, train.dataset).to(config["device"])
        model.load_state_dict(torch.load(settings["weights"]))
        trainer = Trainer(config, model)
        trainer.eval_collector.data_collect(train)
        # From here on RecBole's Trainer is used as after training.
        for _ in sys.stdin:
            # RecBole draws the sampled items from it
            np.random.seed(2020)  # noqa: NPY002
            begin, begin_cpu = time.perf_counter(), time.process_time()
            result = trainer.evaluate(valid, load_best_model=False)
            seconds = time.perf_counter() - begin, time.process_time() - begin_cpu
            print(json.dumps([*seconds, result]), file=answers, flush=True)


if __name__ == "__main__":
    main()
