"""Loading and splitting a dataset: time and peak memory, side by side with RecBole.

    python benchmarks/loading.py [--quick] [--data_path=...] [--repeats=3] [--zvuk_batch=16]

Both sides read the same file with user, item and time alone and end with the three loaders for
SASRec; each measurement is a process of its own, the two sides in turn. Then a synthetic set of the
size of Zvuk is loaded, split, trained for a few hundred steps and evaluated by this package alone.
``--data_path`` is a folder with ml-1m; without it a synthetic file of the same size stands in.
``--quick`` takes ml-100k and a Zvuk of a hundredth of the size.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

COLUMNS = ["user_id", "item_id", "timestamp"]


def write_synthetic(folder: Path, name: str, users: int, items: int, rows: int) -> None:
    """Users of log-normal length, items of Zipf-like popularity, times in random order."""
    rng = np.random.default_rng(0)
    length = rng.lognormal(0, 1, users)
    length = np.maximum(5, length / length.sum() * rows).astype(np.int64)
    user = rng.permutation(np.repeat(np.arange(users), length))
    popularity = np.arange(1, items + 1) ** -0.8
    item = rng.choice(items, len(user), p=popularity / popularity.sum())
    item[:items] = np.arange(items)  # every item appears
    stamp = rng.integers(1_600_000_000, 1_620_000_000, len(user))
    path = folder / name
    path.mkdir(parents=True)
    with open(path / f"{name}.inter", "w") as file:
        file.write("user_id:token\titem_id:token\ttimestamp:float\n")
        for begin in range(0, len(user), 500_000):
            part = slice(begin, begin + 500_000)
            np.savetxt(file, np.stack([user[part], item[part], stamp[part]], 1), "%d", "\t")


def peak_mb() -> float:
    """Largest resident memory of this process so far, in MB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1024 * 1024 if sys.platform == "darwin" else 1024)


def measure_side(side: str, data_path: str, dataset: str) -> dict[str, float]:
    """Load and split in this process."""
    import recbole.data
    from recbole.config import Config
    from recbole.model.sequential_recommender import SASRec

    import recbole_residual.data as ours

    sys.argv = sys.argv[:1]
    settings = {"data_path": data_path, "load_col": {"inter": COLUMNS}, "use_gpu": False}
    settings |= {"train_neg_sample_args": None, "show_progress": False}
    settings |= {"loss_positions": "last", "valid_metric": "NDCG@10"}
    module: Any = recbole.data if side == "recbole" else ours
    config = Config(model="SASRec", dataset=dataset, config_dict=settings)
    assert config.model_class is SASRec
    before = peak_mb()
    begin = time.perf_counter()
    loaders = module.data_preparation(config, module.create_dataset(config))
    seconds = time.perf_counter() - begin
    rows = sum(len(loader.dataset) for loader in loaders)
    return {"seconds": seconds, "peak_mb": peak_mb(), "imports_mb": before, "rows": rows}


def measure_zvuk(data_path: str, steps: int, batch: int) -> dict[str, float]:
    """Load, split, train ``steps`` steps and evaluate the synthetic Zvuk in this process."""
    from recbole_residual.config.residual_config import ResidualConfig
    from recbole_residual.data import create_dataset, data_preparation
    from recbole_residual.model import get_model
    from recbole_residual.trainer.trainer import get_trainer

    with tempfile.TemporaryDirectory() as folder:
        config = ResidualConfig(
            model="SASRecResidual",
            dataset="zvuk",
            config_dict={
                "data_path": data_path,
                "checkpoint_dir": folder,
                "use_gpu": False,
                "train_batch_size": batch,
                "show_progress": sys.stderr.isatty(),
            },
        )
        begin = time.perf_counter()
        dataset = create_dataset(config)
        train, _, test = data_preparation(config, dataset)
        loaded, loading_mb = time.perf_counter(), peak_mb()
        model = get_model("SASRecResidual")(config, train.dataset)
        trainer = get_trainer(config["MODEL_TYPE"], type(model))(config, model)
        done = 0
        for done, interaction in enumerate(train, 1):
            trainer.optimizer.zero_grad()
            model.calculate_loss(interaction).backward()
            trainer.optimizer.step()
            if done == steps:
                break
        trained = time.perf_counter()
        trainer.eval_collector.data_collect(train)
        result = trainer.evaluate(test, load_best_model=False)
        return {
            "interactions": dataset.statistics.interactions,
            "items": dataset.statistics.items,
            "load_seconds": loaded - begin,
            "load_peak_mb": loading_mb,
            "steps": done,
            "epoch_steps": len(train),
            "train_seconds": trained - loaded,
            "evaluate_seconds": time.perf_counter() - trained,
            "ndcg@10": float(result["ndcg@10"]),
            "peak_gb": peak_mb() / 1024,
        }


