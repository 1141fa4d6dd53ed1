"""Intervals of the figures in a probe's table, and of their differences from one of its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from recbole_residual.errors import ProbeError
from recbole_residual.probe.engine.sequence_figures import Column
from recbole_residual.probe.uncertainty import bootstrap_means, percentile_interval, wilson

Columns = dict[str, Column]
"""What each sequence adds to the figures of one row, by their names."""


@dataclass(frozen=True)
class Intervals:
    """The 95 % intervals of the figures in a table.

    Args:
        keys: what its rows are.
        rows: what each sequence adds to the figures, for each row.
        reference: number of the row from which differences are taken; None for no differences.
    """

    keys: pd.DataFrame
    rows: Sequence[Columns]
    reference: int | None = None

    def samples(self, name: str) -> np.ndarray:
        """One figure of every row in each bootstrap sample, [n_resamples, rows]."""
        return _distribution([{name: columns[name]} for columns in self.rows])

    @cached_property
    def figures(self) -> pd.DataFrame:
        """See :func:`interval_table`."""
        return interval_table(self.keys, self.rows)

    @cached_property
    def differences(self) -> pd.DataFrame:
        """See :func:`difference_table`.

        Raises:
            ProbeError: if no row is one that the others could be held against.
        """
        if self.reference is None:
            raise ProbeError("no row is the model as it is: there is nothing to subtract.")
        return difference_table(self.keys, self.rows, self.reference)


def interval_table(keys: pd.DataFrame, rows: Sequence[Columns]) -> pd.DataFrame:
    """Every figure between the ends of its 95 % interval.

    A share of sequences (HR, HRLI, RecoveryRate) has Wilson's; a mean, and a share averaged over
    seeds, that of a bootstrap over sequences.

    Args:
        keys: what the rows are.
        rows: one for each row of ``keys``.

    Returns:
        The columns of ``keys``, then ``NAME``, ``NAME_low``, ``NAME_high`` for every figure.
    """
    low, high = percentile_interval(_distribution(rows))
    low, high = low.reshape(len(rows), -1), high.reshape(len(rows), -1)
    table = []
    for row, columns in enumerate(rows):
        cells: dict[str, float] = {}
        for index, (name, (values, weights)) in enumerate(columns.items()):
            total, n = values.sum(), weights.sum()
            ends = (low[row, index], high[row, index])
            if np.isin(values, (0, 1)).all() and np.isin(weights, (0, 1)).all():
                at_low, at_high = wilson(total, n)
                ends = (float(at_low), float(at_high))
            cells[name] = float(total / n) if n else float("nan")
            cells[f"{name}_low"], cells[f"{name}_high"] = ends
        table.append(cells)
    return pd.concat([keys.reset_index(drop=True), pd.DataFrame(table)], axis=1)


def difference_table(keys: pd.DataFrame, rows: Sequence[Columns], reference: int) -> pd.DataFrame:
    """Every figure minus that of one row, with the 95 % interval of a paired bootstrap.

    Both sides of a difference are taken from the same samples of the same sequences.

    Args:
        keys: what the rows are.
        rows: one for each row of ``keys``, all of the same sequences.
        reference: number of the row that is subtracted.

    Returns:
        As :func:`interval_table`, without the row that is subtracted.
    """
    distribution = _distribution(rows).reshape(-1, len(rows), len(rows[0]))
    figures = np.array([[_figure(column) for column in columns.values()] for columns in rows])
    table = []
    for row in range(len(rows)):
        low, high = percentile_interval(distribution[:, row] - distribution[:, reference])
        cells: dict[str, float] = {}
        for index, name in enumerate(rows[row]):
            cells[name] = figures[row, index] - figures[reference, index]
            cells[f"{name}_low"], cells[f"{name}_high"] = low[index], high[index]
        table.append(cells)
    whole = pd.concat([keys.reset_index(drop=True), pd.DataFrame(table)], axis=1)
    return whole.drop(index=reference).reset_index(drop=True)


def mean_columns(runs: Sequence[Columns]) -> Columns:
    """Each sequence's mean over runs that differ in their seed."""
    return {
        name: (
            np.mean([run[name][0] for run in runs], axis=0),
            np.mean([run[name][1] for run in runs], axis=0),
        )
        for name in runs[0]
    }


def _distribution(rows: Sequence[Columns]) -> np.ndarray:
    """Figures in every bootstrap sample, row after row, [n_resamples, rows * figures]."""
    columns = [column for of_row in rows for column in of_row.values()]
    values, weights = (np.stack(side, axis=1) for side in zip(*columns))
    return bootstrap_means(values, weights)


def _figure(column: Column) -> float:
    values, weights = column
    return float(values.sum() / weights.sum()) if weights.any() else float("nan")
