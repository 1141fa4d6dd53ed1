"""The times of interactions: whether they can be sorted by, and what unit they seem to be in."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from recbole_residual.data.text_file import TextTable
from recbole_residual.errors import AtomicFileError


class Unit(NamedTuple):
    """A unit of time and how many seconds it is; NaN where that takes a calendar."""

    name: str
    seconds: float


SECONDS = Unit("seconds", 1.0)
CALENDAR_DATES = Unit("dates written as numbers (YYYYMMDD)", float("nan"))

_EARLIEST, _LATEST = 631_152_000.0, 2_524_608_000.0
"""Seconds since 1970 of the first day of 1990 and of 2050: recorded interactions lie between."""

_UNITS = (
    Unit("milliseconds", 1e-3),
    Unit("microseconds", 1e-6),
    Unit("nanoseconds", 1e-9),
    Unit("days", 86_400.0),
)


def likely_unit(times: np.ndarray) -> Unit:
    """The unit that times seem to be in, from the years that they would fall in.

    Args:
        times: finite numbers, [N].

    Returns:
        Unit: another than seconds only if all times, taken for seconds, fall outside 1990 to 2050
        and, taken for the other unit, inside. Positions such as 1, 2, 3 stay seconds.

    Example:
        >>> likely_unit(np.array([1.6e12, 1.7e12])).name
        'milliseconds'
        >>> likely_unit(np.array([1.0, 2.0, 3.0])).name
        'seconds'
    """
    if len(times) == 0:
        return SECONDS
    low, high = float(times.min()), float(times.max())
    if _are_calendar_dates(times):
        return CALENDAR_DATES
    for unit in _UNITS:
        if low * unit.seconds >= _EARLIEST and high * unit.seconds <= _LATEST:
            return unit
    return SECONDS


def _are_calendar_dates(times: np.ndarray) -> bool:
    if not (times.min() >= 19_700_101 and times.max() <= 21_001_231):
        return False
    month, day = times // 100 % 100, times % 100
    return bool(((month >= 1) & (month <= 12) & (day >= 1) & (day <= 31) & (times % 1 == 0)).all())


def check_times(path: str, field: str, times: np.ndarray, table: TextTable | None = None) -> None:
    """Refuse times by which nothing can be sorted.

    Args:
        path: file they come from.
        field: name of the time field.
        times: its values, [N].
        table: the file, to tell the numbers of lines; by default no line of it is blank.

    Raises:
        AtomicFileError: if one is missing or infinite.
    """
    broken = np.flatnonzero(~np.isfinite(times))
    if len(broken) == 0:
        return
    if table is not None:
        where = table.where(broken.tolist())
    else:
        lines = ", ".join(str(row + 2) for row in broken[:5])
        where = f"line {lines}{', ...' if len(broken) > 5 else ''}"
    raise AtomicFileError(
        path,
        f"{len(broken)} of {len(times)} values of `{field}` are missing or infinite ({where}); "
        "sequences cannot be ordered without them.",
    )
