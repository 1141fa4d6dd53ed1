"""ASHA, dataset by dataset: scores on different datasets do not compare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Callable

from recbole_residual.tune.ray_api import CONTINUE, STOP, ASHAScheduler, FIFOScheduler

_NO_LIMIT = 10**6
"""More epochs than any training has: trials end by their own ``epochs``."""


class AshaByDataset(FIFOScheduler):
    """Ray's ASHA for the trials of each dataset.

    Args:
        grace_period: epochs that every trial gets.
        reduction_factor: one in so many goes on at each halt.
        on_stop: told the key of a trial that is ended.
    """

    def __init__(
        self, grace_period: int, reduction_factor: int, on_stop: Callable[[str], None]
    ) -> None:
        super().__init__()
        self._settings = {"grace_period": grace_period, "reduction_factor": reduction_factor}
        self._on_stop = on_stop
        self._by_dataset: dict[str, Any] = {}

    def set_search_properties(self, metric: Any, mode: Any, **spec: Any) -> bool:
        """Ray's question whether the metric may be set; here it is ``score``."""
        return True

    def remember(self, dataset: str, histories: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
        """Let trials that ended in an earlier process count, each report at its time.

        Args:
            dataset: its name.
            histories: of trials on it, by key.
        """
        past = {key: SimpleNamespace(trial_id=f"past-{key}") for key in histories}
        for stub in past.values():
            self._asha(dataset).on_trial_add(None, stub)
        reports = [(row["time"], key, row) for key, rows in histories.items() for row in rows]
        for _, key, row in sorted(reports, key=lambda report: report[:2]):
            self._asha(dataset).on_trial_result(None, past[key], row)

    def on_trial_add(self, controller: Any, trial: Any) -> None:
        """Ray has a new trial."""
        self._asha(trial.config["dataset"]).on_trial_add(controller, trial)

    def on_trial_result(self, controller: Any, trial: Any, result: dict[str, Any]) -> str:
        """Whether a trial goes on after a report; one that has ended by itself always may."""
        decision = self._asha(trial.config["dataset"]).on_trial_result(controller, trial, result)
        if decision != STOP or result.get("ended"):
            return CONTINUE
        self._on_stop(trial.config["trial"])
        return STOP

    def _asha(self, dataset: str) -> Any:
        if dataset not in self._by_dataset:
            self._by_dataset[dataset] = ASHAScheduler(
                time_attr="epoch", metric="score", mode="max", max_t=_NO_LIMIT, **self._settings
            )
        return self._by_dataset[dataset]
