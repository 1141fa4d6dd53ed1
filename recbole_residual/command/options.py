"""What can be typed: the options, and the configuration keys beside them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from recbole_residual.config.pages import help_lines
from recbole_residual.config.probe_names import PROBES
from recbole_residual.errors import UsageError

_EPILOG = """\
Every other option is a key of the configuration, as in RecBole: --key=value. This package's own,
and where it differs from RecBole (docs/configuration.md has all of them):

{keys}

examples:
  %(prog)s --model=SASRecResidual --dataset=ml-100k
  %(prog)s -m SASRecResidual -d ml-1m --data_path=data --alpha=0.3
  %(prog)s --model=SASRecResidual --dataset=ml-100k --config_files="mine.yaml more.yaml"
  %(prog)s --resume=output/SASRecResidual-ml-100k-20260101-120000-abc123
  %(prog)s --mode=probe --run=output/SASRecResidual-ml-100k-20260101-120000-abc123
  %(prog)s --mode=probe --run=output/... --probes="shuffle reliance"
  %(prog)s --mode=report --run=output/... --latex=True
  %(prog)s --mode=compare --runs output/a output/b output/c
  %(prog)s --mode=diagnose --checkpoint=saved/SASRec-Jan-01-2026_00-00-00.pth --data_path=dataset
  %(prog)s --mode=import --file=ratings.csv --user=userId --item=movieId --time=timestamp
  %(prog)s --mode=explain --run=output/... --items 242 302 377
  %(prog)s --mode=tune --model=SASRecResidual --dataset=ml-1m --num_samples=30
  %(prog)s --mode=tune --space=mine.yaml --gpus_per_trial=0.25 --max_concurrent=8
  %(prog)s --mode=benchmark --datasets ml-100k ml-1m --models SASRecResidual GRU4RecResidual \\
      --seeds 1 2 3
  %(prog)s --mode=benchmark --study=quick
  %(prog)s --mode=benchmark --study=papers --data_path=data --datasets amazon-beauty mine
  %(prog)s --mode=report --rows=output/study-papers

probes of a trained model (--mode=probe), without retraining:
{probes}

