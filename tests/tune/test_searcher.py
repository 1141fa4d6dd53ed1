from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("ray")

from recbole_residual.errors import MissingPackageError
from recbole_residual.tune import ray_api
from recbole_residual.tune.folder import TrialDefinition
from recbole_residual.tune.ray_api import Searcher
from recbole_residual.tune.searcher import PlannedSearcher, Suggestions
from recbole_residual.tune.space import Space


def definition(number: int, point: dict[str, Any]) -> TrialDefinition:
    return TrialDefinition(f"{number:04d}-{point['x']}", "M", "d", point, dict(point))


class Counting:
    """A search algorithm that suggests x = 0, 1, 2, ... and remembers what it is told."""

    def __init__(self, points: list[dict[str, Any]], repeat: int = 1) -> None:
        self.first = list(points)
        self.suggested: dict[str, Any] = {}
        self.told: dict[str, Any] = {}
        self._next = 0
        self._repeat = repeat

    def suggest(self, name: str) -> dict[str, Any]:
        if self.first:
            point = self.first.pop(0)
        else:
            point = {"x": self._next // self._repeat}
            self._next += 1
        self.suggested[name] = point
        return point

    def on_trial_complete(self, name: str, result: Any = None, error: bool = False) -> None:
        self.told[name] = None if error else result["score"]


def suggestions(algorithm: Any, earlier: Any, scores: Any, most: int, record: Any) -> Suggestions:
    return Suggestions(algorithm, earlier, scores, most, definition, record)


def test_planned_trials_come_in_their_order_and_then_no_more() -> None:
    planned = [definition(i, {"x": i}) for i in range(3)]
    searcher = PlannedSearcher(planned)
    configs = [searcher.suggest(f"ray{i}") for i in range(3)]
    assert [config["trial"] for config in configs] == [trial.key for trial in planned]
    assert [TrialDefinition(**config["definition"]) for config in configs] == planned
    assert not searcher.exhausted
    assert searcher.suggest("ray3") == Searcher.FINISHED
    assert searcher.exhausted


def test_a_suggestion_is_written_down_before_it_starts_and_its_score_is_told() -> None:
    algorithm, written = Counting([]), []
    searcher = PlannedSearcher([], suggestions(algorithm, [], {}, 2, written.append))
    first = searcher.suggest("ray0")
    assert [trial.key for trial in written] == [first["trial"]] == ["0000-0"]
    searcher.on_trial_complete("ray0", {"best": 0.7, "score": 0.2})
    assert list(algorithm.told.values()) == [0.7]
    searcher.suggest("ray1")
    searcher.on_trial_complete("ray1", None, error=True)
    assert list(algorithm.told.values()) == [0.7, None]
    assert searcher.suggest("ray2") == Searcher.FINISHED


def test_what_was_suggested_before_is_not_trained_again_but_told_again() -> None:
    algorithm, written = Counting([], repeat=3), []
    source = suggestions(algorithm, [], {}, 3, written.append)
    first = source.next()
    assert first is not None
    source.ended(first.key, 0.5)
    second = source.next()
    assert [trial.point["x"] for trial in written] == [0, 1]
    assert second is written[1]
    assert list(algorithm.told.values()) == [0.5, 0.5, 0.5]


def test_an_algorithm_that_repeats_itself_for_ever_ends_the_search() -> None:
    source = suggestions(Counting([], repeat=10**6), [], {}, 5, lambda trial: None)
    assert source.next() is not None
    assert source.next() is None


def test_a_resumed_search_repeats_its_suggestions_and_is_told_what_is_known() -> None:
    earlier = [definition(i, {"x": 10 + i}) for i in range(3)]
    algorithm = Counting([trial.point for trial in earlier])
    scores = {earlier[0].key: 0.1, earlier[2].key: None}
    source = suggestions(algorithm, earlier, scores, 4, lambda trial: None)
    assert algorithm.suggested == {trial.key: trial.point for trial in earlier}
    assert algorithm.told == scores
    source.ended(earlier[1].key, 0.9)
    assert algorithm.told[earlier[1].key] == 0.9
    new = source.next()
    assert new is not None
    assert new.key == "0003-0"
    assert source.next() is None


@pytest.mark.parametrize("name", ["optuna", "hyperopt"])
def test_the_real_algorithms_suggest_learn_and_resume(name: str) -> None:
    pytest.importorskip(name)
    space = Space.read(
        {
            "search": name,
            "space": {"x": {"uniform": [0.0, 1.0]}, "n": [1, 2], "q": {"quniform": [2, 8, 2]}},
        }
    )
    domains = {key: part.domain() for key, part in space.parameters.items()}

    def make(number: int, point: Any) -> TrialDefinition:
        plain = space.plain(point)
        return TrialDefinition(f"{number:04d}-{plain['x']}", "M", "d", plain, plain)

    trials: list[TrialDefinition] = []
    source = Suggestions(
        ray_api.search_algorithm(name, domains, [], 1), [], {}, 6, make, trials.append
    )
    for _ in range(4):
        trial = source.next()
        assert trial is not None
        assert 0 <= trial.point["x"] <= 1
        assert trial.point["n"] in (1, 2)
        assert trial.point["q"] in (2, 4, 6, 8)
        source.ended(trial.key, -((trial.point["x"] - 0.3) ** 2))
    again = ray_api.search_algorithm(name, domains, [trial.point for trial in trials], 1)
    resumed = Suggestions(again, trials, {trials[0].key: 0.0}, 6, make, trials.append)
    fifth = resumed.next()
    assert fifth is not None
    assert fifth.key.startswith("0004-")


def test_an_algorithm_that_is_not_installed_is_told(monkeypatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "optuna", None)
    with pytest.raises(MissingPackageError, match="pip install optuna"):
        ray_api.search_algorithm("optuna", {}, [], 1)
