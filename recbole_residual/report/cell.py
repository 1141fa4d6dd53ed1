"""How one value is written in a table."""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any

import pandas as pd

UNDEFINED = "n/a"
"""What stands for a number that is not defined, such as a rate over nothing."""

_SETTINGS = ("alpha", "epsilon", "oracle alpha", "feed_forward", "seed", "key", "value")
"""Columns whose numbers are settings, not measurements."""


def cell_writer(column: str) -> Callable[[Any], str]:
    """What writes the values of a column: settings as they were given, measurements rounded."""
    return _setting if column in _SETTINGS or column.startswith("alpha_") else cell_text


def cell_text(value: Any) -> str:
    """One value as it is read in a table.

    Example:
        >>> values = (0.12345, 1234567, float("nan"), None, "L-1", 2.5e-9, 165.5)
        >>> [cell_text(value) for value in values]
        ['0.1235', '1,234,567', 'n/a', 'n/a', 'L-1', '2.5e-09', '165.5']
    """
    if value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value)):
        return UNDEFINED
    if isinstance(value, (bool, str)):
        return str(value)
    if isinstance(value, Integral):
        return f"{int(value):,}"
    if isinstance(value, Real):
        size = abs(float(value))
        if size >= 100:
            return f"{float(value):,.1f}"
        return f"{float(value):.2g}" if 0 < size < 5e-4 else f"{float(value):.4f}"
    return str(value)


def _setting(value: Any) -> str:
    """A number without the zeros and commas of a measurement."""
    if isinstance(value, Real) and not isinstance(value, bool) and not math.isnan(value):
        return f"{value:.10g}"
    return cell_text(value)