A run's folder holds report.html, result.json, config.yaml, run.log, checkpoint.pth and the folders
probe, tables and figures.
Documentation: docs/getting_started.md
"""


MODES = (
    "train",
    "probe",
    "report",
    "diagnose",
    "explain",
    "compare",
    "tune",
    "benchmark",
    "import",
)
"""What the command can do."""


def parser(prog: str | None = None) -> argparse.ArgumentParser:
    """The options that are not configuration keys."""
    probes = "\n".join(f"  {name:<20} {text}" for name, text in PROBES.items())
    result = argparse.ArgumentParser(
        prog=prog,
        description="How much a sequential recommender leans on the last item, and why.",
        epilog=_EPILOG.replace("{probes}", probes).replace("{keys}", "\n".join(help_lines())),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    result.add_argument("--mode", choices=MODES, default="train", help="what to do: %(choices)s")
    _add_training(result.add_argument_group("training"))
    _add_asking(result.add_argument_group("asking a trained model"))
    _add_search(result.add_argument_group("--mode=tune (a search) and --mode=benchmark"))
    _add_import(result.add_argument_group("--mode=import (data of your own)"))
    return result


def _add_training(group: Any) -> None:
    group.add_argument(
        "--model", "-m", help="a model of this package (SASRecResidual) or of RecBole"
    )
    group.add_argument("--dataset", "-d", help="name of a dataset; ml-100k works offline")
    group.add_argument(
        "--config_files", metavar="FILES", help="yaml files, separated by blanks, the last wins"
    )
    group.add_argument("--resume", metavar="FOLDER", help="go on with an interrupted run")
    group.add_argument(
        "--retry_failed",
        action="store_true",
        default=None,
        help="with --resume of a search: try the trials that failed once more",
    )


def _add_asking(group: Any) -> None:
    group.add_argument(
        "--run", metavar="FOLDER", help="the run that --mode=probe, report or explain speaks of"
    )
    group.add_argument(
        "--probes", metavar="NAMES", help="which probes, separated by blanks (default: all)"
    )
    group.add_argument(
        "--checkpoint", metavar="FILE", help="what --mode=diagnose or explain looks at: a .pth file"
    )
    group.add_argument(
        "--trust_checkpoint",
        choices=("True", "False"),
        help="True: load it as an ordinary pickle, which runs what it contains",
    )
    group.add_argument(
        "--runs", nargs="+", metavar="FOLDER", help="the runs that --mode=compare compares"
    )
    group.add_argument(
        "--items",
        nargs="+",
        metavar="ITEM",
        help="the sequence that --mode=explain explains, tokens of the dataset, the oldest first",
    )
    group.add_argument("--k", type=int, metavar="N", help="items to recommend (default 10)")
    group.add_argument(
        "--html", metavar="FOLDER", help="where --mode=explain writes its page, figure and tables"
    )


def _add_search(group: Any) -> None:
    group.add_argument("--space", metavar="FILE", help="search space: yaml or RecBole's run_hyper")
    group.add_argument("--search", help="grid, random, optuna or hyperopt (default: the space's)")
    group.add_argument("--num_samples", type=int, metavar="N", help="number of trials")
    group.add_argument("--scheduler", help="asha ends trials that are behind; none")
    group.add_argument(
        "--study",
        metavar="NAME",
        help="the papers' claims on many datasets: papers, quick (minutes), or a yaml file",
    )
    group.add_argument(
        "--rows",
        metavar="FOLDER",
        help="what an earlier study measured: not trained again; --mode=report makes pages of it",
    )
    group.add_argument(
        "--datasets", "--sets", nargs="+", metavar="NAME", help="of a benchmark or study"
    )
    group.add_argument("--models", nargs="+", metavar="NAME", help="of a benchmark")
    group.add_argument("--seeds", nargs="+", type=int, metavar="N", help="of a benchmark")
    group.add_argument("--cpus_per_trial", type=float, metavar="X", help="default 1")
    group.add_argument(
        "--gpus_per_trial", type=float, metavar="X", help="0.25: four on one; default 1 if any"
    )
    group.add_argument("--max_concurrent", type=int, metavar="N", help="most trials at a time")
    group.add_argument(
        "--ray_address", metavar="ADDRESS", help="a Ray cluster to join: auto, or host:port"
    )


def _add_import(group: Any) -> None:
    group.add_argument("--file", metavar="FILE", help="csv or parquet with a row an interaction")
    for name in ("user", "item", "time"):
        group.add_argument(f"--{name}", metavar="COLUMN", help=f"its column of {name}s")
    group.add_argument("--item_names", metavar="FILE", help="csv or parquet with names of items")
    group.add_argument("--name", help="name of the dataset (default: that of the file)")


RESOURCES = ("cpus_per_trial", "gpus_per_trial", "max_concurrent", "ray_address")

COLUMNS = ("user", "item", "time")

_USED = {
    "train": ("model", "dataset", "config_files"),
    "resume": ("resume", "retry_failed", *RESOURCES),
    "probe": ("run", "probes"),
    "report": ("run", "rows"),
    "diagnose": ("checkpoint", "trust_checkpoint"),
    "explain": ("run", "checkpoint", "items", "k", "html"),
    "compare": ("runs",),
    "tune": (
        "model",
        "dataset",
        "config_files",
        "space",
        "search",
        "num_samples",
        "scheduler",
        *RESOURCES,
    ),
    "benchmark": (
        "study",
        "rows",
        "datasets",
        "models",
        "seeds",
        "config_files",
        *RESOURCES,
    ),
    "import": ("file", *COLUMNS, "item_names", "name"),
}
"""Which options each way to call the command reads."""


def parse(argv: Sequence[str], prog: str | None = None) -> tuple[argparse.Namespace, dict]:
    """Split a command line into the options above and configuration keys.

    Raises:
        UsageError: for an argument that is neither.

    Example:
        >>> options, keys = parse(["-m", "SASRecResidual", "--alpha=0.3"])
        >>> options.model, keys
        ('SASRecResidual', {'alpha': '0.3'})
    """
    options, rest = parser(prog).parse_known_args(list(argv))
    keys: dict[str, str] = {}
    for argument in rest:
        name, equals, value = argument.partition("=")
        if not (name.startswith("--") and equals and name[2:]):
            raise UsageError(
                f"cannot read {argument!r}: configuration keys are written --key=value."
            )
        key = name[2:]
        if keys.setdefault(key, value) != value:
            raise UsageError(f"--{key} is given twice, with different values.")
    return options, keys


def check_use(options: argparse.Namespace, way: str) -> None:
    """Refuse an option that would be ignored."""
    if options.resume and options.mode != "train":
        raise UsageError(f"--mode={options.mode} has no use with --resume: the run's folder says.")
    for name, value in vars(options).items():
        if value is None or name == "mode" or name in _USED[way]:
            continue
        if way == "resume":
            raise UsageError(f"--{name} has no use with --resume: the run's folder says.")
        modes = " and ".join(f"--mode={mode}" for mode in MODES if name in _USED[mode])
        raise UsageError(f"--{name} has no use with --mode={way}; it is for {modes}.")
