"""A part of a report: what it says, its tables and its figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from recbole_residual.report.plot import Plot
from recbole_residual.report.table import Table


@dataclass(frozen=True)
class Section:
    """A part of the page.

    Attributes:
        name: its anchor.
        title: its heading.
        text: what the reader sees in it, in a sentence or two.
        tables: its tables.
        plots: its figures.
        warning: what must not be overlooked.
    """

    name: str
    title: str
    text: str
    tables: Sequence[Table] = ()
    plots: Sequence[Plot] = ()
    warning: str = ""
