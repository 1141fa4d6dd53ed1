"""A probe's table with the 95 % intervals that the probe left in tables of their own."""

from __future__ import annotations

import pandas as pd

from recbole_residual.report.intervals import ENDS, HIGH, LOW, has_interval, with_intervals
from recbole_residual.report.record import RunRecord

_RELATIVE = {"_drop": -1.0, "_change": 1.0}
"""Ends of the names of relative differences, and their sign against the plain difference."""


def certain_frame(record: RunRecord, probe: str, name: str | None = None) -> pd.DataFrame | None:
    """A table of a probe with every interval that is known; None if it was not run or is empty.

    The interval of a relative drop is that of the paired difference over the figure of the
    unchanged input, which is taken as it is.

    Args:
        record: the run.
        probe: name of the probe.
        name: of its table, by default the one that bears the probe's name.
    """
    frame = record.table(probe, name)
    if frame is None or frame.empty:
        return None
    tables = record.probes[probe].tables
    figures = tables.get(f"{name or probe}_intervals")
    if figures is not None and len(figures) == len(frame):
        frame = _with_figures(frame, figures)
    differences = tables.get(f"{name or probe}_differences")
    if differences is not None and 0 < len(differences) == len(frame) - 1:
        frame = _with_relative(frame, differences)
    return with_intervals(frame, record.n_sequences("test"))


def _with_figures(frame: pd.DataFrame, figures: pd.DataFrame) -> pd.DataFrame:
    """The ends of the figures, row by row: both tables have the same rows in the same order."""
    names = [
        name
        for name in map(str, frame)
        if has_interval(figures, name) and not has_interval(frame, name)
    ]
    ends = {name + end: figures[name + end].to_numpy() for name in names for end in ENDS}
    return pd.concat([frame, pd.DataFrame(ends, index=frame.index)], axis=1)


def _with_relative(frame: pd.DataFrame, differences: pd.DataFrame) -> pd.DataFrame:
    """The ends of relative drops and changes against the row that the differences leave out."""
    key = str(frame.columns[0])
    rows = differences.set_index(key)
    reference = frame[~frame[key].isin(rows.index)]
    if len(reference) != 1:
        return frame
    ends = {}
    for name in map(str, frame):
        for kind, sign in _RELATIVE.items():
            metric = name[: -len(kind)]
            if has_interval(frame, name):
                continue
            if name.endswith(kind) and has_interval(differences, metric) and metric in frame:
                scaled = rows[[metric + LOW, metric + HIGH]] * sign / reference[metric].iloc[0]
                aligned = scaled.reindex(frame[key])
                ends[name + LOW] = aligned.min(axis=1).to_numpy()
                ends[name + HIGH] = aligned.max(axis=1).to_numpy()
    return pd.concat([frame, pd.DataFrame(ends, index=frame.index)], axis=1)
