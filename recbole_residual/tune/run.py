"""Tune, benchmark, and go on with either."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Union

from recbole_residual.errors import ConfigError
from recbole_residual.model.registry import get_model
from recbole_residual.tune import ray_api
from recbole_residual.tune.folder import Manifest, TuneFolder
from recbole_residual.tune.plan import Plan
from recbole_residual.tune.ray_api import Resources
from recbole_residual.tune.result import TuneResult
from recbole_residual.tune.space import AlphaSearch, Parameter, Space, default_space
from recbole_residual.tune.work import TuneWork

PathLike = Union[str, "os.PathLike[str]"]


def tune(
    model: str | None = None,
    dataset: str | None = None,
    space: Union[PathLike, Mapping[str, Any], None] = None,
    config_file_list: Sequence[PathLike] | None = None,
    config_dict: Mapping[str, Any] | None = None,
    *,
    resources: Resources | None = None,
    **settings: Any,
) -> TuneResult:
    """Search hyper-parameters; the best trial on validation is tested, once.

    Args:
        model: name of a model; not needed if the space or a file names it.
        dataset: name of a dataset, likewise.
        space: a space file, or its content; by default the one in ``properties/tune``.
        config_file_list: yaml files of the configuration of every trial.
        config_dict: values that win over them.
        resources: of a trial, and where to run.
        **settings: win over the space's own: ``search``, ``num_samples``, ``scheduler``,
            ``grace_period``, ``reduction_factor``, ``seed``; None leaves them.

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
    wanted = wanted.changed(settings)
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


def resume_tune(folder: PathLike, *, retry_failed: bool = False, **resources: Any) -> TuneResult:
    """Go on with an interrupted tune or benchmark run; trials that have ended are not repeated.

    Args:
        folder: of the run.
        retry_failed: try the trials that failed once more, from their last whole epoch; with other
            ``resources``, for those that found too little memory.
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
    if retry_failed:
        with tune_folder.claimed():
            tune_folder.forget_failed(manifest)
    return TuneWork(tune_folder, manifest).finish()


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
    return TuneWork(TuneFolder.create(name, output_dir), manifest, plan).finish()
