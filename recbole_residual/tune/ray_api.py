"""Every call of Ray's that this package makes, for Ray 2.6 (what recbole 1.2.1 asks for) and newer.

What moved between the versions: ``RunConfig`` and ``FailureConfig`` (``ray.air``, now
``ray.tune``) and how a trial reports (``ray.air.session.report``, now ``ray.tune.report``).
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Callable

from recbole_residual.errors import ConfigError, MissingPackageError, RayDiedError
from recbole_residual.tune.process import environment

try:
    import ray
    from ray import tune as ray_tune
    from ray.tune import Callback
    from ray.tune.schedulers import ASHAScheduler, FIFOScheduler
    from ray.tune.search import Searcher
except ImportError:  # without Ray these modules still load; `require_ray` says what is missing
    ray = ray_tune = None
    ASHAScheduler = FIFOScheduler = Callback = Searcher = object

__all__ = [
    "ASHAScheduler",
    "Callback",
    "FIFOScheduler",
    "MissingPackageError",
    "RayDiedError",
    "Resources",
    "Searcher",
    "TrialQueue",
    "answers_of_workers",
    "check_resources",
    "connected",
    "fit",
    "in_worker",
    "put",
    "report",
    "require_ray",
]

_SECONDS_TO_ANSWER = 5.0
"""How long a cluster's head may take to answer."""

CONTINUE, STOP = "CONTINUE", "STOP"
"""What a scheduler answers (``TrialScheduler.CONTINUE`` and ``.STOP``)."""

SECONDS_BETWEEN_CHECKS = 5.0
"""Between two looks at whether the node of this process is alive."""

_ENVIRONMENT = {
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",  # the trial's own run folder holds all of it
    "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",  # a trial that failed has no score to report
    "RAY_AIR_NEW_OUTPUT": "0",  # this package prints the table
}


@dataclass(frozen=True)
class Resources:
    """What one trial may use, and where.

    Attributes:
        cpus_per_trial: processors, and threads, of a trial.
        gpus_per_trial: GPUs of a trial, 0.25 for four trials on one; None is one GPU if there is
            any, else none.
        max_concurrent: most trials at a time; None is as many as fit.
        ray_address: a cluster to join (``auto``, ``host:port``); None is this machine alone.
    """

    cpus_per_trial: float = 1
    gpus_per_trial: float | None = None
    max_concurrent: int | None = None
    ray_address: str | None = None


def require_ray() -> None:
    """Say how to install Ray if it is not there.

    Raises:
        MissingPackageError: without Ray.
    """
    if ray is None:
        raise MissingPackageError(
            "tuning and benchmarks run on Ray, which is not installed: pip install "
            "'recbole-residual[tune]', or pip install 'ray[tune]'."
        )


@contextmanager
def connected(address: str | None) -> Iterator[None]:
    """Inside, Ray runs: one that the caller has started, the cluster at ``address``, or a new one.

    Only what was started here is shut down again.
    """
    if ray.is_initialized():
        yield
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent to anybody
    if address:
        _check_address(address)
    try:
        ray.init(
            address=address or "local",
            include_dashboard=None if address else False,
            log_to_driver=False,  # every trial has its own run.log
            logging_level=logging.ERROR,
        )
    except (ConnectionError, TimeoutError, ValueError) as error:
        raise ConfigError(
            f"ray_address = {address!r}: there is no Ray to join ({error})."
        ) from error
    try:
        yield
    finally:
        ray.shutdown()


def _check_address(address: str) -> None:
    """Look whether anybody answers: Ray itself tries for minutes."""
    place = address.partition("://")[2] if "://" in address else address
    host, colon, port = place.rpartition(":")
    if address == "auto" or not colon:
        return
    try:
        with socket.create_connection((host.strip("[]"), int(port)), _SECONDS_TO_ANSWER):
            pass
    except (OSError, ValueError, OverflowError) as error:
        raise ConfigError(
            f"ray_address = {address!r} does not answer ({error}). Start Ray there (ray start "
            "--head), or leave ray_address out to work on this machine alone."
        ) from error


