"""A report that can be looked at: in a terminal, a notebook or a browser, and saved."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Union

import pandas as pd

from recbole_residual.files import write_text
from recbole_residual.report.plot import Plot
from recbole_residual.report.record import RunRecord, relative_command
from recbole_residual.report.rendering import rendered
from recbole_residual.report.saving import PAGE, save_figures, save_tables
from recbole_residual.report.section import Section
from recbole_residual.report.sections import build_sections
from recbole_residual.report.table import Table

TERMINAL = ("dataset", "accuracy", "last_item", "internals", "alpha_sweep", "shuffle")
"""The tables that a terminal shows, by name."""


@dataclass(frozen=True, repr=False)
class Report:
    """Sections of tables and figures.

    In a notebook it shows itself; ``print`` gives the short form for a terminal.

    Attributes:
        title: of the page.
        subtitle: what was done, in a line.
        sections: in their order.
        shown: names of the tables that the short form holds.
        base: the folder from which the page writes paths in its commands; None for whole paths.
    """

    title: str
    subtitle: str
    sections: Sequence[Section]
    shown: Sequence[str] = TERMINAL
    base: Path | None = None

    @property
    def tables(self) -> dict[str, pd.DataFrame | None]:
        """Every table by name, whole; None where it was not run."""
        return {table.name: table.frame for table in self._tables()}

    @property
    def figures(self) -> dict[str, Any]:
        """Every matplotlib figure by name; None where its numbers were not run."""
        return {plot.name: plot.figure for plot in self._plots()}

    def _tables(self) -> list[Table]:
        return [table for section in self.sections for table in section.tables]

    def _plots(self) -> list[Plot]:
        return [plot for section in self.sections for plot in section.plots]

    def relative(self, command: str) -> str:
        """A command with its paths as seen from :attr:`base`."""
        return command if self.base is None else relative_command(command, self.base)

    def __repr__(self) -> str:
        tables = sum(frame is not None for frame in self.tables.values())
        return f"<Report on {self.title}: {len(self.sections)} sections, {tables} tables>"

    def __str__(self) -> str:
        parts = [self.title, self.subtitle]
        for section in self.sections:
            if section.points:
                parts.append("")
            for point in section.points:
                parts += textwrap.wrap(point, 96, initial_indent="- ", subsequent_indent="  ")
            for table in section.tables:
                if table.name in self.shown:
                    parts += ["", f"{section.title}: {table.title}", table.to_text()]
                    parts += [f"Note: {note}" for note in table.notes]
                    if section.warning and not any(n in section.warning for n in table.notes):
                        parts.append(f"Note: {section.warning}")
        return "\n".join(parts)

    def _repr_html_(self) -> str:
        return rendered("body.html", self)

    def to_html(self) -> str:
        """The page: one file that needs nothing else."""
        return rendered("page.html", self)

    def save(self, folder: Union[str, os.PathLike[str]], latex: bool = False) -> list[Path]:
        """Write the page, the figures (PNG) and the tables (csv), each whole or not at all.

        Args:
            folder: where to: ``report.html``, ``figures/``, ``tables/``.
            latex: for a paper, write every figure as PDF and every table as LaTeX too.

        Returns:
            The files.
        """
        base = Path(folder)
        write_text(base / PAGE, self.to_html())
        return [
            base / PAGE,
            *save_figures(self._plots(), base, pdf=latex),
            *save_tables(self._tables(), base, latex),
        ]


def report(source: Any) -> Report:
    """The report of one run, from the files in its folder.

    Args:
        source: the folder of the run, a session that was opened from it, a diagnosis, or what was
            read of a run.

    Raises:
        ConfigError: if it is none.

    Example:
        >>> page = report("output/SASRecResidual-ml-100k-...")  # doctest: +SKIP
        >>> page.tables["alpha_sweep"], page.figures["alpha_curves"]  # doctest: +SKIP
    """
    record = source if isinstance(source, RunRecord) else RunRecord.read(source)
    alpha = record.result.get("alpha")
    parts = []
    if alpha is not None:
        different = list(dict.fromkeys(alpha))
        layers = "" if len(different) == 1 else " by layer"
        shown = different if len(different) == 1 else alpha
        parts.append(f"alpha = {', '.join(f'{value:g}' for value in shown)}{layers}")
    if record.result.get("epochs_trained"):
        parts.append(f"{record.result['epochs_trained']} epochs")
    if "seconds" in record.result:
        parts.append(f"{record.result['seconds']:.1f} s")
    parts.append(str(record.folder))
    return Report(record.title, "; ".join(parts), build_sections([record]), base=record.folder)
