"""Tune, benchmark, and go on with either: what joins this room."""

from __future__ import annotations

import functools
import json
import math
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Union

import pandas as pd

from recbole_residual.errors import ConfigError
from recbole_residual.files import write_text
from recbole_residual.model.registry import MODELS, get_model
from recbole_residual.report.comparison import compare
from recbole_residual.tune import ray_api, table
from recbole_residual.tune.alpha import plain_values
from recbole_residual.tune.folder import Manifest, TuneFolder
from recbole_residual.tune.plan import Plan
from recbole_residual.tune.progress import Progress
from recbole_residual.tune.ray_api import Resources
from recbole_residual.tune.scheduler import AshaByDataset
from recbole_residual.tune.searcher import PlannedSearcher, Suggestions
from recbole_residual.tune.shared_reads import SharedReads
from recbole_residual.tune.space import AlphaSearch, Parameter, Space, default_space
from recbole_residual.tune.trial import FINISHED, Setup, read_test, trainable

MAX_FAILURES = 3
"""How often a trial whose process died is started again, from its last whole epoch."""

PathLike = Union[str, "os.PathLike[str]"]


@dataclass(frozen=True)
class TuneResult:
    """What came out of a tune or benchmark run; all of it is in its folder as well.

    Attributes:
        folder: of the run.
        mode: ``tune`` or ``benchmark``.
        results: one row per trial, as in ``results.csv``.
        best: the row of the best trial on each dataset, by the validation metric. In a tune it is
            the only one for which the test data was read.
        summary: of a benchmark: mean and standard deviation over seeds.
        text: the table for a terminal.
    """

    folder: str
    mode: str
    results: pd.DataFrame
    best: dict[str, dict[str, Any]]
    summary: pd.DataFrame | None
    text: str

    def __str__(self) -> str:
        return self.text


def tune(
    model: str | None = None,
    dataset: str | None = None,
    space: Union[PathLike, Mapping[str, Any], None] = None,
    config_file_list: Sequence[PathLike] | None = None,
    config_dict: Mapping[str, Any] | None = None,
    *,
    search: str | None = None,
    num_samples: int | None = None,
    scheduler: str | None = None,
    resources: Resources | None = None,
) -> TuneResult:
    """Search hyper-parameters; the best trial on validation is tested, once.

    Args:
        model: name of a model; not needed if the space or a file names it.
        dataset: name of a dataset, likewise.
        space: a space file, or its content; by default the one in ``properties/tune``.
        config_file_list: yaml files of the configuration of every trial.
        config_dict: values that win over them.
        search, num_samples, scheduler: win over the space's.
        resources: of a trial, and where to run.

    Returns:
        TuneResult: the table of all trials, and the best one.

    Raises:
        ConfigError, SpaceError: for a mistake, before anything is trained.
        MissingPackageError: without Ray, or without what the search needs.

    Example:
        >>> tune("SASRecResidual", "ml-1m", num_samples=30).best  # doctest: +SKIP
    """
    ray_api.require_ray()
    keys = dict(config_dict or {})
    if isinstance(space, Mapping):
        wanted = Space.read(space)
    elif space is not None:
        wanted = Space.load(space)
    else:
        wanted = Space.load(default_space(get_model(model) if model else object))
    wanted = replace(
        wanted,
        search=search or wanted.search,
        num_samples=num_samples if num_samples is not None else wanted.num_samples,
        scheduler=scheduler or wanted.scheduler,
    ).checked()
    for name, value in (("model", model), ("dataset", dataset)):
        if value is not None and wanted.values(name):
            raise ConfigError(f"{name} = {value!r} is given, and the space searches it as well.")
    plan = Plan.of(
        wanted.values("model") or [model],
        wanted.values("dataset") or [dataset],
        config_file_list,
        keys,
        tuple(wanted.parameters),
    )
    return _start("tune", plan, wanted, keys.get("output_dir"), resources or Resources())


def benchmark(
    models: Sequence[str],
    datasets: Sequence[str],
    seeds: Sequence[int] = (2020,),
    config_file_list: Sequence[PathLike] | None = None,
    config_dict: Mapping[str, Any] | None = None,
    *,
    alpha_search: AlphaSearch | None = None,
    resources: Resources | None = None,
) -> TuneResult:
    """Train and test every model on every dataset with every seed.

    Args:
        models: their names.
        datasets: their names.
        seeds: their values.
        config_file_list: yaml files of the configuration of every trial.
        config_dict: values that win over them.
        alpha_search: the questions about alpha.
        resources: of a trial, and where to run.

    Returns:
        TuneResult: the table of all trials and its summary over seeds.

    Raises:
        ConfigError: for a mistake, before anything is trained.
        MissingPackageError: without Ray.

    Example:
        >>> benchmark(["SASRecResidual"], ["ml-100k"], [1, 2, 3]).summary  # doctest: +SKIP
    """
    ray_api.require_ray()
    axes = {"dataset": list(datasets), "model": list(models), "seed": [int(s) for s in seeds]}
    for name, values in axes.items():
        if not values:
            raise ConfigError(f"a benchmark needs at least one {name}: --{name}s=...")
    space = Space(
        {name: Parameter.read(name, values) for name, values in axes.items()},
        search="grid",
        alpha_search=alpha_search or AlphaSearch(),
    )
    keys = dict(config_dict or {})
    plan = Plan.of(models, datasets, config_file_list, keys, ("seed",))
    return _start("benchmark", plan, space, keys.get("output_dir"), resources or Resources())