def check_resources(resources: Resources) -> None:
    """Refuse a trial for which no machine that is there has room: Ray would wait for one for ever.

    Raises:
        ConfigError: saying what the largest machine has.
    """
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    for name, kind, wanted in (
        ("cpus_per_trial", "CPU", resources.cpus_per_trial),
        ("gpus_per_trial", "GPU", gpus_per_trial(resources)),
    ):
        largest = max((node.get(kind, 0) for node in nodes), default=0)
        if wanted > largest:
            raise ConfigError(
                f"{name} = {wanted:g} is more than the {largest:g} that the largest machine of "
                "this Ray has, so no trial could ever start."
            )


class NodeWatch(Callback):
    """Notices that the node of this process has died; Ray itself would wait for it for ever.

    Made while Ray is connected.
    """

    def __init__(self) -> None:
        self._node = ray.get_runtime_context().get_node_id()
        self._next = 0.0

    def on_step_end(self, iteration: int, trials: Any, **info: Any) -> None:
        """Ray has looked at its trials once more."""
        if time.monotonic() >= self._next:
            self.check()
            self._next = time.monotonic() + SECONDS_BETWEEN_CHECKS

    def check(self) -> None:
        """Look now.

        Raises:
            RayDiedError: if the node is gone.
        """
        if not any(node["NodeID"] == self._node and node["Alive"] for node in ray.nodes()):
            raise RayDiedError("Ray's process on this machine (raylet) has died.")


def gpus_per_trial(resources: Resources) -> float:
    """GPUs of a trial on the machines that are there: none of them is asked for where none is."""
    if not ray.cluster_resources().get("GPU"):
        return 0
    return 1 if resources.gpus_per_trial is None else resources.gpus_per_trial


def places(resources: Resources, gpus: float) -> int:
    """How many trials fit on the machines that are there at a time, at least 1."""
    there = ray.cluster_resources()
    fitting = [there.get("CPU", 0) / resources.cpus_per_trial] if resources.cpus_per_trial else []
    if gpus:
        fitting.append(there["GPU"] / gpus)
    if resources.max_concurrent:
        fitting.append(resources.max_concurrent)
    return max(1, int(min(fitting, default=1)))


def put(value: Any) -> Any:
    """Put a value into Ray's object store: one copy for all trials of a node."""
    return ray.put(value)


def get(reference: Any) -> Any:
    """The value of a reference; its arrays cannot be written to."""
    return ray.get(reference)


def report(metrics: Mapping[str, Any]) -> None:
    """From inside a trial: hand metrics to the scheduler; it may end the trial here."""
    if _is_new():
        ray_tune.report(dict(metrics))
    else:
        from ray.air import session

        session.report(dict(metrics))


@dataclass(frozen=True)
class TrialQueue:
    """The trials of one call of :func:`fit`, and who looks after them.

    Attributes:
        searcher: suggests the trials.
        n_trials: how many trials the searcher has at most.
        ahead: how many trials may wait for a process at a time. Processes take seconds to start.
        scheduler: may end a trial after a report.
        callbacks: are told what happens.
        max_failures: how often a trial whose process died is started again.
    """

    searcher: Any
    n_trials: int
    ahead: int
    scheduler: Any = None
    callbacks: Sequence[Any] = ()
    max_failures: int = 0


def fit(
    trainable: Callable[[dict[str, Any]], None],
    queue: TrialQueue,
    resources: Resources,
    gpus: float,
    storage: str,
) -> None:
    """Run trials; returns when all have ended, or after Ctrl-C.

    Args:
        trainable: what a trial does with what the searcher suggests.
        queue: the trials.
        resources: of a trial.
        gpus: of a trial.
        storage: folder for Ray's own files.
    """
    if _is_new():
        from ray.tune import FailureConfig, RunConfig
    else:
        from ray.air import FailureConfig, RunConfig

    with environment(**_ENVIRONMENT, TUNE_MAX_PENDING_TRIALS_PG=str(queue.ahead)):
        tuner = ray_tune.Tuner(
            ray_tune.with_resources(
                trainable, {"cpu": resources.cpus_per_trial, **({"gpu": gpus} if gpus else {})}
            ),
            tune_config=ray_tune.TuneConfig(
                metric="score",
                mode="max",
                search_alg=queue.searcher,
                scheduler=queue.scheduler,
                num_samples=queue.n_trials,
                max_concurrent_trials=resources.max_concurrent,
                reuse_actors=True,  # a process that has loaded torch takes the next trial
                trial_dirname_creator=lambda trial: trial.trial_id,
            ),
            run_config=RunConfig(
                name="trials",
                storage_path=storage,
                failure_config=FailureConfig(max_failures=queue.max_failures),
                callbacks=[*queue.callbacks, NodeWatch()],
                verbose=0,
            ),
        )
        with _quiet("ray.tune"):
            tuner.fit()


