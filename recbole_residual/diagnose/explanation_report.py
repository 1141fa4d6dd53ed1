"""One explained sequence as tables and a figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import pandas as pd

from recbole_residual.report.page import Report
from recbole_residual.report.plot import Plot
from recbole_residual.report.section import Section
from recbole_residual.report.table import Table

COMMAND = "recbole_residual.explain(...) in Python"

_PANELS = {
    "mixing_res": "mixing ratio (res)",
    "mixing_gate": "mixing ratio (gate)",
    "contribution": "share of contribution",
    "score_share": "share of the score",
}


class ExplainedTables(NamedTuple):
    """The tables of an :class:`~recbole_residual.diagnose.explanation.Explanation`."""

    top: pd.DataFrame
    positions: pd.DataFrame
    score_parts: pd.DataFrame | None
    what_if: pd.DataFrame
    moved: pd.DataFrame


def explanation_report(
    model: str,
    tables: ExplainedTables,
    scored_item: str,
    names: Mapping[str, str],
    last_rank: int | None,
    notes: Sequence[str],
) -> Report:
    """The page of one sequence.

    Args:
        model: name of the model.
        tables: what was found.
        scored_item: token of the item whose score is split.
        names: of items, by token.
        last_rank: rank of the last item; None if the model did not see it.
        notes: what a reader must know.
    """
    scored = f"{scored_item} ({names[scored_item]})" if names.get(scored_item) else scored_item
    hidden = [name for name in ("mixing_attn", "mixing_ln") if name in tables.positions]
    shown_positions = tables.positions.drop(columns=hidden)
    pages = [
        Table("explain_top", "Recommended", tables.top, COMMAND),
        Table(
            "explain_positions",
            "Positions",
            tables.positions,
            COMMAND,
            shown=shown_positions,
            notes=notes,
        ),
        Table("explain_what_if", "The list under changes", tables.what_if, COMMAND),
        Table("explain_moved", "What moved in and out", tables.moved, COMMAND),
    ]
    if tables.score_parts is not None:
        pages.append(Table("explain_score", f"The score of {scored}", tables.score_parts, COMMAND))
    rank = "not seen by the model" if last_rank is None else f"rank {last_rank}"
    return Report(
        f"{model}: one sequence",
        f"last item: {rank}",
        [Section("explanation", "Explanation", "", pages, [_plot(tables.positions, scored)])],
        shown=[table.name for table in pages],
    )


def _plot(positions: pd.DataFrame, scored: str) -> Plot:
    panels = {
        title: positions[name].tolist() for name, title in _PANELS.items() if name in positions
    }
    called = positions["name"] if "name" in positions else positions["item"]
    ends = ["L" if not back else f"L-{back}" for back in positions["from_end"]]
    plain = [f"{item}  {end}" for item, end in zip(positions["item"], ends)]
    labels = [
        f"{name[:34]}  {end}" if name else item for name, item, end in zip(called, plain, ends)
    ]
    return Plot(
        "positions",
        "Shares of the positions",
        f"The score is that of {scored}; the residual counts with the last position.",
        COMMAND,
        partial(_draw, panels, labels, plain) if panels else None,
        "not run: the model has no attention block",
    )


def _draw(panels: dict[str, list[float]], labels: list[str], plain: list[str]) -> Any:
    from recbole_residual.report.figures import position_bars  # matplotlib is slow to import

    return position_bars(panels, labels, otherwise=plain)
