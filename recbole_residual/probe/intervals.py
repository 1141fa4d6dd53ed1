"""Intervals of the figures in a probe's table, and of their differences from one of its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import pandas as pd

from recbole_residual.errors import ProbeError
from recbole_residual.probe.engine.sequence_figures import Column
from recbole_residual.probe.uncertainty import bootstrap_sums, percentile_interval, wilson

Columns = dict[str, Column]
"""What each sequence adds to the figures of one row, by their names."""

_RELATIVE = {"_drop": -1, "_change": 1}
"""Ends of the names of relative differences, and their sign against the plain difference."""

_BLOCK = 2**25
"""Numbers of sequences, times figures, that are looked at together."""


class Rows(Protocol):
    """The columns of each row of a table: a list, or what makes them when they are asked for."""

    def __len__(self) -> int: ...

    def __getitem__(self, row: int, /) -> Columns: ...


@dataclass(frozen=True)
class Intervals:
    """The 95 % intervals of the figures in a table, from one bootstrap over its sequences.

    Args:
        keys: what its rows are.
        rows: what each sequence adds to the figures, for each row; all have the same figures, and
            where there is a reference, the same sequences.
        reference: number of the row from which differences are taken; None for no differences.
    """

    keys: pd.DataFrame
    rows: Rows
    reference: int | None = None

    @cached_property
    def names(self) -> list[str]:
        """Of the figures."""
        return list(self.rows[0])

    @cached_property
    def distribution(self) -> np.ndarray:
        """Every figure of every row in each bootstrap sample, [n_resamples, rows, figures]."""
        n = len(next(iter(self.rows[0].values()))[0])
        step = max(1, _BLOCK // max(1, n * len(self.names)))
        numbers = range(len(self.rows))
        blocks = [numbers[start : start + step] for start in range(0, len(numbers), step)]
        found = [_resampled([self.rows[row] for row in block]) for block in blocks]
        return np.concatenate(found, axis=1)

    def samples(self, name: str) -> np.ndarray:
        """One figure of every row in each bootstrap sample, [n_resamples, rows]."""
        return self.distribution[:, :, self.names.index(name)]

    @cached_property
    def figures(self) -> pd.DataFrame:
        """Every figure between the ends of its 95 % interval.

        A share of sequences (HR, HRLI, RecoveryRate) has Wilson's; a mean, and a share averaged
        over seeds, that of a bootstrap over sequences. After the columns of ``keys`` stand
        ``NAME``, ``NAME_low``, ``NAME_high`` for every figure.
        """
        low, high = percentile_interval(self.distribution.reshape(len(self.distribution), -1))
        low, high = (ends.reshape(len(self.rows), -1) for ends in (low, high))
        table = []
        for row in range(len(self.rows)):
            cells: dict[str, float] = {}
            for index, (name, (values, weights)) in enumerate(self.rows[row].items()):
                total, n = values.sum(), weights.sum()
                ends = (low[row, index], high[row, index])
                if np.isin(values, (0, 1)).all() and np.isin(weights, (0, 1)).all():
                    at_low, at_high = wilson(total, n)
                    ends = (float(at_low), float(at_high))
                cells[name] = float(total / n) if n else float("nan")
                cells[f"{name}_low"], cells[f"{name}_high"] = ends
            table.append(cells)
        return pd.concat([self.keys.reset_index(drop=True), pd.DataFrame(table)], axis=1)

    @cached_property
    def differences(self) -> pd.DataFrame:
        """Every figure minus that of the reference, with the interval of a paired bootstrap: both
        sides are taken from the same samples of the same sequences. Columns as in :attr:`figures`,
        without the row that is subtracted.

        Raises:
            ProbeError: if no row is one that the others could be held against.
        """
        if self.reference is None:
            raise ProbeError("no row is the model as it is: there is nothing to subtract.")
        columns: dict[str, np.ndarray] = {}
        for name in self.names:
            values, samples = self.figures[name].to_numpy(), self.samples(name)
            columns[name] = values - values[self.reference]
            ends = percentile_interval(samples - samples[:, [self.reference]])
            columns[f"{name}_low"], columns[f"{name}_high"] = ends
        whole = pd.concat([self.keys.reset_index(drop=True), pd.DataFrame(columns)], axis=1)
        return whole.drop(index=self.reference).reset_index(drop=True)

    def beside(self, frame: pd.DataFrame) -> pd.DataFrame:
        """A table with the ends of the intervals of its figures, and of relative differences.

        Args:
            frame: a row for each of these rows. A column ``NAME_drop`` or ``NAME_change`` holds
                relative differences of ``NAME`` from the reference; theirs are relative in each
                sample, and the reference has none.

        Returns:
            The same columns, ``..._low`` and ``..._high`` after each that has intervals.
        """
        columns: dict[str, pd.Series | np.ndarray] = {}
        for name in map(str, frame):
            columns[name] = frame[name]
            ends = self._ends(name)
            if ends is not None:
                columns[f"{name}_low"], columns[f"{name}_high"] = ends
        return pd.DataFrame(columns, index=frame.index)

    def _ends(self, name: str) -> tuple[np.ndarray, np.ndarray] | None:
        """Of the intervals of a column; None if it has none."""
        if name in self.names:
            low, high = (self.figures[f"{name}{end}"].to_numpy() for end in ("_low", "_high"))
            return low, high
        metric, underscore, kind = name.rpartition("_")
        sign = _RELATIVE.get(underscore + kind)
        if sign is None or metric not in self.names or self.reference is None:
            return None
        samples = self.samples(metric)
        before = samples[:, [self.reference]]
        with np.errstate(divide="ignore", invalid="ignore"):
            relative = np.where(before == 0, np.nan, sign * (samples - before) / before)
        relative[:, self.reference] = np.nan
        return percentile_interval(relative)


def mean_columns(runs: Sequence[Columns]) -> Columns:
    """Each sequence's mean over runs that differ in their seed."""
    return {
        name: (
            np.mean([run[name][0] for run in runs], axis=0),
            np.mean([run[name][1] for run in runs], axis=0),
        )
        for name in runs[0]
    }


def figure(column: Column) -> float:
    """What the sequences give together; NaN if none counts."""
    values, weights = column
    return float(values.sum() / weights.sum()) if weights.any() else float("nan")


def _resampled(rows: Sequence[Columns]) -> np.ndarray:
    """Figures in every bootstrap sample, [n_resamples, rows, figures]."""
    columns = [column for of_row in rows for column in of_row.values()]
    # Most figures share their weights (one for each sequence), which are summed once.
    place = {key: index for index, key in enumerate({id(weights): None for _, weights in columns})}
    weights = list({id(weights): weights for _, weights in columns}.values())
    sums = bootstrap_sums(np.stack([*(values for values, _ in columns), *weights], axis=1))
    totals = sums[:, len(columns) + np.array([place[id(weights)] for _, weights in columns])]
    with np.errstate(divide="ignore", invalid="ignore"):
        means = sums[:, : len(columns)] / totals
    return means.reshape(len(sums), len(rows), -1)
