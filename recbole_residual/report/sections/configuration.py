"""All that it takes to do a run again."""

from __future__ import annotations

import pandas as pd

from recbole_residual.report.record import RunRecord
from recbole_residual.report.runs import Runs
from recbole_residual.report.section import Section
from recbole_residual.report.table import Table


def configuration_section(runs: Runs) -> Section:
    """Versions and the resolved configuration."""
    command = runs.result_command
    return Section(
        "configuration",
        "Configuration",
        "All that it takes to do it again.",
        [
            Table("environment", "Environment", runs.joined(_environment), command),
            Table(
                "configuration",
                "Resolved configuration",
                runs.joined(_settings),
                command,
                folded=True,
            ),
        ],
    )


def _settings(record: RunRecord) -> pd.DataFrame:
    return pd.DataFrame([{"key": key, "value": str(value)} for key, value in record.config.items()])


def _environment(record: RunRecord) -> pd.DataFrame | None:
    values = dict(record.result.get("environment", {}))
    if not values:
        return None
    for key in ("epochs_trained", "seconds"):
        if key in record.result:
            values[key] = str(record.result[key])
    values["folder"] = str(record.folder)
    return pd.DataFrame([{"key": key, "value": value} for key, value in values.items()])
