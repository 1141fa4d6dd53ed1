"""How well the target is ranked."""

from __future__ import annotations

from recbole_residual.report.metric_names import accuracy_name, by_cutoff
from recbole_residual.report.runs import Runs
from recbole_residual.report.section import Section
from recbole_residual.report.table import Table


def accuracy_section(runs: Runs) -> Section:
    """The usual accuracy metrics on validation and test data."""
    table = Table(
        "accuracy",
        "Ranking of the target in the whole catalogue",
        runs.joined(lambda record: by_cutoff(record, accuracy_name)),
        runs.result_command,
        folded=runs.several,
        notes=[note for record in runs.records for note in record.result.get("notes", [])],
    )
    return Section("accuracy", "Accuracy", "At the residual factor in force.", [table])
