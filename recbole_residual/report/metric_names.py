"""What metrics are called, and tables of them with one column for each cut-off."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from math import nan
from typing import Any

import pandas as pd

from recbole_residual.report.intervals import ENDS, HIGH, LOW, has_interval
from recbole_residual.report.record import RunRecord

ACCURACY = {
    "hit": "HR",
    "recall": "Recall",
    "ndcg": "NDCG",
    "mrr": "MRR",
    "precision": "Precision",
    "map": "MAP",
}
"""RecBole's names of the usual accuracy metrics, and the field's."""

LAST_ITEM = {"hrli": "HRLI", "hrl2i": "HRL2I"}

MIXING = {
    "mixingratio_attn": "mixing attn",
    "mixingratio_res": "mixing res",
    "mixingratio_ln": "mixing ln",
    "mixingratio_gate": "mixing gate",
}

_OWN = ("hrli", "hrl2i", "mixingratio", "recovery")


def accuracy_name(metric: str) -> str | None:
    """What an accuracy metric is called; None for a metric of this package."""
    return None if metric.startswith(_OWN) else ACCURACY.get(metric, metric)


def main_k(columns: Sequence[str], metric: str = "hit") -> int:
    """The cut-off of which a report speaks: 10 if there is one, else the largest."""
    ks = [int(name[len(metric) + 1 :]) for name in columns if re.fullmatch(rf"{metric}@\d+", name)]
    return 10 if 10 in ks else max(ks)


def drop_k(table: pd.DataFrame) -> int:
    """The cut-off of which the probe gives relative drops."""
    (name,) = (name for name in map(str, table) if re.fullmatch(r"ndcg@\d+_drop", name))
    return int(name[len("ndcg@") : -len("_drop")])


def renamed(frame: pd.DataFrame, names: dict[str, str]) -> pd.DataFrame:
    """The columns of ``names`` that a table has, under their new names, with their intervals."""
    present = {}
    for old, new in names.items():
        if old in frame:
            present[old] = new
            if has_interval(frame, old):
                present.update({old + end: new + end for end in ENDS})
    return frame[list(present)].rename(columns=present)


def by_cutoff(record: RunRecord, name_of: Callable[[str], str | None]) -> pd.DataFrame | None:
    """The result of a run, metrics down and cut-offs across.

    Args:
        record: the run.
        name_of: what a metric is called, None to leave it out.
    """
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for split, values in record.results_by_split.items():
        for key, value in values.items():
            metric, _, k = key.partition("@")
            name = name_of(metric)
            if name is not None:
                row = rows.setdefault((split, name), {"data": split, "metric": name})
                column = f"@{k}" if k else "value"
                row[column] = value
                interval = record.intervals[split].get(key, (nan, nan))
                row[column + LOW], row[column + HIGH] = interval
    return pd.DataFrame(list(rows.values())) if rows else None
