"""The command: what is typed becomes a call; nothing else happens here."""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from recbole_residual.config.probe_names import PROBES
from recbole_residual.errors import NothingFinishedError, ResidualError, UsageError

_EPILOG = """\
Every other option is a key of the configuration, as in RecBole: --key=value.

  --alpha=0.3                 residual factor at inference; or one per layer: --alpha=[0.3,1]
  --alpha_train=1             the same during training
  --data_path=DIR             where DIR/<dataset>/<dataset>.inter is looked for
  --output_dir=DIR            the run's folder (default ./output/<model>-<dataset>-<time>-<id>)
  --epochs=20 --learning_rate=1e-3 --topk=[1,10] --metrics="['NDCG','HRLI']" --valid_metric=NDCG@10
  --loss_positions=last       RecBole's own samples and loss, one position per row
  --probe=none                no probes after training; --probe=full: every probe
  --latex=True                the tables of the report as LaTeX too; --report=False: no report
  --strict_config=False       only warn of keys that nothing reads

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
  %(prog)s --mode=explain --run=output/... --items 242 302 377
  %(prog)s --mode=tune --model=SASRecResidual --dataset=ml-1m --num_samples=30
  %(prog)s --mode=tune --space=mine.yaml --gpus_per_trial=0.25 --max_concurrent=8
  %(prog)s --mode=benchmark --datasets ml-100k ml-1m --models SASRecResidual GRU4RecResidual \\
      --seeds 1 2 3

probes of a trained model (--mode=probe), without retraining:
{probes}

A run's folder holds report.html, result.json, config.yaml, run.log, checkpoint.pth and the folders
probe, tables and figures.
Documentation: docs/getting_started.md
"""


MODES = ("train", "probe", "report", "diagnose", "explain", "compare", "tune", "benchmark")
"""What the command can do."""


