"""What can be passed to a probe, checked before anything is computed."""

from __future__ import annotations

import math
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

from recbole_residual.errors import ProbeError


def several(name: str, values: Any, kind: str) -> list[Any]:
    """The entries of a list, tuple, range, array or the like; a text is one word and not a list.

    Args:
        name: what to call it in an error.
        values: what was passed.
        kind: what its entries are, in words.

    Raises:
        ProbeError: for a text or a single number.

    Example:
        >>> several("seeds", range(2), "whole numbers")
        [0, 1]
        >>> several("modes", "reverse", "modes")
        Traceback (most recent call last):
        ...
        recbole_residual.errors.ProbeError: modes = 'reverse' is not usable: give a list of modes, \
such as ['reverse'].
    """
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise ProbeError(
            f"{name} = {values!r} is not usable: give a list of {kind}, such as [{values!r}]."
        )
    return list(values)


def whole_number(name: str, value: Any, least: int, most: int | None = None) -> int:
    """Check a whole number.

    Raises:
        ProbeError: if it is none, or out of range.

    Example:
        >>> whole_number("k", 10, least=1)
        10
        >>> whole_number("k", 0, least=1, most=1682)
        Traceback (most recent call last):
        ...
        recbole_residual.errors.ProbeError: k = 0 is not usable: a whole number from 1 to 1682.
    """
    number = int(value) if _is_whole(value) else least - 1
    if number < least or (most is not None and number > most):
        reach = f"from {least}" + (f" to {most}" if most is not None else " on")
        raise ProbeError(f"{name} = {value!r} is not usable: a whole number {reach}.")
    return number


def _is_whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def check_k(k: Any) -> int:
    """Check one cut-off; :func:`check_topk` holds it against the number of items.

    Raises:
        ProbeError: if it is no whole number of at least 1.
    """
    return whole_number("k", k, 1)


def check_topk(topk: Any, model: Any) -> tuple[int, ...]:
    """Check the values of k.

    Raises:
        ProbeError: if one is not between 1 and the number of items, or given twice.
    """
    n_items = model.n_items - 1
    values = several("topk", topk, "whole numbers")
    usable = all(_is_whole(k) and 1 <= k <= n_items for k in values)
    if not values or not usable or len(set(values)) < len(values):
        raise ProbeError(
            f"topk = {values!r} is not usable: different whole numbers from 1 to the number "
            f"of items, {n_items}."
        )
    return tuple(int(k) for k in values)


def check_seeds(seeds: Any) -> list[int]:
    """Check the seeds of what is random.

    Raises:
        ProbeError: unless they are different whole numbers of at least 0, one or more.
    """
    values = several("seeds", seeds, "whole numbers")
    if not values or len(set(values)) < len(values):
        raise ProbeError(f"seeds = {values!r} is not usable: different numbers, at least one.")
    return [whole_number("seeds", seed, 0) for seed in values]


def check_factors(name: str, factors: Any) -> list[Any]:
    """Check a grid of residual factors, as far as it is one: different numbers, one or more.

    Raises:
        ProbeError: if it is not.
    """
    values = several(name, factors, "numbers")
    if not all(isinstance(value, Real) and not isinstance(value, bool) for value in values):
        raise ProbeError(f"{name} = {values!r} is not usable: it must hold numbers only.")
    if not values or len({float(value) for value in values}) < len(values):
        raise ProbeError(f"{name} = {values!r} is not usable: different numbers, at least one.")
    return values


def check_share(name: str, value: Any) -> float:
    """Check a share of accuracy that may be given up: from 0 to below 1.

    Raises:
        ProbeError: if it is not.
    """
    number = isinstance(value, Real) and not isinstance(value, bool) and not math.isnan(value)
    if not number or not 0 <= value < 1:
        raise ProbeError(f"{name} = {value!r} is not usable: a share from 0 to below 1.")
    return float(value)
