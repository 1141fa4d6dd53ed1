"""What training tells while it goes on: one line an epoch, one bar for the whole run."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass

from tqdm import tqdm

FILE_ONLY = {"file_only": True}
"""``extra`` of a log record that would flood the terminal; a run's folder keeps it in run.log."""

_BAR = "{desc}: {percentage:3.0f}%|{bar}| {elapsed}<{remaining}{postfix}"


@dataclass
class Validation:
    """One validation.

    Attributes:
        score: value of the metric of early stopping.
        result: every metric.
        best_score, best_epoch: the best so far, this one included; None if there is none yet.
    """

    score: float
    result: Mapping[str, float]
    best_score: float | None
    best_epoch: int | None


class EpochLog:
    """Logs a line for each epoch and moves a bar; epochs count from 0, as RecBole's do.

    Args:
        logger: where the lines go.
        metric: name of the metric of early stopping.
        first_epoch: the epoch that training begins or goes on with.
        n_epochs: how many there are at most.
        n_batches: in an epoch, as far as known.

    Example:
        >>> import sys
        >>> logger = logging.Logger("example")
        >>> logger.addHandler(logging.StreamHandler(sys.stdout))
        >>> log = EpochLog(logger, "ndcg@10", first_epoch=0, n_epochs=1)
        >>> log.open(verbose=True, show_bar=False)
        >>> log.epoch_ends(0, 6.5, Validation(0.1, {}, 0.1, 0))  # doctest: +ELLIPSIS
        epoch 0: train loss 6.5000, valid ndcg@10 0.1000 (best), 0.0 s
    """

    def __init__(
        self,
        logger: logging.Logger,
        metric: str,
        first_epoch: int,
        n_epochs: int,
        n_batches: int = 1,
    ) -> None:
        self._logger = logger
        self._metric = metric
        self._first_epoch = first_epoch
        self._n_epochs = n_epochs
        self._n_batches = max(n_batches, 1)
        self._verbose = False
        self._bar: tqdm | None = None
        self._epoch = first_epoch
        self._batches_done = 0
        self._started = self._epoch_started = time.perf_counter()

    def open(self, verbose: bool, show_bar: bool) -> None:
        """Start the clock; before this is called nothing is told.

        Args:
            verbose: log at all.
            show_bar: show the bar.
        """
        self._verbose = verbose
        self._started = self._epoch_started = time.perf_counter()
        if show_bar:
            self._bar = tqdm(
                total=self._n_epochs,
                initial=self._first_epoch,
                bar_format=_BAR,
                desc="training",
            )

    def epoch_begins(self, epoch: int) -> None:
        """Tell which epoch the batches that follow belong to."""
        self._epoch, self._batches_done = epoch, 0
        if self._bar is not None:
            self._bar.set_description(f"epoch {epoch}")

    def batch_done(self) -> None:
        """Move the bar by one batch."""
        self._batches_done += 1
        if self._bar is not None:
            # Models that train two objectives in turn have more batches than their loader says.
            share = min(self._batches_done / self._n_batches, 1.0)
            self._bar.update(self._epoch + share - self._bar.n)

    def validation_begins(self) -> None:
        """Say so on the bar."""
        if self._bar is not None:
            self._bar.set_description(f"epoch {self._epoch}, validation")

    def epoch_ends(self, epoch: int, loss: float, validation: Validation | None = None) -> None:
        """Log the line of an epoch; all metrics of its validation go to the log file alone."""
        now = time.perf_counter()
        seconds, self._epoch_started = now - self._epoch_started, now
        left = self._n_epochs - epoch - 1
        to_go = (now - self._started) / (epoch + 1 - self._first_epoch) * left
        line = f"epoch {epoch}: train loss {loss:.4f}"
        if validation is not None:
            line += f", valid {self._metric} {validation.score:.4f} ({_best(validation, epoch)})"
        line += f", {seconds:.1f} s"
        if left:
            line += f", at most {duration(to_go)} to go"
        if self._bar is not None:
            self._bar.update(epoch + 1 - self._bar.n)
            if validation is not None and validation.best_score is not None:
                self._bar.set_postfix_str(f"best {self._metric} {validation.best_score:.4f}")
        self.say(line)
        if validation is not None and validation.result and self._verbose:
            values = ", ".join(f"{key} {value}" for key, value in validation.result.items())
            self._logger.info("epoch %d, validation: %s", epoch, values, extra=FILE_ONLY)

    def say(self, message: str, level: int = logging.INFO) -> None:
        """Log a line that does not run into the bar."""
        if not self._verbose:
            return
        if self._bar is None:
            self._logger.log(level, message)
            return
        with tqdm.external_write_mode():
            self._logger.log(level, message)

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.close()


def _best(validation: Validation, epoch: int) -> str:
    if validation.best_score is None:
        return "no best yet"
    if validation.best_epoch == epoch:
        return "best"
    return f"best {validation.best_score:.4f} in epoch {validation.best_epoch}"


def duration(seconds: float) -> str:
    """Seconds in words: the two largest units.

    Example:
        >>> duration(7), duration(75), duration(3725)
        ('7 s', '1 min 15 s', '1 h 2 min')
    """
    whole = math.ceil(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