@contextmanager
def _quiet(name: str) -> Iterator[None]:
    """Inside, a logger of Ray's says nothing: pages on a process that died, which the table tells,
    and warnings that Ray's own result files are missing, which are not written."""
    logger = logging.getLogger(name)
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


def in_worker(
    function: Callable[..., Any],
    arguments: Sequence[tuple[Any, ...]],
    resources: Resources,
    gpus: float,
    max_retries: int,
) -> None:
    """Call a function once per tuple of arguments in processes with the resources of a trial."""
    for _, answer in answers_of_workers(function, arguments, resources, gpus, max_retries):
        if isinstance(answer, Exception):
            raise answer


def answers_of_workers(
    function: Callable[..., Any],
    arguments: Sequence[tuple[Any, ...]],
    resources: Resources,
    gpus: float,
    max_retries: int,
) -> Iterator[tuple[int, Any]]:
    """The same, one by one as they end: the number of the arguments, and what the function
    returned; or an exception, if its process died more often than ``max_retries``."""
    remote = ray.remote(function).options(
        num_cpus=resources.cpus_per_trial, num_gpus=gpus, max_retries=max_retries
    )
    died = (ray.exceptions.WorkerCrashedError, ray.exceptions.OutOfMemoryError)
    watch = NodeWatch()
    left = list(enumerate(arguments))[::-1]
    running: dict[Any, int] = {}
    while left or running:
        while left and len(running) < (resources.max_concurrent or len(arguments)):
            number, of_one = left.pop()
            running[remote.remote(*of_one)] = number
        done, _ = ray.wait(list(running), timeout=SECONDS_BETWEEN_CHECKS)
        for reference in done:
            try:
                answer = ray.get(reference)
            except died as error:
                answer = error
            yield running.pop(reference), answer
        watch.check()


def domain(kind: str, arguments: Sequence[Any]) -> Any:
    """One of Ray Tune's distributions.

    Args:
        kind: its name in Ray Tune: choice, uniform, quniform, loguniform, randint, ...
        arguments: for ``choice`` the values, else numbers.
    """
    if kind == "choice":
        return ray_tune.choice(list(arguments))
    return getattr(ray_tune, kind)(*arguments)


def search_algorithm(
    name: str, space: dict[str, Any], points: list[dict[str, Any]], seed: int
) -> Any:
    """Optuna or HyperOpt as Ray Tune wraps them.

    Args:
        name: ``optuna`` or ``hyperopt``.
        space: Ray's distributions by name.
        points: what to suggest first.
        seed: of its random generator.

    Raises:
        MissingPackageError: if it is not installed.
    """
    package = {"optuna": "optuna", "hyperopt": "hyperopt"}[name]
    try:
        __import__(package)
    except ImportError as error:
        raise MissingPackageError(
            f"search: {name} needs a package that is not installed: pip install {package}. "
            "`random` and `grid` need none."
        ) from error
    first = points or None
    if name == "optuna":
        from ray.tune.search.optuna import OptunaSearch

        return OptunaSearch(space, metric="score", mode="max", points_to_evaluate=first, seed=seed)
    from ray.tune.search.hyperopt import HyperOptSearch

    return HyperOptSearch(
        space, metric="score", mode="max", points_to_evaluate=first, random_state_seed=seed
    )


def _is_new() -> bool:
    return hasattr(ray_tune, "RunConfig")
