"""Every control over several seeds: the tables of docs/controls.md.

    python benchmarks/controls.py runs/controls            # ml-100k, three seeds, 50 epochs at most
    python benchmarks/controls.py runs/controls --quick    # one seed, two epochs
    python benchmarks/controls.py runs/ligr --dataset=amazon-beauty --data_path=... --epochs=20 \
        --seeds=1 --only SASRecResidual "block: ligr"
    python benchmarks/controls.py --seconds                # processor time of an epoch of each

Each run has a folder of its own. One that is finished is read and not repeated, one that was
interrupted goes on where it stopped, so the command can be stopped and started again; the first
seed of every control comes before the second of any, and ``--finished`` only reads. After each run
``controls.csv`` in the folder has one row per finished run. The table is printed as Markdown: mean
and standard deviation over seeds of test NDCG@10, HRLI@1, the mixing ratio ``res``, the relative
drop of NDCG@10 under ``shuffle_prefix`` and ``shuffle_all``, RecoveryRate@10 at the alpha chosen on
validation (epsilon 0.05), and that alpha.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pandas as pd
import torch

from recbole_residual import run
from recbole_residual.config.probe_names import probes_after_training
from recbole_residual.config.residual_config import ResidualConfig
from recbole_residual.diagnose.full_run import probe_run, resume
from recbole_residual.errors import CheckpointError
from recbole_residual.files import write_text
from recbole_residual.run.session import build_session
from recbole_residual.trainer.trainer import get_trainer

CONTROLS: dict[str, tuple[str, dict[str, Any]]] = {
    "SASRecResidual": ("SASRecResidual", {}),
    "norm: pre": ("SASRecResidual", {"norm": "pre"}),
    "SASRecPSD": ("SASRecPSD", {}),
    "attention_norm_p: 2": ("SASRecResidual", {"attention_norm_p": 2.0}),
    "alpha_train: learned": ("SASRecResidual", {"alpha_train": "learned"}),
    "block: ligr": ("SASRecResidual", {"block": "ligr"}),
    "SetRec, sum": ("SetRec", {"pooling": "sum"}),
    "SetRec, attention": ("SetRec", {"pooling": "attention"}),
    "SASRecTAM": ("SASRecTAM", {}),
    "SASRecTAM, linear": ("SASRecTAM", {"tam": "linear"}),
    "loss_type: SSM": ("SASRecResidual", {"loss_type": "SSM"}),
    "loss_type: gBCE": ("SASRecResidual", {"loss_type": "gBCE"}),
}
COLUMNS = (
    "NDCG@10",
    "HRLI@1",
    "ratio `res`",
    "drop, shuffle_prefix",
    "drop, shuffle_all",
    "RecoveryRate@10 at chosen alpha",
    "chosen alpha",
)
QUICK_PROBES = probes_after_training("quick")


def figures(folder: Path) -> dict[str, float]:
    """The row of one finished run; NaN where a model does not have a figure."""
    test = json.loads((folder / "result.json").read_text(encoding="utf-8"))["test_result_unrounded"]
    shuffles = pd.read_csv(folder / "probe" / "shuffle.csv").set_index("mode")
    about = json.loads((folder / "probe" / "alpha_selection.json").read_text("utf-8"))["about"]
    selection = pd.read_csv(folder / "probe" / "alpha_selection.csv").set_index("epsilon")
    has_alpha = isinstance(about["alpha"], float)  # an empty list for a model without a residual
    recovery = selection.loc[about["epsilon"], "test_recoveryrate@10"]
    return {
        "NDCG@10": test["ndcg@10"],
        "HRLI@1": test["hrli@1"],
        "ratio `res`": test.get("mixingratio_res", math.nan),
        "drop, shuffle_prefix": shuffles.loc["shuffle_prefix", "ndcg@10_drop"],
        "drop, shuffle_all": shuffles.loc["shuffle_all", "ndcg@10_drop"],
        "RecoveryRate@10 at chosen alpha": recovery if has_alpha else math.nan,
        "chosen alpha": about["alpha"] if has_alpha else math.nan,
    }


def unanswered(folder: Path) -> list[str]:
    """The probes that a run still lacks."""
    return [name for name in QUICK_PROBES if not (folder / "probe" / f"{name}.json").is_file()]


def is_finished(folder: Path) -> bool:
    """Whether a run has its result and all probes."""
    return (folder / "result.json").is_file() and not unanswered(folder)


def finish(name: str, seed: int, folder: Path, options: argparse.Namespace) -> None:
    """Bring one run to its end, from wherever it is."""
    if not folder.exists():
        model, changes = CONTROLS[name]
        told = {
            **changes,
            "seed": seed,
            "epochs": options.epochs,
            "probe": "quick",
            "report": False,
            "show_progress": False,
            "output_dir": str(folder),
        }
        if options.data_path:
            told["data_path"] = options.data_path
        run(model, options.dataset, config_dict=told)
    elif not (folder / "result.json").is_file():
        resume(folder)
    missing = unanswered(folder)
    if missing:
        probe_run(folder, missing)


def table_of_runs(options: argparse.Namespace) -> pd.DataFrame:
    """Every run, one row each; ``controls.csv`` has those that are finished so far."""
    rows: list[dict[str, Any]] = []
    asked = [(name, 2026 + n) for n in range(options.seeds) for name in options.only]
    for number, (name, seed) in enumerate(asked, 1):
        folder = options.folder / f"{name.replace(': ', '-').replace(', ', '-')}-{seed - 2026}"
        begin = time.time()
        if options.finished and not is_finished(folder):
            continue
        try:
            finish(name, seed, folder, options)
        except CheckpointError as error:  # killed before its first epoch, or in use by another
            print(f"{number} of {len(asked)}: {name}, seed {seed} is left out: {error}", flush=True)
            continue
        rows.append({"control": name, "seed": seed, **figures(folder)})
        table = pd.DataFrame(rows)
        write_text(options.folder / "controls.csv", table.to_csv(index=False))
        print(
            f"{number} of {len(asked)}: {name}, seed {seed}, {time.time() - begin:.0f} s, "
            f"NDCG@10 {rows[-1]['NDCG@10']:.4f}",
            flush=True,
        )
    return pd.DataFrame(rows)


def cell(values: pd.Series) -> str:
    """Mean and standard deviation, a dash where there is nothing."""
    if values.isna().all():
        return "-"
    spread = f" ± {statistics.stdev(values):.4f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.4f}{spread}"


def print_markdown(header: list[str], rows: list[list[str]]) -> None:
    for line in (header, ["---", *["---:"] * (len(header) - 1)], *rows):
        print("| " + " | ".join(line) + " |")


class Epochs:
    """Epochs of training of one control, without validation.

    Args:
        name: of the control.
        folder: for what the trainer writes.
        options: of the command.
    """

    def __init__(self, name: str, folder: str, options: argparse.Namespace) -> None:
        model, changes = CONTROLS[name]
        told = {**changes, "show_progress": False, "checkpoint_dir": folder, "seed": 2026}
        if options.data_path:
            told["data_path"] = options.data_path
        config = ResidualConfig(model, options.dataset, config_dict=told)
        session = build_session(config)
        self._data = session.train_data
        self._trainer = get_trainer(config["MODEL_TYPE"], config.model_class)(config, session.model)

    def seconds(self) -> float:
        """Of the processor for one epoch, with one thread."""
        begin = time.process_time()
        self._trainer._train_epoch(self._data, 0)
        return time.process_time() - begin


def measure_seconds(options: argparse.Namespace) -> None:
    """The least of some epochs of each, taken in turn, so that all meet the same machine."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        sides = {name: Epochs(name, folder, options) for name in options.only}
        least = dict.fromkeys(sides, math.inf)
        for number in range(1 if options.quick else 3):
            for name, side in sides.items():
                least[name] = min(least[name], side.seconds())
            print(f"round {number + 1}: {least}", flush=True)
    first = least[options.only[0]]
    rows = [[name, f"{value:.2f}", f"{value / first:.2f}"] for name, value in least.items()]
    print_markdown(["control", "seconds", f"over {options.only[0]}"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path, nargs="?", help="where the runs go")
    parser.add_argument("--quick", action="store_true", help="one seed and two epochs")
    parser.add_argument("--seconds", action="store_true", help="processor time of an epoch instead")
    parser.add_argument("--finished", action="store_true", help="read finished runs, run nothing")
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--dataset", default="ml-100k")
    parser.add_argument("--data_path", help="folder of the atomic files")
    parser.add_argument(
        "--only", nargs="*", choices=list(CONTROLS), default=list(CONTROLS), metavar="CONTROL"
    )
    options = parser.parse_args()
    sys.argv = sys.argv[:1]  # RecBole reads it too
    if options.seconds:
        measure_seconds(options)
        return
    if options.folder is None:
        parser.error("folder: where the runs go")
    if options.quick:
        options.seeds, options.epochs = 1, 2
    table = table_of_runs(options)
    rows = [
        [name, str(len(runs)), *(cell(runs[column]) for column in COLUMNS)]
        for name, runs in table.groupby("control", sort=False)
    ]
    print_markdown(["control", "runs", *COLUMNS], rows)


if __name__ == "__main__":
    main()
