"""Intervals of numbers as RecBole writes them: ``"[5,inf)"``, several separated by ``;``."""

from __future__ import annotations

import math
import re
from typing import Any

from recbole_residual.errors import DataError

Interval = tuple[str, float, float, str]
"""One interval as RecBole parses it: opening bracket, left end, right end, closing bracket."""

_INTERVAL = re.compile(r"\s*([\[(])([^,;]*),([^,;]*)([\])])\s*")


def parse_intervals(value: Any, key: str) -> list[Interval] | None:
    """The intervals that a value of the configuration names; None for None.

    Args:
        value: such as ``"[5,inf)"`` or ``"[2,4];(9,inf)"``.
        key: whose value it is, for the message.

    Raises:
        DataError: if it is anything else, or an interval that holds no number.

    Example:
        >>> parse_intervals("[5,inf)", "user_inter_num_interval")
        [('[', 5.0, inf, ')')]
    """
    if value is None:
        return None
    return [_parse(text, value, key) for text in str(value).split(";")]


def _parse(text: str, value: Any, key: str) -> Interval:
    match = _INTERVAL.fullmatch(text)
    try:
        if match is None:
            raise ValueError
        left, right = float(match[2]), float(match[3])
        if not left <= right or (left == right and match[1] + match[4] != "[]"):
            raise ValueError
    except ValueError as error:
        example = "[5,inf)"
        if isinstance(value, (int, float)) and math.isfinite(value):
            example = f"[{value:g},inf)"
        raise DataError(
            f'{key} = {value!r} is not an interval: write "{example}" for at least '
            f"{example[1:-5]}, \"[2,10]\" for 2 to 10, several with ';' between them."
        ) from error
    return match[1], left, right, match[4]
