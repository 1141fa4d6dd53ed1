"""Runs side by side, one row each."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan

import pandas as pd

from recbole_residual.report.intervals import HIGH, LOW
from recbole_residual.report.metric_names import MIXING, main_k
from recbole_residual.report.record import RunRecord
from recbole_residual.report.section import Section
from recbole_residual.report.table import Table


def side_by_side_section(records: Sequence[RunRecord], command: str) -> Section:
    """The main numbers of each run."""
    k = common_k(records)
    rows = [
        {
            "run": record.label,
            "seed": record.config.get("seed"),
            "epochs": record.result.get("epochs_trained"),
            **_with_ends(record, k),
        }
        for record in records
        if record.result
    ]
    frame = pd.DataFrame(rows) if rows else None
    return Section(
        "runs",
        "Runs",
        "Test data, at the residual factor of each run.",
        [Table("runs", "Side by side", frame, command)],
    )


def common_k(records: Sequence[RunRecord]) -> int:
    """The cut-off that all runs have."""
    results = [record.result["test_result"] for record in records if record.result]
    keys = [
        key for key in (results[0] if results else {}) if all(key in other for other in results)
    ]
    return main_k([key for key in keys if key.startswith("hit@")] or ["hit@10"])


def main_values(record: RunRecord, k: int) -> dict[str, float]:
    """Accuracy, last-item reliance and mixing of a run on its test data."""
    values = record.results_by_split.get("test", {})
    return {new: values[old] for old, new in _main_names(k).items() if old in values}


def _with_ends(record: RunRecord, k: int) -> dict[str, float]:
    """The same, each with its interval."""
    cells: dict[str, float] = {}
    intervals = record.intervals.get("test", {})
    values = main_values(record, k)
    for old, new in _main_names(k).items():
        if new in values:
            cells[new] = values[new]
            cells[new + LOW], cells[new + HIGH] = intervals.get(old, (nan, nan))
    return cells


def _main_names(k: int) -> dict[str, str]:
    return {
        f"hit@{k}": f"HR@{k}",
        f"ndcg@{k}": f"NDCG@{k}",
        "hrli@1": "HRLI@1",
        "hrl2i@1": "HRL2I@1",
        **MIXING,
    }
