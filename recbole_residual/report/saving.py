"""The files of a report: the page, the figures and the tables."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from recbole_residual.files import atomic_path, write_text
from recbole_residual.report.plot import Plot
from recbole_residual.report.table import NOT_RUN, Table

PAGE = "report.html"
FIGURES = "figures"
TABLES = "tables"
INDEX = "index.csv"


def save_figures(plots: Iterable[Plot], folder: Path, pdf: bool) -> list[Path]:
    """Write every figure as PNG, and as PDF if that is wanted.

    A figure whose PNG lies there already, byte for byte, is not written again. A PDF that is not
    wanted and no longer that of the PNG is taken away.

    Args:
        plots: those without numbers are left out.
        folder: of the report.
        pdf: write PDFs too; a PDF takes as long as the PNG.

    Returns:
        The files.
    """
    written = []
    for plot in plots:
        if plot.draw is None:
            continue
        for_screen, for_paper = (folder / FIGURES / f"{plot.name}.{k}" for k in ("png", "pdf"))
        same = for_screen.is_file() and for_screen.read_bytes() == plot.png
        # The PDF first: without its PNG beside it, an interrupted one is written again.
        if pdf and not (same and for_paper.is_file()):
            _write(for_paper, plot.rendered("pdf"))
        elif not same:
            for_paper.unlink(missing_ok=True)
        if not same:
            _write(for_screen, plot.png)
        written += [for_screen, *([for_paper] if pdf else [])]
    return written


def _write(file: Path, content: bytes) -> None:
    with atomic_path(file) as part:
        part.write_bytes(content)


def save_tables(tables: Iterable[Table], folder: Path, latex: bool) -> list[Path]:
    """Write every table as csv, and an index that says which command made which.

    Args:
        tables: those without numbers stand in the index as "not run".
        folder: of the report.
        latex: write every table as LaTeX too.

    Returns:
        The files.
    """
    written, index = [], []
    for table in tables:
        index.append(
            {
                "table": table.name,
                "title": table.title,
                "file": f"{table.name}.csv" if table.frame is not None else NOT_RUN,
                "command": table.command,
            }
        )
        if table.frame is not None:
            written.append(folder / TABLES / f"{table.name}.csv")
            text = table.frame.to_csv(index=False, lineterminator="\n", na_rep="NaN")
            write_text(written[-1], text)
        if latex:
            written.append(folder / TABLES / f"{table.name}.tex")
            write_text(written[-1], table.to_latex())
    written.append(folder / TABLES / INDEX)
    write_text(written[-1], pd.DataFrame(index).to_csv(index=False, lineterminator="\n"))
    return written
