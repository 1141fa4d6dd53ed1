from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ray")

from recbole_residual.tune.ray_api import CONTINUE, STOP
from recbole_residual.tune.scheduler import AshaByDataset

GRACE, FACTOR = 2, 3


class Reports:
    """A scheduler that is told of trials by key."""

    def __init__(self) -> None:
        self.stopped: list[str] = []
        self.asha = AshaByDataset(GRACE, FACTOR, self.stopped.append)
        self.trials: dict[str, Any] = {}

    def report(self, key: str, dataset: str, row: dict[str, Any]) -> str:
        if key not in self.trials:
            trial = SimpleNamespace(
                trial_id=f"ray-{key}", config={"trial": key, "dataset": dataset}
            )
            self.trials[key] = trial
            self.asha.on_trial_add(None, trial)
        return self.asha.on_trial_result(None, self.trials[key], row)


def naive(histories: dict[str, list[float]]) -> dict[str, int]:
    """Trials of one dataset, one after the other: the epoch after which each is ended, or 0."""
    halts = [GRACE * FACTOR**power for power in range(10)]
    there: dict[int, list[float]] = {halt: [] for halt in halts}
    ended = {}
    for key, scores in histories.items():
        ended[key] = 0
        for epoch, score in enumerate(scores, start=1):
            if epoch in halts:
                behind = bool(there[epoch]) and score < np.percentile(
                    there[epoch], (1 - 1 / FACTOR) * 100
                )
                there[epoch].append(score)
                if behind:
                    ended[key] = epoch
                    break
    return ended


@pytest.mark.parametrize("seed", range(5))
def test_trials_that_are_behind_at_a_halt_are_ended_dataset_by_dataset(seed: int) -> None:
    generator = np.random.default_rng(seed)
    reports = Reports()
    want = {}
    for offset, dataset in ((0.0, "a"), (100.0, "b")):
        histories = {f"{dataset}{i}": list(offset + generator.random(20)) for i in range(12)}
        want.update(naive(histories))
        for key, scores in histories.items():
            for epoch, score in enumerate(scores, start=1):
                if reports.report(key, dataset, {"epoch": epoch, "score": score}) == STOP:
                    assert want[key] == epoch
                    break
            else:
                assert want[key] == 0
    assert reports.stopped == [key for key, epoch in want.items() if epoch]
    assert reports.stopped  # otherwise this shows nothing


def test_a_resumed_run_judges_as_if_it_had_not_been_interrupted() -> None:
    generator = np.random.default_rng(3)
    past = {
        f"p{i}": [
            {"epoch": epoch, "score": generator.random(), "time": 100.0 * i + epoch}
            for epoch in range(1, 8)
        ]
        for i in range(8)
    }
    live, resumed = Reports(), Reports()
    for key, rows in past.items():
        for row in rows:
            live.report(key, "a", row)
    resumed.asha.remember("a", past)
    for i in range(8):
        for epoch in range(1, 8):
            row = {"epoch": epoch, "score": generator.random()}
            decision = live.report(f"n{i}", "a", row)
            assert resumed.report(f"n{i}", "a", row) == decision
            if decision == STOP:
                break


def test_a_trial_that_has_ended_by_itself_is_not_ended_again() -> None:
    reports = Reports()
    reports.report("good", "a", {"epoch": GRACE, "score": 1.0})
    final = {"epoch": GRACE, "score": 0.0, "ended": True}
    assert reports.report("bad", "a", final) == CONTINUE
    failed = {"ended": True}
    assert reports.report("failed", "a", failed) == CONTINUE
    assert reports.stopped == []