def resume_tune(folder: PathLike, **resources: Any) -> TuneResult:
    """Go on with an interrupted tune or benchmark run; trials that have ended are not repeated.

    Args:
        folder: of the run.
        **resources: what of :class:`Resources` is to change.

    Returns:
        As :func:`tune`; of a run that is finished, the result it has.

    Raises:
        ConfigError: if the folder is no such run's, or another process works on it.
    """
    ray_api.require_ray()
    tune_folder = TuneFolder.existing(folder)
    manifest = tune_folder.read_manifest()
    manifest.resources.update(asdict(Resources(**{**manifest.resources, **resources})))
    return _Run(tune_folder, manifest).finish()


def _start(
    mode: str, plan: Plan, space: Space, output_dir: Any, resources: Resources
) -> TuneResult:
    manifest = Manifest(
        mode,
        plan.metric,
        plan.bigger,
        space.to_plain(),
        asdict(resources),
        plan.to_plain(),
        [] if space.sequential else plan.trials(space),
    )
    only = plan.bases[0].config if len(plan.bases) == 1 else None
    name = f"{mode}-{only['model']}-{only['dataset']}" if only else mode
    return _Run(TuneFolder.create(name, output_dir), manifest, plan).finish()


class _Run:
    """One process's work on a run.

    Args:
        folder: of the run.
        manifest: its plan.
        plan: what makes further trials; by default from the manifest.
    """

    def __init__(self, folder: TuneFolder, manifest: Manifest, plan: Plan | None = None) -> None:
        self.folder, self.manifest = folder, manifest
        self.plan = plan or Plan.of_plain(manifest.bases)
        self.space = Space.read(manifest.space)
        self.resources = Resources(**manifest.resources)

    def finish(self) -> TuneResult:
        """Do what is left to do."""
        with self.folder.claimed():
            self.folder.write_manifest(self.manifest)
            self.progress = Progress(self.folder, self.manifest)
            try:
                if self._to_train() or self._to_test():
                    with ray_api.connected(self.resources.ray_address):
                        self._work()
            except (KeyboardInterrupt, ray_api.RayDiedError) as reason:
                self.progress.refresh(force=True)
                self.progress.announce(
                    f"{str(reason) or 'Interrupted.'} To go on: --resume={self.folder}"
                )
                raise
            return self._result()

    def _to_train(self) -> int:
        """How many trials have not ended."""
        if self.space.sequential:
            return self.space.num_samples - len(self.progress.outcomes)
        return len(self.progress.unfinished())

    def _to_test(self) -> list[str]:
        if self.manifest.mode == "benchmark":
            return []
        best = table.best_trials(self.manifest, self.progress.outcomes).values()
        return [key for key in best if "test_result" not in self.progress.outcomes[key]]

    def _work(self) -> None:
        self.progress.announce(f"After an interruption, go on with --resume={self.folder}")
        gpus = ray_api.gpus_per_trial(self.resources)
        if self.resources.gpus_per_trial and not gpus:
            self.progress.announce("There is no GPU: trials run on the processor.")
        setup = self._setup(gpus)
        if self._to_train():
            self._train(setup, gpus)
        keys = self._to_test()
        if keys:
            self.progress.say(f"Reading the test data for {', '.join(keys)}")
            ray_api.in_worker(
                read_test, [(key, setup) for key in keys], self.resources, gpus, MAX_FAILURES
            )
            for key in keys:
                self.progress.read(key)

    def _setup(self, gpus: float) -> Setup:
        reads = SharedReads(ray_api.put, ray_api.get)
        for base in self.plan.bases:
            source = reads.read(base.config)
            self.progress.say(f"Data of {base.config['dataset']}: {source}")
        own = __name__.partition(".")[0]
        return Setup(
            folder=str(self.folder),
            tests=self.manifest.mode == "benchmark",
            sign=1 if self.manifest.bigger else -1,
            alpha_search=self.space.alpha_search,
            cpus=self.resources.cpus_per_trial,
            gpus=gpus,
            reads=reads,
            models=tuple(
                model for model in MODELS.values() if model.__module__.partition(".")[0] != own
            ),
        )

    def _train(self, setup: Setup, gpus: float) -> None:
        progress, space = self.progress, self.space
        progress.refresh(force=True)
        searcher = PlannedSearcher(progress.unfinished(), self._suggestions())
        scheduler = None
        if space.scheduler == "asha":
            scheduler = AshaByDataset(space.grace_period, space.reduction_factor, progress.stopped)
            for dataset, histories in progress.histories().items():
                scheduler.remember(dataset, histories)
        ray_api.fit(
            functools.partial(trainable, setup=setup),
            searcher=searcher,
            scheduler=scheduler,
            callbacks=[progress],
            n_trials=self._to_train(),
            ahead=1 if space.sequential else ray_api.places(self.resources, gpus),
            resources=self.resources,
            gpus=gpus,
            max_failures=MAX_FAILURES,
            storage=str(self.folder.ray_folder),
        )
        shutil.rmtree(self.folder.ray_folder, ignore_errors=True)  # nothing of it is read again
        if progress.interrupted() or not (searcher.exhausted or not self._to_train()):
            raise KeyboardInterrupt  # Ray has taken Ctrl-C and returns what it has

    def _suggestions(self) -> Suggestions | None:
        if not self.space.sequential:
            return None
        trials = self.manifest.trials
        return Suggestions(
            ray_api.search_algorithm(
                self.space.search,
                {name: part.domain() for name, part in self.space.parameters.items()},
                [trial.point for trial in trials],
                self.space.seed,
            ),
            trials,
            self.progress.scores(),
            self.space.num_samples,
            lambda number, point: self.plan.trial(number, self.space.plain(point)),
            self.progress.add,
        )

    def _result(self) -> TuneResult:
        progress, manifest = self.progress, self.manifest
        progress.refresh(force=True)
        results = progress.results()
        keys = table.best_trials(manifest, progress.outcomes)
        by_key = results.set_index("trial", drop=False)
        best = {dataset: _plain_row(by_key.loc[key].to_dict()) for dataset, key in keys.items()}
        summary = None
        text = progress.text(results)
        if manifest.mode == "benchmark":
            summary = table.summary_table(results)
            write_text(self.folder.summary_file, table.to_csv(summary))
            text += f"\n\n{_in_short(summary, manifest.metric)}"
            self._report()
        else:
            if not best:
                text += f"\n\nNo trial got to an end; their logs are in {self.folder}/trials."
            for dataset, row in best.items():
                text += f"\n\n{_best_in_words(dataset, row, manifest.metric, self.folder)}"
        content = {
            "mode": manifest.mode,
            "valid_metric": manifest.metric,
            "trials": results["status"].value_counts().to_dict(),
            "best": best,
        }
        write_text(self.folder.result_file, json.dumps(content, indent=2) + "\n")
        progress.log(text)
        return TuneResult(str(self.folder), manifest.mode, results, best, summary, text)

    def _report(self) -> None:
        """One page on all trials, if the configuration wants reports."""
        outcomes = self.progress.outcomes
        wanted = {
            (base.config["model"], base.config["dataset"]): base.config["report"]
            for base in self.plan.bases
        }
        folders = [
            self.folder.trial(trial.key).path
            for trial in self.manifest.trials
            if wanted[trial.model, trial.dataset]
            and outcomes.get(trial.key, {}).get("status") == FINISHED
        ]
        if len(folders) > 1:  # a single trial has a report of its own
            page, *_ = compare(folders).save(self.folder.report_folder)
            self.progress.announce(f"Saved {page}")


