"""Which attribution says what an intervention confirms."""

from __future__ import annotations

import pandas as pd

from recbole_residual.report.metric_names import renamed
from recbole_residual.report.plot import Plot, drawing
from recbole_residual.report.record import RunRecord
from recbole_residual.report.runs import Runs, probe_frame
from recbole_residual.report.section import Section
from recbole_residual.report.table import NOT_DEFINED, NOT_RUN

ABLATIONS = {
    "delete": "taken out, the rest moves up",
    "mask": "hidden from every query",
    "replace": "replaced by another item",
}
"""Ways to take an item out, in words."""


def faithfulness_section(runs: Runs) -> Section:
    """How each attribution agrees with taking items out, and what follows its order."""
    title = "Agreement of each attribution with taking items out"
    return Section(
        "faithfulness",
        "Faithfulness",
        "Items are taken out one by one, and the fall of the score is ranked against what each "
        "attribution says of them: 1, it orders them as the interventions do; 0, no better than "
        "chance. recency puts the last item first, random any.",
        [runs.probe_table("faithfulness", title, shown=_shown)],
        [_curves(record, number, runs.several) for number, record in enumerate(runs.records, 1)],
    )


def _curves(record: RunRecord, number: int, several: bool) -> Plot:
    curves = probe_frame(record, "faithfulness", "faithfulness_curves")
    return Plot(
        f"faithfulness_curves_{number}" if several else "faithfulness_curves",
        f"Deletion and insertion{f', {record.label}' if several else ''}",
        "The items that an attribution calls most important are replaced first (left), or put back "
        "first (right): the higher the curve, the better the order. Bands: 95 % interval.",
        record.probe_command("faithfulness"),
        None if curves is None else drawing("deletion_and_insertion", curves),
        NOT_DEFINED if "faithfulness" in record.probes else NOT_RUN,
    )


def _shown(frame: pd.DataFrame) -> pd.DataFrame:
    names = {"run": "run", "attribution": "attribution"}
    for ablation, words in ABLATIONS.items():
        names[f"correlation_{ablation}"] = f"rank correlation, {words}"
    names["deletion_area"] = "area under deletion"
    names["insertion_area"] = "area under insertion"
    return renamed(frame, names)
