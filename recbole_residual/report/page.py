"""A report that can be looked at: in a terminal, a notebook or a browser, and saved."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any, Union

import pandas as pd
from jinja2 import DictLoader, Environment, StrictUndefined
from markupsafe import Markup

from recbole_residual.files import atomic_path, write_text
from recbole_residual.report.record import RunRecord
from recbole_residual.report.section import Plot, Section
from recbole_residual.report.sections.all import build_sections
from recbole_residual.report.table import NOT_RUN, Table
from recbole_residual.version import __version__

PAGE = "report.html"
FIGURES = "figures"
TABLES = "tables"
INDEX = "index.csv"

_STYLE = "page.css"
_TEMPLATES = ("body.html", "page.html")

TERMINAL = ("dataset", "accuracy", "last_item", "internals", "alpha_sweep", "shuffle")
"""The tables that a terminal shows, by name."""


@dataclass(frozen=True)
class Report:
    """Sections of tables and figures.

    In a notebook it shows itself; ``print`` gives the short form for a terminal.

    Attributes:
        title: of the page.
        subtitle: what was done, in a line.
        sections: in their order.
        shown: names of the tables that the short form holds.
    """

    title: str
    subtitle: str
    sections: Sequence[Section]
    shown: Sequence[str] = TERMINAL

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

    def __str__(self) -> str:
        parts = [self.title, self.subtitle]
        for section in self.sections:
            for table in section.tables:
                if table.name in self.shown:
                    parts += ["", f"{section.title}: {table.title}", table.to_text()]
                    parts += [f"Note: {note}" for note in table.notes]
                    if section.warning and not any(n in section.warning for n in table.notes):
                        parts.append(f"Note: {section.warning}")
        return "\n".join(parts)

    def _repr_html_(self) -> str:
        return self._rendered("body.html")

    def to_html(self) -> str:
        """The page: one file that needs nothing else."""
        return self._rendered("page.html")

    def _rendered(self, template: str) -> str:
        return (
            _environment()
            .get_template(template)
            .render(
                report=self,
                not_run=NOT_RUN,
                version=__version__,
                markup=Markup,
                css=(resources.files(__package__) / _STYLE).read_text(encoding="utf-8"),
            )
        )

    def save(self, folder: Union[str, os.PathLike[str]], latex: bool = False) -> list[Path]:
        """Write the page, the figures (PNG and PDF) and the tables (csv), each whole or not at all.

        Args:
            folder: where to: ``report.html``, ``figures/``, ``tables/``.
            latex: write every table as LaTeX too.

        Returns:
            The files.
        """
        base = Path(folder)
        written = [base / PAGE]
        write_text(written[0], self.to_html())
        for plot in self._plots():
            if plot.draw is not None:
                for kind, content in (("png", plot.png), ("pdf", plot.rendered("pdf"))):
                    written.append(base / FIGURES / f"{plot.name}.{kind}")
                    with atomic_path(written[-1]) as part:
                        part.write_bytes(content)
        index = []
        for table in self._tables():
            index.append(
                {
                    "table": table.name,
                    "title": table.title,
                    "file": f"{table.name}.csv" if table.frame is not None else NOT_RUN,
                    "command": table.command,
                }
            )
            if table.frame is not None:
                written.append(base / TABLES / f"{table.name}.csv")
                text = table.frame.to_csv(index=False, lineterminator="\n", na_rep="NaN")
                write_text(written[-1], text)
            if latex:
                written.append(base / TABLES / f"{table.name}.tex")
                write_text(written[-1], table.to_latex())
        written.append(base / TABLES / INDEX)
        write_text(written[-1], pd.DataFrame(index).to_csv(index=False, lineterminator="\n"))
        return written


@lru_cache(maxsize=1)
def _environment() -> Environment:
    folder = resources.files(__package__)
    texts = {name: (folder / name).read_text(encoding="utf-8") for name in _TEMPLATES}
    return Environment(
        loader=DictLoader(texts),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def report(folder: Union[str, os.PathLike[str]]) -> Report:
    """The report of one run, from the files in its folder.

    Args:
        folder: the folder of the run.

    Raises:
        ConfigError: if it is none.

    Example:
        >>> found = report("output/SASRecResidual-ml-100k-...")  # doctest: +SKIP
        >>> found.tables["alpha_sweep"], found.figures["alpha_curves"]  # doctest: +SKIP
    """
    record = RunRecord.read(folder)
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
    return Report(record.title, "; ".join(parts), build_sections([record]))