def in_a_process(*arguments: str) -> dict[str, float]:
    """Run this script for one measurement and read the line of JSON it ends with."""
    root = Path(__file__).resolve().parents[1]
    environment = dict(os.environ)
    environment["PYTHONPATH"] = os.pathsep.join(
        [str(root), *filter(None, [environment.get("PYTHONPATH")])]
    )
    output = subprocess.run(
        [sys.executable, "-W", "ignore", __file__, *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout
    return json.loads(output.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="ml-100k and a small Zvuk")
    parser.add_argument("--data_path", help="folder that holds ml-1m/ml-1m.inter")
    parser.add_argument("--repeats", type=int, default=3, help="measurements of each side")
    parser.add_argument("--zvuk_steps", type=int, default=300)
    parser.add_argument("--zvuk_batch", type=int, default=16, help="sequences per step")
    parser.add_argument("--measure", nargs="*", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        what, *rest = arguments.measure
        if what == "zvuk":
            print(json.dumps(measure_zvuk(rest[0], int(rest[1]), int(rest[2]))))
        else:
            print(json.dumps(measure_side(what, *rest)))
        return

    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        data_path, dataset = arguments.data_path or temporary, "ml-1m"
        if arguments.quick:
            dataset = "ml-100k"
        elif arguments.data_path is None:
            print("no --data_path: a synthetic file of the size of ml-1m")
            write_synthetic(folder, dataset, users=6_040, items=3_416, rows=999_611)
        repeats = 1 if arguments.quick else arguments.repeats
        found: dict[str, list[dict[str, float]]] = {"recbole": [], "ours": []}
        for _ in range(repeats):
            for side, results in found.items():
                results.append(in_a_process("--measure", side, data_path, dataset))
                print(side, results[-1], flush=True)
        median = {
            side: {key: statistics.median(r[key] for r in results) for key in results[0]}
            for side, results in found.items()
        }
        assert median["recbole"]["rows"] == median["ours"]["rows"]

        share = 100 if arguments.quick else 1
        write_synthetic(folder, "zvuk", 19_267 // share, 150_206 // share, 8_087_953 // share)
        steps = 5 if arguments.quick else arguments.zvuk_steps
        zvuk = in_a_process("--measure", "zvuk", temporary, str(steps), str(arguments.zvuk_batch))
        print("zvuk", zvuk)

    recbole_side, our_side = median["recbole"], median["ours"]
    print(f"prep_seconds_recbole: {recbole_side['seconds']:.2f}")
    print(f"prep_seconds: {our_side['seconds']:.2f}")
    print(f"prep_peak_mb_recbole: {recbole_side['peak_mb']:.0f}")
    print(f"prep_peak_mb: {our_side['peak_mb']:.0f}")
    print(f"prep_imports_mb: {our_side['imports_mb']:.0f}")
    print(f"prep_speedup_vs_recbole: {recbole_side['seconds'] / our_side['seconds']:.1f}")
    print(f"prep_memory_vs_recbole: {our_side['peak_mb'] / recbole_side['peak_mb']:.3f}")
    print(f"zvuk_size_peak_gb: {zvuk['peak_gb']:.2f}")


if __name__ == "__main__":
    main()