def parser(prog: str | None = None) -> argparse.ArgumentParser:
    """The options that are not configuration keys."""
    probes = "\n".join(f"  {name:<20} {text}" for name, text in PROBES.items())
    result = argparse.ArgumentParser(
        prog=prog,
        description="How much a sequential recommender leans on the last item, and why.",
        epilog=_EPILOG.replace("{probes}", probes),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    result.add_argument(
        "--model", "-m", help="a model of this package (SASRecResidual) or of RecBole"
    )
    result.add_argument("--dataset", "-d", help="name of a dataset; ml-100k works offline")
    result.add_argument(
        "--config_files", metavar="FILES", help="yaml files, separated by blanks, the last wins"
    )
    result.add_argument("--resume", metavar="FOLDER", help="go on with an interrupted run")
    result.add_argument("--mode", choices=MODES, default="train", help="what to do: %(choices)s")
    result.add_argument(
        "--run", metavar="FOLDER", help="the run that --mode=probe, report or explain speaks of"
    )
    result.add_argument(
        "--probes", metavar="NAMES", help="which probes, separated by blanks (default: all)"
    )
    result.add_argument(
        "--checkpoint", metavar="FILE", help="what --mode=diagnose or explain looks at: a .pth file"
    )
    result.add_argument(
        "--trust_checkpoint",
        choices=("True", "False"),
        help="True: load it as an ordinary pickle, which runs what it contains",
    )
    result.add_argument(
        "--runs", nargs="+", metavar="FOLDER", help="the runs that --mode=compare compares"
    )
    result.add_argument(
        "--items",
        nargs="+",
        metavar="ITEM",
        help="the sequence that --mode=explain explains, tokens of the dataset, the oldest first",
    )
    result.add_argument("--k", type=int, metavar="N", help="items to recommend (default 10)")
    result.add_argument(
        "--html", metavar="FOLDER", help="where --mode=explain writes its page, figure and tables"
    )
    tune = result.add_argument_group("--mode=tune (hyper-parameter search) and --mode=benchmark")
    tune.add_argument("--space", metavar="FILE", help="search space: yaml or RecBole's run_hyper")
    tune.add_argument("--search", help="grid, random, optuna or hyperopt (default: the space's)")
    tune.add_argument("--num_samples", type=int, metavar="N", help="number of trials")
    tune.add_argument("--scheduler", help="asha ends trials that are behind; none")
    tune.add_argument("--datasets", nargs="+", metavar="NAME", help="of a benchmark")
    tune.add_argument("--models", nargs="+", metavar="NAME", help="of a benchmark")
    tune.add_argument("--seeds", nargs="+", type=int, metavar="N", help="of a benchmark")
    tune.add_argument(
        "--retry_failed",
        action="store_true",
        default=None,
        help="with --resume: try the trials that failed once more",
    )
    tune.add_argument("--cpus_per_trial", type=float, metavar="X", help="default 1")
    tune.add_argument(
        "--gpus_per_trial", type=float, metavar="X", help="0.25: four on one; default 1 if any"
    )
    tune.add_argument("--max_concurrent", type=int, metavar="N", help="most trials at a time")
    tune.add_argument(
        "--ray_address", metavar="ADDRESS", help="a Ray cluster to join: auto, or host:port"
    )
    return result


_RESOURCES = ("cpus_per_trial", "gpus_per_trial", "max_concurrent", "ray_address")

_USED = {
    "train": ("model", "dataset", "config_files"),
    "resume": ("resume", "retry_failed", *_RESOURCES),
    "probe": ("run", "probes"),
    "report": ("run",),
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
        *_RESOURCES,
    ),
    "benchmark": ("datasets", "models", "seeds", "config_files", *_RESOURCES),
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


def main(argv: Sequence[str] | None = None, prog: str | None = None) -> int:
    """Run the command; the console script ``recbole-residual`` and run_recbole_residual.py.

    Args:
        argv: the arguments, ``sys.argv[1:]`` by default.
        prog: how the command is called in messages.

    Returns:
        Exit code: 0, or 2 for a mistake that a message explains, or 130 after Ctrl-C.
    """
    arguments = sys.argv[1:] if argv is None else argv
    try:
        options, keys = parse(arguments, prog)
        _dispatch(options, keys)
    except KeyboardInterrupt:
        return 130
    except ResidualError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _dispatch(options: argparse.Namespace, keys: dict[str, Any]) -> None:
    way = "resume" if options.resume else options.mode
    _check_use(options, way)
    from recbole_residual import compat  # torch is slow to import, and --help does not need it

    compat.check_recbole_version()
    with warnings.catch_warnings():
        compat.silence_known_warnings()
        _WAYS[way](options, keys)


def _check_use(options: argparse.Namespace, way: str) -> None:
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


def config_files(text: str | None) -> list[str] | None:
    """The files of ``--config_files``: separated by blanks, which a name may hold as well.

    Example:
        >>> config_files("mine.yaml more.yaml")
        ['mine.yaml', 'more.yaml']
    """
    if not text:
        return None
    files: list[str] = []
    words = text.split(" ")
    while words:
        # the longest run of words that names a file is one name
        lengths = [n for n in range(len(words), 0, -1) if os.path.isfile(" ".join(words[:n]))]
        taken = lengths[0] if lengths else 1
        files.append(" ".join(words[:taken]))
        words = words[taken:]
    return [file for file in files if file]


def _train(options: argparse.Namespace, keys: dict[str, Any]) -> None:
    from recbole_residual.diagnose.full_run import run
    from recbole_residual.report.page import report

    result = run(options.model, options.dataset, config_files(options.config_files), keys)
    print(report(result["run_folder"]))


def _resume(options: argparse.Namespace, keys: dict[str, Any]) -> None:
    from recbole_residual.diagnose.full_run import resume
    from recbole_residual.report.page import report
    from recbole_residual.tune.folder import is_tune_folder

    if not is_tune_folder(options.resume):
        for name in (*_RESOURCES, "retry_failed"):
            if getattr(options, name) is not None:
                raise UsageError(f"--{name} is for a tune or benchmark run, not a single one.")
        print(report(resume(options.resume, keys)["run_folder"]))
        return
    from recbole_residual.tune.run import resume_tune

    if keys:
        raise UsageError(f"--{next(iter(keys))} cannot change for a run that exists.")
    retry = bool(options.retry_failed)
    _show(resume_tune(options.resume, retry_failed=retry, **_resources(options)))


def _probe(options: argparse.Namespace, keys: dict[str, Any]) -> None:
    from recbole_residual.diagnose.full_run import probe_run

    if not options.run:
        raise UsageError("--mode=probe asks a finished run: say which, --run=FOLDER.")
    names = options.probes.split() if options.probes else list(PROBES)
    for answer in probe_run(options.run, names, keys).values():
        print(f"\n{answer}")


def _report(options: argparse.Namespace, keys: dict[str, Any]) -> None:
    from recbole_residual.report.writing import rewrite_report

    if not options.run:
        raise UsageError("--mode=report is about a run: say which, --run=FOLDER.")
    latex = _latex(keys)
    _refuse_keys(keys, "report")
    print(f"{rewrite_report(options.run, latex)}\n\nsaved in {options.run}")


def _diagnose(options: argparse.Namespace, keys: dict[str, Any]) -> None:
    from recbole_residual.diagnose.diagnosis import diagnose

    if not options.checkpoint:
        raise UsageError("--mode=diagnose looks at a checkpoint: say which, --checkpoint=FILE.")
    trust = options.trust_checkpoint == "True"
    print(diagnose(options.checkpoint, config_dict=keys, trust_checkpoint=trust))


def _explain(options: argparse.Namespace, keys: dict[str, Any]) -> None:
    from recbole_residual.diagnose.explanation import explain

    source = options.run or options.checkpoint
    if not source or (options.run and options.checkpoint):
        raise UsageError("--mode=explain asks one model: --run=FOLDER or --checkpoint=FILE.")
    if not options.items:
        raise UsageError("--mode=explain explains a sequence: say which, --items ITEM ITEM ...")
    k = 10 if options.k is None else options.k
    explanation = explain(source, _split(options.items), k=k, config_dict=keys)
    print(explanation)
    if options.html:
        file, *_ = explanation.save(options.html)
        print(f"\nsaved {file}")


def _compare(options: argparse.Namespace, keys: dict[str, Any]) -> None:
    from recbole_residual.report.comparison import compare
    from recbole_residual.run.folder import RunFolder

    if not options.runs:
        raise UsageError("--mode=compare takes runs: say which, --runs FOLDER FOLDER ...")
    latex, output_dir = _latex(keys), keys.pop("output_dir", None)
    _refuse_keys(keys, "compare")
    page = compare(options.runs)
    folder = RunFolder.create("compare", f"{len(options.runs)}-runs", output_dir)
    file, *_ = page.save(folder.path, latex)
    print(f"{page}\n\nsaved {file}")


def _latex(keys: dict[str, Any]) -> bool:
    text = str(keys.pop("latex", False)).lower()
    if text not in ("true", "false"):
        raise UsageError(f"latex = {text!r} is not usable: it must be True or False.")
    return text == "true"


def _refuse_keys(keys: dict[str, Any], mode: str) -> None:
    if keys:
        raise UsageError(f"--{next(iter(keys))} has no use with --mode={mode}.")


def _tune(options: argparse.Namespace, keys: dict[str, Any]) -> None:
    from recbole_residual.tune.ray_api import Resources
    from recbole_residual.tune.run import tune

    result = tune(
        options.model,
        options.dataset,
        options.space,
        config_files(options.config_files),
        keys,
        search=options.search,
        num_samples=options.num_samples,
        scheduler=options.scheduler,
        resources=Resources(**_resources(options)),
    )
    _show(result)


def _benchmark(options: argparse.Namespace, keys: dict[str, Any]) -> None:
    from recbole_residual.tune.ray_api import Resources
    from recbole_residual.tune.run import benchmark

    result = benchmark(
        _split(options.models),
        _split(options.datasets),
        options.seeds or [2020],
        config_files(options.config_files),
        keys,
        resources=Resources(**_resources(options)),
    )
    _show(result)


def _show(result: Any) -> None:
    print(result)
    if result.all_failed:
        raise NothingFinishedError(f"every trial failed; their logs are in {result.folder}/trials.")


def _split(names: list[str] | None) -> list[str]:
    return [name for text in names or () for name in text.split()]


def _resources(options: argparse.Namespace) -> dict[str, Any]:
    values = {name: getattr(options, name) for name in _RESOURCES}
    return {name: value for name, value in values.items() if value is not None}


_WAYS = {
    "train": _train,
    "resume": _resume,
    "probe": _probe,
    "report": _report,
    "diagnose": _diagnose,
    "explain": _explain,
    "compare": _compare,
    "tune": _tune,
    "benchmark": _benchmark,
}
