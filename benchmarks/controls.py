"""Every control on ml-100k over several seeds: the table of docs/controls.md.

    python benchmarks/controls.py runs/controls            # three seeds, 50 epochs at most
    python benchmarks/controls.py runs/controls --quick    # one seed, two epochs

Each run has a folder of its own; one that is finished is read and not repeated, so the command can
be stopped and started again. The table is printed as Markdown: mean and standard deviation over
seeds of test NDCG@10, HRLI@1, the mixing ratio ``res``, the relative drop of NDCG@10 under
``shuffle_prefix`` and ``shuffle_all``, and RecoveryRate@10 at the alpha chosen on validation.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import Any

import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from recbole_residual import run

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
)


def figures(folder: Path) -> dict[str, float]:
    """The row of one finished run; NaN where a model does not have a figure."""
    test = json.loads((folder / "result.json").read_text(encoding="utf-8"))["test_result_unrounded"]
    shuffles = pd.read_csv(folder / "probe" / "shuffle.csv").set_index("mode")
    selection = folder / "probe" / "alpha_selection.csv"
    recovery = float("nan")
    if selection.is_file():
        about = json.loads(selection.with_suffix(".json").read_text(encoding="utf-8"))["about"]
        table = pd.read_csv(selection)
        recovery = float(
            table.loc[table.epsilon == about["epsilon"], "test_recoveryrate@10"].iloc[0]
        )
    return {
        "NDCG@10": test["ndcg@10"],
        "HRLI@1": test["hrli@1"],
        "ratio `res`": test.get("mixingratio_res", float("nan")),
        "drop, shuffle_prefix": shuffles.loc["shuffle_prefix", "ndcg@10_drop"],
        "drop, shuffle_all": shuffles.loc["shuffle_all", "ndcg@10_drop"],
        "RecoveryRate@10 at chosen alpha": recovery,
    }


def cell(values: list[float]) -> str:
    """Mean and standard deviation, a dash where there is nothing."""
    if any(value != value for value in values):
        return "-"
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.mean(values):.4f} ± {spread:.4f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path, help="where the runs go")
    parser.add_argument("--quick", action="store_true", help="one seed and two epochs")
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--dataset", default="ml-100k")
    parser.add_argument("--only", nargs="*", default=list(CONTROLS), metavar="CONTROL")
    options = parser.parse_args()
    if options.quick:
        options.seeds, options.epochs = 1, 2
    rows = []
    for name in options.only:
        model, changes = CONTROLS[name]
        runs = []
        for seed in range(options.seeds):
            folder = options.folder / f"{name.replace(': ', '-').replace(', ', '-')}-{seed}"
            if not (folder / "result.json").is_file():
                run(
                    model,
                    options.dataset,
                    config_dict={
                        **changes,
                        "seed": 2026 + seed,
                        "epochs": options.epochs,
                        "probe": "quick",
                        "report": False,
                        "show_progress": False,
                        "output_dir": str(folder),
                    },
                )
            runs.append(figures(folder))
        rows.append([name, *(cell([one[column] for one in runs]) for column in COLUMNS)])
    for line in (["control", *COLUMNS], ["---"] * (len(COLUMNS) + 1), *rows):
        print("| " + " | ".join(line) + " |")


if __name__ == "__main__":
    main()
