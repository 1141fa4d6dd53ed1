"""What a model was trained and tested on."""

from __future__ import annotations

import pandas as pd

from recbole_residual.report.record import RunRecord
from recbole_residual.report.runs import Runs
from recbole_residual.report.section import Section
from recbole_residual.report.table import Table


def dataset_section(runs: Runs) -> Section:
    """The dataset after preprocessing, and where it came from."""

    def statistics(record: RunRecord) -> pd.DataFrame | None:
        counts = record.result.get("dataset_statistics")
        if not counts:
            return None
        return pd.DataFrame([{"dataset": record.config["dataset"], **counts}])

    frame = runs.joined(statistics)
    table = Table(
        "dataset",
        "After preprocessing",
        frame,
        runs.result_command,
        shown=None if frame is None else frame.rename(columns={"avg_length": "average length"}),
    )
    text = "What the model was trained and tested on."
    sources = list(dict.fromkeys(record.result.get("data_source", "") for record in runs.records))
    if any(sources):
        text += f" Read from {'; '.join(filter(None, sources))}."
    return Section("dataset", "Dataset", text, [table])
