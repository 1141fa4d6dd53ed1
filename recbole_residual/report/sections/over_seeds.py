"""Mean and spread of every configuration over its seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from recbole_residual.report.record import RunRecord
from recbole_residual.report.section import Section
from recbole_residual.report.sections.side_by_side import common_k, main_values
from recbole_residual.report.table import Table


def over_seeds_section(groups: Mapping[str, Sequence[RunRecord]], command: str) -> Section:
    """Mean and standard deviation over runs that differ only in their seed."""
    return Section(
        "seeds",
        "Over seeds",
        "Mean and standard deviation (of the sample) over runs that differ only in their seed.",
        [_table(groups, command)],
    )


def _table(groups: Mapping[str, Sequence[RunRecord]], command: str) -> Table:
    k = common_k([record for group in groups.values() for record in group])
    rows, shown = [], []
    for label, group in groups.items():
        values = pd.DataFrame([main_values(record, k) for record in group if record.result])
        row: dict[str, Any] = {"configuration": label, "runs": len(values)}
        text = dict(row)
        for name in values:
            mean, std = values[name].mean(), values[name].std(ddof=1)
            row[f"{name} mean"], row[f"{name} std"] = mean, std
            # Blanks that do not break keep the two numbers on one line.
            text[str(name)] = f"{mean:.4f}" if len(values) < 2 else f"{mean:.4f}\xa0±\xa0{std:.4f}"
        rows.append(row)
        shown.append(text)
    return Table(
        "over_seeds",
        "Mean ± standard deviation",
        pd.DataFrame(rows),
        command,
        shown=pd.DataFrame(shown).fillna("n/a"),
    )
