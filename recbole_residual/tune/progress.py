"""Watches the trials: keeps the outcomes, the table on the terminal, and the files up to date."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import pandas as pd
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from recbole_residual.errors import ResidualError
from recbole_residual.files import write_text
from recbole_residual.tune import table
from recbole_residual.tune.folder import FAILED, STOPPED, Manifest, TrialDefinition, TuneFolder
from recbole_residual.tune.ray_api import Callback
from recbole_residual.tune.trial import describe

_SECONDS_BETWEEN = 2.0
"""Between two updates that only an epoch gives cause for."""


class Progress(Callback):
    """What is known of all trials, kept in the run's folder as it comes in.

    ``results.csv`` and ``progress.txt`` are replaced whole; ``tune.log`` gets a line for every
    trial that starts or ends. On a terminal the table updates in place, elsewhere it is printed
    once at the end.

    Args:
        folder: of the run.
        manifest: its plan.
    """

    def __init__(self, folder: TuneFolder, manifest: Manifest) -> None:
        self.folder, self.manifest = folder, manifest
        self.outcomes: dict[str, dict[str, Any]] = {}
        self.others: dict[str, dict[str, Any]] = {}
        self._sign = 1 if manifest.bigger else -1

        self._live: Live | None = None
        self._next = 0.0
        self._started = time.monotonic()
        for trial in manifest.trials:
            self.read(trial.key)

    # What is known -----------------------------------------------------------------------------

    def definition(self, key: str) -> TrialDefinition:
        """The trial of that key."""
        return next(trial for trial in self.manifest.trials if trial.key == key)

    def add(self, trial: TrialDefinition) -> None:
        """A trial that was not planned before: it is written down before it starts."""
        self.manifest.trials.append(trial)
        self.folder.write_manifest(self.manifest)

    def unfinished(self) -> list[TrialDefinition]:
        """Trials that have not ended."""
        return [trial for trial in self.manifest.trials if trial.key not in self.outcomes]

    def results(self) -> pd.DataFrame:
        """One row per trial."""
        return table.results_table(self.manifest, self.outcomes, self.others)

    def scores(self) -> dict[str, float | None]:
        """More is better; None for a trial that failed."""
        return {
            key: None if outcome["status"] == FAILED else self._sign * outcome["best_valid_score"]
            for key, outcome in self.outcomes.items()
        }

    def histories(self) -> dict[str, dict[str, list[dict[str, Any]]]]:
        """The reports of trials that have ended, by dataset and key."""
        found: dict[str, dict[str, list[dict[str, Any]]]] = {}
        for trial in self.manifest.trials:
            if trial.key in self.outcomes:
                history = self.folder.trial(trial.key).read_history()
                found.setdefault(trial.dataset, {})[trial.key] = history
        return found

    def interrupted(self) -> bool:
        """Whether trials were left that neither ended nor died."""
        left = (self.others.get(trial.key, {}).get("status") for trial in self.unfinished())
        return any(status != table.DIED for status in left)

    def stopped(self, key: str) -> None:
        """The scheduler ends a trial here: that is its outcome."""
        folder = self.folder.trial(key)
        history = folder.read_history()
        best = max(history, key=lambda row: row["score"])
        folder.write_outcome(
            {
                **describe(self.definition(key), STOPPED, folder),
                "seed": folder.read_config()["seed"],
                "best_epoch": best["epoch"],
                "best_valid_score": self._sign * best["score"],
                "seconds": round(history[-1]["time"] - history[0]["time"], 2),
            }
        )

    def read(self, key: str) -> bool:
        """Look for the outcome of a trial; whether it is there."""
        outcome = self.folder.trial(key).read_outcome()
        if outcome is None:
            return False
        self.outcomes[key] = outcome
        self.others.pop(key, None)
        return True

    def _drop_resume_files(self) -> None:
        """Only the best trials are opened again, for the test data."""
        best = set(table.best_trials(self.manifest, self.outcomes).values())
        for key in self.outcomes:
            if key not in best:
                self.folder.trial(key).resume_file.unlink(missing_ok=True)

    # What Ray tells ----------------------------------------------------------------------------

    def on_trial_start(self, iteration: int, trials: Any, trial: Any, **info: Any) -> None:
        """A trial has a process."""
        key = trial.config["trial"]
        again = " again, its process died" if key in self.others else ""
        self.others[key] = {**self.others.get(key, {}), "status": table.RUNNING}
        self.say(f"{key} started{again}: {self.definition(key).point}")
        self.refresh(force=True)

    def on_trial_result(
        self, iteration: int, trials: Any, trial: Any, result: Mapping[str, Any], **info: Any
    ) -> None:
        """A trial has reported."""
        if result.get("best") is not None and not result.get("ended"):
            self.others[trial.config["trial"]] = {
                "status": table.RUNNING,
                "epochs_trained": result["epoch"],
                "best_valid_score": self._sign * result["best"],
            }
            self.refresh()

    def on_trial_complete(self, iteration: int, trials: Any, trial: Any, **info: Any) -> None:
        """A trial has ended, or Ray was told to leave it."""
        key = trial.config["trial"]
        if self.read(key):
            outcome = self.outcomes[key]
            said = outcome.get("error") or f"best valid {outcome['best_valid_score']}"
            self.say(f"{key} {outcome['status']} after {outcome['epochs_trained']} epochs: {said}")
            self._drop_resume_files()
        else:
            self.others.pop(key, None)
        self.refresh(force=True)

    def on_trial_error(self, iteration: int, trials: Any, trial: Any, **info: Any) -> None:
        """The process of a trial died, more often than it is started again."""
        key = trial.config["trial"]
        if not self.read(key):
            error = f"{_why(trial)}; --resume tries it once more"
            self.others[key] = {**self.others.get(key, {}), "status": table.DIED, "error": error}
            self.say(f"{key} {table.DIED}: {error}")
        self.refresh(force=True)

    # What is shown -----------------------------------------------------------------------------

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Inside, a terminal shows the table and keeps it up to date in its place."""
        console = Console(stderr=True)
        if not console.is_terminal:
            yield
            return
        with Live(console=console, auto_refresh=False) as self._live:
            try:
                yield
            finally:
                self._live = None

    def say(self, text: str) -> None:
        """A line in the log, and on the screen where no table is."""
        line = f"{datetime.now():%Y-%m-%d %H:%M:%S} {text}"
        self.log(line)
        if self._live is None:
            print(line, file=sys.stderr, flush=True)

    def announce(self, text: str) -> None:
        """A line that is seen on a terminal too; the table goes on below it."""
        self.say(text)
        if self._live is not None:
            self._live.console.print(text, markup=False, highlight=False)

    def log(self, text: str) -> None:
        """Lines for the log alone."""
        with open(self.folder.log_file, "a", encoding="utf-8") as log:
            log.write(text + "\n")

    def refresh(self, force: bool = False) -> None:
        """Bring table and files up to date.

        Args:
            force: also if that was done a moment ago.
        """
        now = time.monotonic()
        if not force and now < self._next:
            return
        results = self.results()
        write_text(self.folder.results_file, table.to_csv(results))
        answers = table.alpha_table(self.manifest, self.outcomes)
        if len(answers):
            write_text(self.folder.alpha_file, table.to_csv(answers))
        text = self.text(results)
        write_text(self.folder.progress_file, text + "\n")
        if self._live is not None:
            self._live.update(_rendered(text.splitlines()[0], self._short(results)), refresh=True)
        self._next = time.monotonic() + _SECONDS_BETWEEN

    def text(self, results: pd.DataFrame) -> str:
        """The table, below a line that sums it up."""
        seconds = round(time.monotonic() - self._started)
        head = f"{len(results)} trials: {table.states(results)}; {seconds} s; {self.folder}"
        return f"{head}\n{table.in_text(self._short(results))}"

    def _short(self, results: pd.DataFrame) -> pd.DataFrame:
        searched = list(self.manifest.space["space"])
        return table.short_table(results, self.manifest.metric, searched)


def _why(trial: Any) -> str:
    """Why Ray gave a trial up: what it raised outside of its own record, else a dead process."""
    error = trial.get_error()
    cause = getattr(error, "cause", None) or error
    if isinstance(cause, ResidualError):
        return " ".join(str(cause).split())
    return "its process died, again and again"


def _rendered(head: str, frame: pd.DataFrame) -> Group:
    """The table as rich draws it, as wide as the terminal is."""
    grid = Table(box=None, pad_edge=False)
    for name in frame.columns:
        numeric = pd.api.types.is_numeric_dtype(frame[name])
        grid.add_column(Text(str(name)), justify="right" if numeric else "left", no_wrap=True)
    for row in frame.to_numpy(dtype=object):
        grid.add_row(*(Text(table.cell_text(cell)) for cell in row))
    return Group(Text(head), grid)
