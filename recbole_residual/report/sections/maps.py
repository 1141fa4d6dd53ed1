"""Average contribution and attention maps."""

from __future__ import annotations

from recbole_residual.report.plot import Plot, drawing
from recbole_residual.report.record import RunRecord
from recbole_residual.report.runs import Runs, probe_frame
from recbole_residual.report.section import Section
from recbole_residual.report.table import NOT_DEFINED, NOT_RUN


def maps_section(runs: Runs) -> Section:
    """One figure of maps for each run."""
    plots = [
        _maps(record, f"maps_{number}" if runs.several else "maps")
        for number, record in enumerate(runs.records, start=1)
    ]
    return Section(
        "maps",
        "Contribution and attention",
        "What the norm-based contribution shows and the attention weights do not.",
        [runs.probe_table("internals", "The maps", "internals_maps", folded=True)],
        plots,
    )


def _maps(record: RunRecord, name: str) -> Plot:
    maps = probe_frame(record, "internals", "internals_maps")
    last = "[MASK]" if record.predicts_at_mask else "item"
    norm_p = record.config.get("attention_norm_p") or 1
    rows = "" if norm_p == 1 else f" and, with attention_norm_p = {norm_p:g}, do not sum to 1"
    return Plot(
        name,
        f"{record.label}: who takes from whom, last 15 positions",
        "Averages over test sequences that have both positions; L is the last one. "
        "Contribution: norm of what is taken, after the LayerNorm, the residual on the "
        "diagonal, on a logarithmic scale. Attention: the bare weights, which do not know "
        f"of the residual{rows}.",
        record.probe_command("internals"),
        None if maps is None else drawing("heatmaps", maps, last),
        NOT_DEFINED if "internals" in record.probes else NOT_RUN,
        in_colors=True,
    )
