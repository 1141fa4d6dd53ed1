"""One table of a report, with the command that made it, as text, HTML, csv and LaTeX."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from tabulate import tabulate

from recbole_residual.report.cell import cell_writer

NOT_RUN = "not run"
"""What stands where numbers are missing."""

NOT_DEFINED = "not defined for this model"
"""What stands where a probe was run and the model has nothing of the kind."""


@dataclass(frozen=True)
class Table:
    """A table and where it comes from.

    Attributes:
        name: name of its files.
        title: in words.
        frame: all of it, as in the csv; None if there is nothing.
        command: what makes it.
        shown: what the page shows of it; by default everything.
        notes: what its reader must know.
        marked: numbers of rows to point out.
        folded: whether the page shows it only when it is opened.
        missing: what to say where there is nothing.
    """

    name: str
    title: str
    frame: pd.DataFrame | None
    command: str
    shown: pd.DataFrame | None = None
    notes: Sequence[str] = ()
    marked: Sequence[int] = ()
    folded: bool = False
    missing: str = NOT_RUN

    @property
    def visible(self) -> pd.DataFrame:
        """What is shown; empty if it was not run."""
        if self.shown is not None:
            return self.shown
        return pd.DataFrame() if self.frame is None else self.frame

    def to_html(self) -> str:
        """The ``<table>`` element, or "not run" with the command that would run it."""
        if self.frame is None:
            return f'<p class="missing">{html.escape(self.missing)}</p>'
        frame = self.visible
        head = "".join(
            f'<th scope="col"{_numeric(frame, name)}>{html.escape(str(name))}</th>'
            for name in frame.columns
        )
        body = []
        for number, row in enumerate(_cells(frame)):
            attribute = ' class="marked"' if number in self.marked else ""
            cells = "".join(
                f"<td{_numeric(frame, name) or _long(cell)}>{html.escape(cell)}</td>"
                for name, cell in zip(frame.columns, row)
            )
            body.append(f"<tr{attribute}>{cells}</tr>")
        return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"

    def to_text(self) -> str:
        """The table for a terminal, or "not run" with the command that would run it."""
        if self.frame is None:
            return f"{self.missing}: {self.command}" if self.missing == NOT_RUN else self.missing
        rows = [
            [f"> {row[0]}" if number in self.marked else row[0], *row[1:]]
            for number, row in enumerate(_cells(self.visible))
        ]
        return _tabulated(self.visible, rows, "simple")

    def to_latex(self) -> str:
        """The table for a paper (booktabs), with the command as a comment."""
        head = f"% {self.title}\n% {self.command}\n"
        if self.frame is None:
            return f"{head}{self.missing}\n"
        return head + _tabulated(self.visible, _cells(self.visible), "latex_booktabs") + "\n"


def _tabulated(frame: pd.DataFrame, rows: list[list[str]], style: str) -> str:
    return tabulate(
        rows,
        headers=[str(name) for name in frame.columns],
        tablefmt=style,
        disable_numparse=True,
        colalign=["right" if _numeric(frame, name) else "left" for name in frame.columns],
    )


def _numeric(frame: pd.DataFrame, name: Any) -> str:
    return ' class="number"' if pd.api.types.is_numeric_dtype(frame[name]) else ""


def _long(text: str) -> str:
    """What may be broken into lines."""
    return ' class="text"' if len(text) > 40 else ""


def _cells(frame: pd.DataFrame) -> list[list[str]]:
    columns = []
    for name in frame.columns:
        write = cell_writer(str(name))
        columns.append([write(value) for value in frame[name]])
    return [list(row) for row in zip(*columns)]