def _plain_row(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in plain_values(row).items() if value is not None}


def _best_in_words(dataset: str, row: Mapping[str, Any], metric: str, folder: TuneFolder) -> str:
    name = metric.lower()
    lines = [f"best on {dataset}: {row['trial']}, valid {metric} {row['best_valid_score']:.4f}"]
    if f"test_{name}" in row:
        lines[0] += f", test {metric} {row[f'test_{name}']:.4f}"
    if "alpha" in row:
        lines.append(f"alpha chosen on validation: {row['alpha']}")
    if "alpha_per_layer" in row:
        lines.append(f"the same by layer: {row['alpha_per_layer']}")
    lines.append(f"saved in {folder.trial(row['trial'])}")
    return "\n".join(lines)


def _in_short(summary: pd.DataFrame, metric: str) -> str:
    """The table of a benchmark: mean and standard deviation of the test figures that matter."""
    wanted = ["hit@10", metric.lower(), "hrli@1", "mixingratio_res_last"]
    shown = summary[["dataset", "model", "seeds"]].copy() if len(summary) else summary
    for name in dict.fromkeys(wanted):
        column = f"test_{name}"
        if f"{column}_mean" in summary:
            pairs = zip(summary[f"{column}_mean"], summary[f"{column}_std"])
            shown[column] = [
                f"{mean:.4f}" if math.isnan(std) else f"{mean:.4f} ± {std:.4f}"
                for mean, std in pairs
            ]
    return table.in_text(shown)
