"""What every probe returns: a labelled table that can be saved."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any, ClassVar, Union

import pandas as pd
from tabulate import tabulate

from recbole_residual.files import write_text
from recbole_residual.probe.intervals import Intervals


@dataclass(frozen=True, repr=False)
class ProbeResult:
    """A table, what it is about, and what its reader must know.

    Attributes:
        frame: the table.
        about: how it was made: model, number of sequences, cut-offs, seeds, ...
        notes: outcomes that a number alone would hide, such as an empty recoverable base.
        intervals: how sure the figures are, and their differences from one row, where sequences
            are what varies; worked out when they are first asked for.
    """

    name: ClassVar[str] = "probe"
    """Name of the files that :meth:`save` writes."""

    frame: pd.DataFrame
    about: dict[str, Any]
    notes: list[str] = field(default_factory=list)
    intervals: Intervals | None = None

    def to_frame(self) -> pd.DataFrame:
        """A copy of the table, without intervals."""
        return self.frame.copy()

    def with_intervals(self) -> pd.DataFrame:
        """The table with the ends of its 95 % intervals: ``NAME_low`` and ``NAME_high`` behind
        every figure that has one."""
        return self.frame if self.intervals is None else self.intervals.beside(self.frame)

    def tables(self) -> dict[str, pd.DataFrame]:
        """Every table that :meth:`save` writes, by name."""
        tables = {self.name: self.with_intervals()}
        if self.intervals is not None and self.intervals.reference is not None:
            tables[f"{self.name}_differences"] = self.intervals.differences
        return tables

    def save(self, folder: Union[str, os.PathLike[str]]) -> list[Path]:
        """Write the tables as csv, and all of it as json; each file whole or not at all.

        Args:
            folder: where to; it is made if it is not there.

        Returns:
            The files.
        """
        base = Path(folder)
        written = []
        for name, frame in self.tables().items():
            written.append(base / f"{name}.csv")
            write_text(written[-1], frame.to_csv(index=False, lineterminator="\n"))
        content = {
            "probe": self.name,
            "about": self.about,
            "notes": self.notes,
            "tables": {
                # pandas writes NaN as null, for which JSON has no other word
                name: json.loads(frame.to_json(orient="records", double_precision=15))
                for name, frame in self.tables().items()
            },
        }
        written.append(base / f"{self.name}.json")
        write_text(written[-1], json.dumps(content, indent=2, allow_nan=False) + "\n")
        return written

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return [str(name) for name in self.frame.columns]

    def short_frame(self) -> pd.DataFrame:
        """What the text of the result shows of the table."""
        return self.frame

    def __repr__(self) -> str:
        rows = f"{len(self.frame)} row{'s' * (len(self.frame) != 1)}"
        model = f" of {self.about['model']}" if "model" in self.about else ""
        notes = f", {len(self.notes)} note{'s' * (len(self.notes) != 1)}" if self.notes else ""
        return f"<{type(self).__name__}: {self.name}{model}, {rows}{notes}>"

    def _repr_html_(self) -> str:
        """What a notebook shows: the short table and the notes."""
        table = self.short_frame().to_html(
            index=False, float_format="{:.4g}".format, na_rep="", border=0
        )
        notes = "".join(f"<li>{escape(note)}</li>" for note in self.notes)
        return f"<h4>{escape(self.name)}</h4>{table}" + (f"<ul>{notes}</ul>" if notes else "")

    def __str__(self) -> str:
        shown = self.short_frame()
        headers = [str(name) for name in shown.columns]
        table = tabulate(shown.to_numpy().tolist(), headers=headers, floatfmt=".4g")
        return "\n".join([self.name, table, *(f"Note: {note}" for note in self.notes)])
