"""Intervals beside the numbers of a table: which columns they are, and those that can be added."""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np
import pandas as pd

ENDS = LOW, HIGH = "_low", "_high"
"""Ends of the names of two columns: the ends of the 95 % interval of the column before them."""

_SHARES = re.compile(
    r"(?P<of>(?:test_|oracle_|unscaled_)?)"
    r"(?P<metric>hit|recall|hrli|hrl2i|recoveryrate|recovers)@(?P<k>\d+)$"
)
"""Columns that count sequences of the test data, so that Wilson's interval is theirs."""

_BASES = {"recoveryrate": "recoverybase", "recovers": "n_missed"}
"""Shares of fewer than all sequences, and the columns that hold of how many."""

_MOST_NAMED = 8
"""Rows that a note names; more than these it counts."""


def has_interval(frame: pd.DataFrame, name: str) -> bool:
    """Whether a table holds the interval of one of its columns."""
    return f"{name}{LOW}" in frame and f"{name}{HIGH}" in frame


def with_intervals(frame: pd.DataFrame, n_sequences: int | None) -> pd.DataFrame:
    """A table with Wilson's interval beside every share that has none yet.

    Args:
        frame: with columns named as metrics, such as ``hit@10``.
        n_sequences: how many sequences a share is of; None if that is not known. Shares of fewer
            (RecoveryRate) come with a column that says so.

    Returns:
        The same columns, ``..._low`` and ``..._high`` after each share.
    """
    found = {name: _SHARES.match(name) for name in map(str, frame.columns)}
    shares = {name: share for name, share in found.items() if share is not None}
    if all(has_interval(frame, name) for name in shares):
        return frame
    columns: dict[str, pd.Series] = {}
    for name in map(str, frame.columns):
        columns[name] = frame[name]
        share = shares.get(name)
        if share is None or has_interval(frame, name):
            continue
        metric = share["metric"]
        base = f"{share['of']}{_BASES[metric]}@{share['k']}" if metric in _BASES else None
        n = frame[base] if base in frame.columns else n_sequences if base is None else None
        if n is not None:
            low, high = share_interval(frame[name], n)
            columns[name + LOW] = pd.Series(low, index=frame.index)
            columns[name + HIGH] = pd.Series(high, index=frame.index)
    return pd.DataFrame(columns)


def share_interval(share: object, n: object) -> tuple[np.ndarray, np.ndarray]:
    """Wilson's 95 % interval of shares.

    Args:
        share: of sequences; a mean over seeds too, of which the sequences are the same.
        n: how many sequences.
    """
    from recbole_residual.probe.uncertainty import wilson

    share, n = np.asarray(share, dtype=float), np.asarray(n, dtype=float)
    return wilson(share * n, n)


def doubt_notes(frame: pd.DataFrame) -> list[str]:
    """In words, the differences that may as well be none: those whose interval holds 0.

    Args:
        frame: a table of which columns ``..._drop``, ``..._change`` and ``difference`` with an
            interval are looked at; its columns of text say what a row is.
    """
    texts = [name for name in map(str, frame) if not pd.api.types.is_numeric_dtype(frame[name])]
    notes = []
    for name in map(str, frame):
        words = _difference_in_words(name)
        if words is None or not has_interval(frame, name):
            continue
        low, high = frame[name + LOW], frame[name + HIGH]
        doubtful = frame[(low <= 0) & (high >= 0) & (high > low)]
        if len(doubtful):
            rows = [", ".join(map(str, row)) for row in doubtful[texts].to_numpy()]
            which = "; ".join(rows) if len(rows) <= _MOST_NAMED else f"{len(rows)} of {len(frame)}"
            notes.append(
                f"{words}: the 95 % interval is wider than the difference, which may as well be 0, "
                f"for {which}."
            )
    return notes


def _difference_in_words(name: str) -> str | None:
    if name == "difference":
        return "Difference"
    metric, _, kind = name.rpartition("_")
    kinds = {"drop": "Relative drop of", "change": "Change of"}
    names = {"hit": "HR", "ndcg": "NDCG", "mrr": "MRR", "hrli": "HRLI", "hrl2i": "HRL2I"}
    metric, at, k = metric.partition("@")
    if kind not in kinds or metric not in names:
        return None
    return f"{kinds[kind]} {names[metric]}{at}{k}"


def whiskers_are(frames: Iterable[pd.DataFrame], name: str, otherwise: str) -> str:
    """What the whiskers of a figure show, as its caption says it.

    Args:
        frames: the tables that it draws.
        name: the column that it draws.
        otherwise: what the whiskers are where a table has no intervals.
    """
    known = [has_interval(frame, name) for frame in frames]
    if all(known):
        return "Whiskers: 95 % interval."
    return f"Whiskers: {'95 % interval, or ' if any(known) else ''}{otherwise}."
