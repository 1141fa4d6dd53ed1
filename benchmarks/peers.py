"""SASRec of one size, trained by RecTools, by RePlay and by this package: time, memory, accuracy.

    python benchmarks/peers.py [--quick] [--install] [--data_path=DIR] [--datasets ...]

All three train the same network on the same sequences (leave-one-out, each user's latest items, a
target at every position, cross-entropy over the whole catalogue, Adam) and rank the whole
catalogue for the test set. Each side runs in its own process, RecTools and RePlay in virtual
environments that ``--install`` makes from exact versions under ``--environments``. ``--quick``
takes ml-100k alone. With ``--batches N`` an epoch is timed on its first N batches and scaled, and
accuracy is not compared. Times are given by the clock and by the processor (``cpu``): on a machine
that does other work as well, with one thread, the second is the one to compare.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent / "peer_workers"))

import own_sasrec
import torch

from recbole_residual.config.residual_config import ResidualConfig
from recbole_residual.data import create_dataset, data_preparation
from recbole_residual.model.sasrec_residual import SASRecResidual

WORKERS = Path(__file__).resolve().parent / "peer_workers"
TORCH = "2.13.0"
PEERS = {
    "rectools": ["rectools[torch]==0.19.0"],
    "replay": ["replay-rec==0.22.0", "lightning==2.5.6"],
}
MAX_LENGTH = {"ml-100k": 50, "amazon-beauty": 50, "ml-1m": 200}


def interpreter(environments: Path, peer: str) -> Path:
    folder = environments / peer
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def install(environments: Path) -> None:
    """Make the environments that are missing; say plainly what could not be installed."""
    environments.mkdir(parents=True, exist_ok=True)
    constraints = environments / "constraints.txt"
    constraints.write_text(f"torch=={TORCH}\n")
    for peer, packages in PEERS.items():
        if interpreter(environments, peer).exists():
            continue
        print(f"installing {' '.join(packages)} into {environments / peer}", flush=True)
        venv.create(environments / peer, with_pip=True)
        python = str(interpreter(environments, peer))
        command = [python, "-m", "pip", "install", "--quiet", "-c", str(constraints), *packages]
        result = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
        if result.returncode:
            print(f"{peer} could not be installed: {result.stderr.strip().splitlines()[-1]}")


def write_task(options: argparse.Namespace, dataset: str, folder: Path) -> int:
    """Sizes and sequences for all sides; gives back how many batches an epoch has."""
    task = {
        "dataset": dataset,
        "data_path": options.data_path,
        "hidden_size": 64,
        "n_layers": 2,
        "n_heads": 2,
        "dropout": 0.2,
        "max_length": MAX_LENGTH.get(dataset, 50),
        "batch_size": 128,
        "eval_batch_size": 256,
        "learning_rate": 1e-3,
        "epochs": options.epochs,
        "batches": options.batches,
        "threads": options.threads,
    }
    config = ResidualConfig(
        SASRecResidual,
        dataset,
        config_dict=own_sasrec.settings(SimpleNamespace(**task), str(folder)),
    )
    data = data_preparation(config, create_dataset(config))[2].dataset
    own_sasrec.write_sequences(data, folder / "sequences.npz")
    (folder / "task.json").write_text(json.dumps({**task, "n_items": data.item_num}))
    return -(-(data.user_num - 1) // task["batch_size"])


def run_side(side: str, python: Path | str, folder: Path) -> dict[str, float] | None:
    result = subprocess.run(
        [str(python), str(WORKERS / f"{side}_sasrec.py"), str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode:
        print(f"{side} failed:\n{result.stderr[-2000:]}", flush=True)
        return None
    return json.loads(result.stdout.strip().splitlines()[-1])


def measure(options: argparse.Namespace, dataset: str) -> dict[str, float]:
    figures: dict[str, float] = {}
    sides: dict[str, Any] = {"own": sys.executable}
    for peer in PEERS:
        python = interpreter(options.environments, peer)
        if python.exists():
            sides[peer] = python
        else:
            print(f"{peer} is not installed: --install makes {options.environments / peer}.")
    name = dataset.replace("-", "_")
    with tempfile.TemporaryDirectory() as folder:
        n_batches = write_task(options, dataset, Path(folder))
        for side, python in sides.items():
            found = run_side(side, python, Path(folder))
            if found is None:
                continue
            if options.batches and options.batches < n_batches:
                for key in ("epoch_seconds", "epoch_cpu_seconds"):
                    found[key] *= n_batches / options.batches
                del found["ndcg"]
            print(dataset, side, {key: round(value, 4) for key, value in found.items()}, flush=True)
            figures |= {f"{key}_{side}_{name}": value for key, value in found.items()}
    for peer in PEERS:
        if f"epoch_seconds_{peer}_{name}" not in figures:
            continue
        for clock in ("", "cpu_"):
            theirs = figures[f"epoch_{clock}seconds_{peer}_{name}"]
            own = figures[f"epoch_{clock}seconds_own_{name}"]
            figures[f"epoch_{clock}speedup_vs_{peer}_{name}"] = theirs / own
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="ml-100k alone")
    parser.add_argument("--install", action="store_true", help="install the missing peers first")
    parser.add_argument(
        "--environments", type=Path, default=Path(tempfile.gettempdir()) / "recbole_residual_peers"
    )
    parser.add_argument("--data_path", help="folder with amazon-beauty and ml-1m as atomic files")
    parser.add_argument("--datasets", nargs="+", help="instead of ml-100k, amazon-beauty, ml-1m")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batches", type=int, help="time this many batches of an epoch")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args()
    sys.argv = sys.argv[:1]  # RecBole reads it too
    if options.install:
        install(options.environments)
    datasets = options.datasets or (["ml-100k"] if options.quick else list(MAX_LENGTH))
    figures: dict[str, float] = {}
    for dataset in datasets:
        figures |= measure(options, dataset)
    for key, value in figures.items():
        print(f"{key}: {value:.4g}")


if __name__ == "__main__":
    main()
