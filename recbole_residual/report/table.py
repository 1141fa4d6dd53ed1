"""One table of a report, with the command that made it, as text, HTML, csv and LaTeX."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any

import pandas as pd
from tabulate import tabulate

from recbole_residual.report.cell import cell_text, cell_writer
from recbole_residual.report.intervals import ENDS, HIGH, LOW, has_interval

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
        frame: all of it, as in the csv; None if there is nothing. Columns ``..._low`` and
            ``..._high`` are the ends of the interval of the column of that name.
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
    def _all_shown(self) -> pd.DataFrame:
        """What is shown, each interval in two columns of its own."""
        if self.shown is not None:
            return self.shown
        return pd.DataFrame() if self.frame is None else self.frame

    @property
    def visible(self) -> pd.DataFrame:
        """What is shown, an interval in the cell of its number; empty if it was not run."""
        frame = self._all_shown
        ends = [name + end for name in map(str, frame) if has_interval(frame, name) for end in ENDS]
        return frame.drop(columns=ends)

    @property
    def wide(self) -> bool:
        """Whether a figure beside it would leave it too little room."""
        frame = self.visible
        longest = [max([len(str(name)) // 2, *map(len, texts)]) for name, texts in _texts(frame)]
        return sum(longest) + 2 * len(longest) > 72

    def to_html(self) -> str:
        """The ``<table>`` element, or "not run" with the command that would run it."""
        if self.frame is None:
            return f'<p class="missing">{html.escape(self.missing)}</p>'
        frame = self.visible
        classes = [_numeric(frame, name) for name in frame.columns]
        head = "".join(
            f'<th scope="col"{kind}>{_breakable(str(name))}</th>'
            for kind, name in zip(classes, frame.columns)
        )
        body = []
        for number, row in enumerate(self._cells(_small)):
            attribute = ' class="marked"' if number in self.marked else ""
            cells = "".join(
                f"<td{kind or _long(cell)}>{html.escape(cell)}{interval}</td>"
                for kind, (cell, interval) in zip(classes, row)
            )
            body.append(f"<tr{attribute}>{cells}</tr>")
        csv = self._all_shown.to_csv(index=False, lineterminator="\n")
        return (
            f'<table data-csv="{html.escape(csv)}"><thead><tr>{head}</tr></thead>'
            f"<tbody>{''.join(body)}</tbody></table>"
        )

    def to_text(self) -> str:
        """The table for a terminal, or "not run" with the command that would run it."""
        if self.frame is None:
            return f"{self.missing}: {self.command}" if self.missing == NOT_RUN else self.missing
        rows = [["".join(cell) for cell in row] for row in self._cells(_below)]
        for number in self.marked:
            rows[number][0] = f"> {rows[number][0]}"
        return _tabulated(self.visible, rows, "simple")

    def to_latex(self) -> str:
        """The table for a paper (booktabs), with the command as a comment."""
        head = f"% {self.title}\n% {self.command}\n"
        if self.frame is None:
            return f"{head}{self.missing}\n"
        rows = [["".join(cell) for cell in row] for row in self._cells(_behind)]
        return head + _tabulated(self.visible, rows, "latex_booktabs") + "\n"

    def _cells(self, write: Callable[[float, float], str]) -> list[list[tuple[str, str]]]:
        """By row: the text of each cell, and its interval as ``write`` puts it."""
        frame = self._all_shown
        columns = []
        for name, texts in _texts(self.visible):
            intervals = [""] * len(texts)
            if has_interval(frame, name):
                ends = zip(frame[name + LOW], frame[name + HIGH])
                intervals = ["" if isnan(low + high) else write(low, high) for low, high in ends]
            columns.append(list(zip(texts, intervals)))
        return [list(row) for row in zip(*columns)]


def _breakable(name: str) -> str:
    """A head of one word may be broken before its cut-off, so that its column can be narrow."""
    text = html.escape(name)
    return text if " " in name else text.replace("@", "<wbr>@")


def _small(low: float, high: float) -> str:
    return f"<small>{low:.3f} to {high:.3f}</small>"


def _below(low: float, high: float) -> str:
    """An interval for a terminal, where columns are narrow."""
    ends = (f"{end:.3f}".replace("0.", ".", 1) for end in (low, high))
    return f"\n[{', '.join(ends)}]"


def _behind(low: float, high: float) -> str:
    return f" [{cell_text(low)}, {cell_text(high)}]"


def _texts(frame: pd.DataFrame) -> list[tuple[str, list[str]]]:
    """By column: its name and the texts of its cells."""
    texts = []
    for name in map(str, frame.columns):
        write = cell_writer(name)
        texts.append((name, [write(value) for value in frame[name]]))
    return texts


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
