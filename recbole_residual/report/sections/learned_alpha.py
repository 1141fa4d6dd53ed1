"""The residual factor that a model learned, over its training."""

from __future__ import annotations

import pandas as pd

from recbole_residual.report.plot import Plot, drawing
from recbole_residual.report.record import RunRecord
from recbole_residual.report.runs import Runs
from recbole_residual.report.table import Table


def learned_alpha(runs: Runs) -> tuple[list[Table], list[Plot]]:
    """A table and a figure of the runs that learned alpha; none if no run did."""
    paths = runs.series(_path)
    if not paths:
        return [], []
    title = "Learned alpha after each epoch"
    return [Table("learned_alpha", title, runs.joined(_path), runs.result_command, folded=True)], [
        Plot(
            "learned_alpha",
            title,
            "The factor of the residual around attention, by layer (alpha_train: learned); the "
            "line at 1 is the usual residual.",
            runs.result_command,
            drawing("learned_alphas", paths, runs.several),
        )
    ]


def _path(record: RunRecord) -> pd.DataFrame | None:
    """One row per epoch, one column per layer; None of a run that learned none."""
    path = record.result.get("learned_alpha_path")
    if not path:
        return None
    columns = {f"layer {layer}": list(values) for layer, values in enumerate(zip(*path), start=1)}
    return pd.DataFrame({"epoch": range(1, len(path) + 1), **columns})
