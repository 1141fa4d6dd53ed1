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
        points: what the reader came for, one sentence each; a terminal shows them too.
    """

    name: str
    title: str
    text: str
    tables: Sequence[Table] = ()
    plots: Sequence[Plot] = ()
    warning: str = ""
    points: Sequence[str] = ()

    @property
    def commands(self) -> list[str]:
        """What makes its numbers, each command once."""
        made_by = [plot.command for plot in self.plots] + [table.command for table in self.tables]
        return list(dict.fromkeys(line for command in made_by for line in command.split("; ")))
