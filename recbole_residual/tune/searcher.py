"""Which trial comes next: those that are planned, then those that a search algorithm suggests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Callable

from recbole_residual.tune.folder import TrialDefinition
from recbole_residual.tune.plan import fingerprint
from recbole_residual.tune.ray_api import Searcher

_TRIES = 20
"""How often a search algorithm may suggest what has been suggested before."""


class PlannedSearcher(Searcher):
    """Hands out trials, and has every one written down before it starts.

    Nothing of its state is in Ray: an interrupted run goes on from what was written down.

    Args:
        planned: the trials that have not ended.
        suggestions: asked for more once these are handed out; None if there are no more.

    Attributes:
        exhausted: whether Ray has asked for more than there is.
    """

    def __init__(
        self, planned: Sequence[TrialDefinition], suggestions: Suggestions | None = None
    ) -> None:
        super().__init__(metric="score", mode="max")
        self._planned = list(planned)
        self._suggestions = suggestions
        self._keys: dict[str, str] = {}
        self.exhausted = False

    def set_search_properties(self, metric: Any, mode: Any, config: Any, **spec: Any) -> bool:
        """Ray's question whether metric and space may be set; both are known."""
        return True

    def suggest(self, trial_id: str) -> Any:
        """The next trial, as :func:`recbole_residual.tune.trial.trainable` takes it."""
        if self._planned:
            trial = self._planned.pop(0)
        else:
            more = self._suggestions.next() if self._suggestions else None
            if more is None:
                self.exhausted = True
                return Searcher.FINISHED
            trial = more
        self._keys[trial_id] = trial.key
        return {"trial": trial.key, "dataset": trial.dataset, "definition": vars(trial)}

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        """A trial has ended; the search algorithm learns from it."""
        if self._suggestions:
            score = None if error or not result else result.get("best")
            self._suggestions.ended(self._keys[trial_id], score)

    def save(self, checkpoint_path: str) -> None:
        """Ray saves a searcher now and then; there is nothing that is not written down already."""

    def restore(self, checkpoint_path: str) -> None:
        """See :meth:`save`."""


class Suggestions:
    """What a search algorithm of Ray's (Optuna, HyperOpt) suggests, as trials.

    A resumed run repeats the suggestions of the first one: the algorithm is given them as its
    first points, and told the scores that are there.

    Args:
        algorithm: Ray's searcher; its first points are those of ``earlier``.
        earlier: the trials that exist, in their order.
        scores: of those that have ended; None for one that failed.
        most: number of trials altogether.
        make: makes a trial of a number and a point.
        record: writes a new trial down.
    """

    def __init__(
        self,
        algorithm: Any,
        earlier: Sequence[TrialDefinition],
        scores: Mapping[str, float | None],
        most: int,
        make: Callable[[int, Mapping[str, Any]], TrialDefinition],
        record: Callable[[TrialDefinition], None],
    ) -> None:
        self._algorithm = algorithm
        self._scores = dict(scores)
        self._keys = {fingerprint(trial): trial.key for trial in earlier}
        self._names = {trial.key: trial.key for trial in earlier}
        self._most = most
        self._make = make
        self._record = record
        for trial in earlier:
            algorithm.suggest(trial.key)
            if trial.key in scores:
                self._tell(trial.key, scores[trial.key])

    def next(self) -> TrialDefinition | None:
        """The next trial that differs from all before; None if there is none to be had."""
        number = len(self._keys)
        if number >= self._most:
            return None
        for attempt in range(_TRIES):
            name = f"{number}-{attempt}"
            trial = self._make(number, self._algorithm.suggest(name))
            same = self._keys.get(fingerprint(trial))
            if same is None:
                self._keys[fingerprint(trial)] = trial.key
                self._names[trial.key] = name
                self._record(trial)
                return trial
            self._tell(name, self._scores.get(same))
        return None

    def ended(self, key: str, score: float | None) -> None:
        """A trial has ended, None if without a score."""
        self._scores[key] = score
        self._tell(self._names[key], score)

    def _tell(self, name: str, score: float | None) -> None:
        if score is None:
            self._algorithm.on_trial_complete(name, error=True)
        else:
            self._algorithm.on_trial_complete(name, {"score": score, "training_iteration": 1})
