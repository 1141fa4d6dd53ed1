"""What each mode of the command calls. Imports stand in the functions: torch is slow to import, and
a mistake in the options does not need it."""

from __future__ import annotations

import argparse
from typing import Any

from recbole_residual.command.options import COLUMNS, RESOURCES
from recbole_residual.config.keys import read
from recbole_residual.config.probe_names import PROBES
from recbole_residual.config.typed import split_files
from recbole_residual.errors import NothingFinishedError, UsageError


def _files(options: argparse.Namespace) -> list[str] | None:
    return split_files(options.config_files) if options.config_files else None


def _train(options: argparse.Namespace, keys: dict[str, Any]) -> None:
    from recbole_residual.diagnose.full_run import run_and_report
    from recbole_residual.report.page import report

    result, page = run_and_report(options.model, options.dataset, _files(options), keys)
    if _speaks():
        print(page or report(result["run_folder"]))


def _speaks() -> bool:
    """Of the processes that torchrun has started, one."""
    from recbole_residual.processes import by_torchrun

    place = by_torchrun()
    return place is None or place.number == 0


def _resume(options: argparse.Namespace, keys: dict[str, Any]) -> None:
    from recbole_residual.diagnose.full_run import resume_and_report
    from recbole_residual.report.page import report
    from recbole_residual.study.job import is_study_folder, resume_study
    from recbole_residual.tune.folder import is_tune_folder

    if is_study_folder(options.resume):
        if keys or options.retry_failed:
            what = next(iter(keys), "retry_failed")
            raise UsageError(f"--{what} has no use with the --resume of a study.")
        _show_study(resume_study(options.resume, **_resources(options)))
        return
    if not is_tune_folder(options.resume):
        for name in (*RESOURCES, "retry_failed"):
            if getattr(options, name) is not None:
                raise UsageError(f"--{name} is for a tune or benchmark run, not a single one.")
        result, page = resume_and_report(options.resume, keys)
        if _speaks():
            print(page or report(result["run_folder"]))
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

    if bool(options.run) == bool(options.rows):
        raise UsageError(
            "--mode=report is about a run, --run=FOLDER, or a study's rows, --rows=FOLDER."
        )
    if options.rows:
        from recbole_residual.study.pages import pages_of_rows

        output_dir = _value(keys, "output_dir", None)
        _refuse_keys(keys, "report")
        print(f"saved {pages_of_rows(options.rows, output_dir)}")
        return
    latex = _value(keys, "latex", False)
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
    latex, output_dir = _value(keys, "latex", False), _value(keys, "output_dir", None)
    _refuse_keys(keys, "compare")
    page = compare(options.runs)
    folder = RunFolder.create("compare", f"{len(options.runs)}-runs", output_dir)
    file, *_ = page.save(folder.path, latex)
    print(f"{page}\n\nsaved {file}")


def _value(keys: dict[str, Any], name: str, default: Any) -> Any:
    """The value of a configuration key where no configuration is made."""
    return read(name, keys.pop(name)) if name in keys else default


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
        _files(options),
        keys,
        search=options.search,
        num_samples=options.num_samples,
        scheduler=options.scheduler,
        resources=Resources(**_resources(options)),
    )
    _show(result)


def _study(options: argparse.Namespace, keys: dict[str, Any]) -> None:
    from recbole_residual.study.job import study
    from recbole_residual.tune.ray_api import Resources

    if options.config_files:
        raise UsageError("a study takes its settings from its yaml file and from --key=value.")
    result = study(
        options.study,
        _split(options.datasets),
        _split(options.models),
        options.seeds,
        keys,
        rows=options.rows,
        resources=Resources(**_resources(options)),
    )
    _show_study(result)


def _show_study(result: Any) -> None:
    print(result)
    if result.all_failed:
        raise NothingFinishedError(f"every cell failed; their logs are in {result.folder}/cells.")


def _benchmark(options: argparse.Namespace, keys: dict[str, Any]) -> None:
    if options.study:
        _study(options, keys)
        return
    if options.rows:
        raise UsageError("--rows is for a study: --study=papers, for example.")
    from recbole_residual.tune.ray_api import Resources
    from recbole_residual.tune.run import benchmark

    result = benchmark(
        _split(options.models),
        _split(options.datasets),
        options.seeds or [2020],
        _files(options),
        keys,
        resources=Resources(**_resources(options)),
    )
    _show(result)


def _show(result: Any) -> None:
    print(result)
    if result.all_failed:
        raise NothingFinishedError(f"every trial failed; their logs are in {result.folder}/trials.")


def _import(options: argparse.Namespace, keys: dict[str, Any]) -> None:
    from recbole_residual.data.importing import import_interactions

    for name in ("file", *COLUMNS):
        if not getattr(options, name):
            raise UsageError(
                "--mode=import turns a file into a dataset: "
                f"--file=FILE --user=COLUMN --item=COLUMN --time=COLUMN; --{name} is missing."
            )
    folder = _value(keys, "data_path", "dataset")
    _refuse_keys(keys, "import")
    columns = {name: getattr(options, name) for name in COLUMNS}
    print(
        import_interactions(
            options.file,
            **columns,
            item_names=options.item_names,
            name=options.name,
            data_path=folder,
        )
    )


def _split(names: list[str] | None) -> list[str]:
    return [name for text in names or () for name in text.split()]


def _resources(options: argparse.Namespace) -> dict[str, Any]:
    values = {name: getattr(options, name) for name in RESOURCES}
    return {name: value for name, value in values.items() if value is not None}


WAYS = {
    "train": _train,
    "resume": _resume,
    "probe": _probe,
    "report": _report,
    "diagnose": _diagnose,
    "explain": _explain,
    "compare": _compare,
    "tune": _tune,
    "benchmark": _benchmark,
    "import": _import,
}
