"""How often the last input item comes back as a recommendation."""

from __future__ import annotations

from recbole_residual.report.intervals import has_interval
from recbole_residual.report.metric_names import LAST_ITEM, by_cutoff
from recbole_residual.report.plot import Plot, drawing
from recbole_residual.report.runs import Runs, probe_frame
from recbole_residual.report.section import Section
from recbole_residual.report.table import Table


def last_item_section(runs: Runs) -> Section:
    """HRLI and HRL2I by cut-off, and where the last item stands in the ranking."""
    table = Table(
        "last_item",
        "How often the model ranks an item that it was just given among its top k",
        runs.joined(lambda record: by_cutoff(record, LAST_ITEM.get)),
        runs.result_command,
        folded=runs.several,
        notes=_left_out(runs),
    )
    ranks = runs.series(lambda record: probe_frame(record, "internals", "internals_ranks"))
    alone = len(ranks) == 1 and all(has_interval(frame, "share") for frame in ranks.values())
    whiskers = "Whiskers: 95 % interval." if alone else ""
    plot = Plot(
        "last_item_ranks",
        "Distribution of the last item's rank",
        "The more to the left, the more the model leans on the item that it was just given. "
        + whiskers,
        runs.probe_command("internals"),
        drawing("rank_distribution", ranks) if ranks else None,
        runs.missing("internals"),
    )
    return Section(
        "last-item",
        "Last item",
        "HRLI@k: share of sequences whose last input item is in the top k; HRL2I@k: the same for "
        "the item before it. History is not masked.",
        [table, runs.probe_table("internals", "Ranks", "internals_ranks", folded=True)],
        [plot],
    )


def _left_out(runs: Runs) -> list[str]:
    """A note for each run in which some sequences have no last item of the kind."""
    notes = []
    for record in runs.records:
        missing = [
            f"{count} sequences have no {LAST_ITEM[key]}"
            for key, count in record.result.get("test_left_out", {}).items()
            if count
        ]
        if missing:
            told = ", ".join(missing)
            notes.append(f"{record.label}: {told} (too short, or cut off by the input window).")
    return notes
