"""A figure with its interval."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pandas as pd

from recbole_residual.report.intervals import HIGH, LOW


@dataclass(frozen=True)
class Measured:
    """A figure.

    Attributes:
        value: NaN if it is not defined.
        low, high: ends of its 95 % interval, NaN if it has none.
    """

    value: float
    low: float = math.nan
    high: float = math.nan

    @property
    def known(self) -> bool:
        """Whether it is defined."""
        return not math.isnan(self.value)

    @property
    def has_interval(self) -> bool:
        """Whether it comes with both ends."""
        return not math.isnan(self.low + self.high)

    def columns(self, name: str) -> dict[str, float]:
        """As columns of a table."""
        return {name: self.value, name + LOW: self.low, name + HIGH: self.high}


def cell(frame: pd.DataFrame, row: int, name: str) -> Measured:
    """A figure in a table, with its interval if the table has it.

    Args:
        frame: the table.
        row: counted from 0.
        name: of the column.
    """
    ends = [
        float(frame[name + end].iloc[row]) if name + end in frame else math.nan
        for end in (LOW, HIGH)
    ]
    return Measured(float(frame[name].iloc[row]), *ends)
