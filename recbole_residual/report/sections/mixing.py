"""What the residual does to what a position takes from others."""

from __future__ import annotations

from math import nan
from typing import Any

import pandas as pd

from recbole_residual.report.intervals import ENDS, HIGH, LOW, has_interval, whiskers_are
from recbole_residual.report.plot import Plot, drawing
from recbole_residual.report.record import RunRecord
from recbole_residual.report.runs import Runs, probe_frame
from recbole_residual.report.section import Section
from recbole_residual.report.table import Table


def mixing_section(runs: Runs) -> Section:
    """Mixing ratios by stage, layer and position."""

    def shown(frame: pd.DataFrame) -> pd.DataFrame:
        if runs.several:
            frame = frame[frame["layer"] == "all"]
        keys = [name for name in ("run", "layer", "position") if name in frame]
        columns = {}
        for stage, rows in frame.groupby("stage", sort=False):
            indexed = rows.set_index(keys)
            columns[str(stage)] = indexed["mean"]
            if has_interval(frame, "mean"):
                columns.update({f"{stage}{end}": indexed[f"mean{end}"] for end in ENDS})
        order = frame.set_index(keys).index.drop_duplicates()
        return pd.DataFrame(columns).reindex(order).reset_index()

    ratios = runs.series(lambda record: probe_frame(record, "internals"))
    plot = Plot(
        "mixing_by_stage",
        "Mixing ratio by stage",
        "What the residual does to what a position takes from others; means over all positions. "
        + whiskers_are(ratios.values(), "mean", "standard deviation over sequences"),
        runs.probe_command("internals"),
        drawing("ratios_by_stage", ratios) if ratios else None,
        runs.missing("internals"),
    )
    return Section(
        "mixing",
        "Mixing ratio",
        "0: a position keeps only itself. 1: it takes everything from others. By stage of the "
        "attention block: attn, the attention sum alone; res, with the residual; ln, after the "
        "LayerNorm. Means over sequences, on the test data.",
        [
            runs.probe_table("internals", "By layer, position and stage", shown=shown),
            Table(
                "mixing_by_split",
                "As the evaluation gives it, over all layers",
                runs.joined(_mixing_by_split),
                runs.result_command,
                folded=True,
            ),
        ],
        [plot],
        warning=_mask_warning(runs),
    )


def _mask_warning(runs: Runs) -> str:
    """What must be said where the last position holds [MASK]."""
    at_mask = [record.label for record in runs.records if record.predicts_at_mask]
    if not at_mask:
        return ""
    # With this import comes torch, which nothing else in a report needs.
    from recbole_residual.probe.engine.one_by_one import MASK_NOTE

    return f"{', '.join(at_mask)}: {MASK_NOTE}"


def _mixing_by_split(record: RunRecord) -> pd.DataFrame | None:
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for split, values in record.results_by_split.items():
        for key, value in values.items():
            prefix, _, rest = key.partition("_")
            if prefix == "mixingratio":
                stage, _, where = rest.partition("_last")
                position = "last" if key.endswith("_last") else "all"
                row = rows.setdefault((split, position), {"data": split, "position": position})
                column = stage + where
                row[column] = value
                ends = record.intervals[split].get(key, (nan, nan))
                row[column + LOW], row[column + HIGH] = ends
    return pd.DataFrame(list(rows.values())) if rows else None
