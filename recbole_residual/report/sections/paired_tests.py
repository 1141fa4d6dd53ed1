"""Every two configurations on the same dataset, tested across their users."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import pandas as pd

from recbole_residual.report.intervals import doubt_notes
from recbole_residual.report.paired import paired_test, values_per_user
from recbole_residual.report.record import RunRecord
from recbole_residual.report.section import Section
from recbole_residual.report.sections.side_by_side import common_k
from recbole_residual.report.table import Table

_MOST_UNFOLDED = 30
"""Tests that the page shows at once; the answer says which is the clearest."""


def paired_tests_section(groups: Mapping[str, Sequence[RunRecord]], command: str) -> Section:
    """The difference between every two configurations, and its p-values."""
    return Section(
        "tests",
        "Paired tests across users",
        "Each user's value under one configuration against the same user's under the other, "
        "averaged over seeds first. p-values of the paired t-test and of Wilcoxon's "
        "signed-rank test, two-sided; those corrected by Holm's method for the number of tests in "
        "this table are the ones to hold against 0.05.",
        [_table(groups, command)],
    )


def _table(groups: Mapping[str, Sequence[RunRecord]], command: str) -> Table:
    k = common_k([record for group in groups.values() for record in group])
    metrics = {f"ndcg@{k}": f"NDCG@{k}", f"hit@{k}": f"HR@{k}", "hrli@1": "HRLI@1"}
    notes, rows = [], []
    tables = {}
    for label, group in groups.items():
        table = values_per_user(group)
        if table is None:
            notes.append(f"not run for {label}: no values per user (--export_per_user=True).")
        else:
            tables[label] = table
    for first, second in combinations(tables, 2):
        datasets = [groups[label][0].config["dataset"] for label in (first, second)]
        if datasets[0] == datasets[1]:
            for metric, name in metrics.items():
                result = paired_test(tables[first], tables[second], metric)
                if result is not None:
                    rows.append({"a": first, "b": second, "metric": name, **result})
    if len(groups) < 2:
        notes.append("There is one configuration only: nothing to test it against.")
    elif not rows and len(tables) > 1:
        notes.append("No two configurations share test users and targets.")
    frame = _corrected(pd.DataFrame(rows)) if rows else None
    if frame is not None:
        notes += doubt_notes(frame)
    folded = len(rows) > _MOST_UNFOLDED
    return Table("paired_tests", "Difference a - b", frame, command, notes=notes, folded=folded)


def _corrected(frame: pd.DataFrame) -> pd.DataFrame:
    """The p-values, and beside them those corrected for their number."""
    from recbole_residual.probe.uncertainty import holm

    return frame.assign(
        **{f"{name}, Holm": holm(list(frame[name])) for name in ("p (t)", "p (Wilcoxon)")}
    )
