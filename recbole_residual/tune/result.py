"""What a tune or benchmark run gives back, and how it says so."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import Any

import pandas as pd

from recbole_residual.tune import table
from recbole_residual.tune.alpha import plain_values
from recbole_residual.tune.folder import FAILED, TuneFolder


@dataclass(frozen=True, repr=False)
class TuneResult:
    """What came out of a tune or benchmark run; all of it is in its folder as well.

    Attributes:
        folder: of the run.
        mode: ``tune`` or ``benchmark``.
        results: one row per trial, as in ``results.csv``.
        best: the row of the best trial on each dataset, by the validation metric. In a tune it is
            the only one for which the test data was read.
        summary: of a benchmark: mean and standard deviation over seeds.
        text: the table for a terminal.
    """

    folder: str
    mode: str
    results: pd.DataFrame
    best: dict[str, dict[str, Any]]
    summary: pd.DataFrame | None
    text: str

    @property
    def all_failed(self) -> bool:
        """Whether there are trials and none of them got to an end."""
        return len(self.results) > 0 and set(self.results["status"]) <= {FAILED, table.DIED}

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"TuneResult({self.mode}: {table.states(self.results)}; {self.folder})"

    def _repr_html_(self) -> str:
        whole = self.results.dropna(axis="columns", how="all").to_html(index=False)
        summary = "" if self.summary is None else self.summary.to_html(index=False)
        return f"<p>{escape(repr(self))}</p>{summary}{whole}"


def plain_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of a table as plain values, without those that are missing."""
    return {name: value for name, value in plain_values(row).items() if value is not None}


def best_in_words(dataset: str, row: Mapping[str, Any], metric: str, folder: TuneFolder) -> str:
    """The best trial on one dataset, in a few lines."""
    name = metric.lower()
    lines = [f"best on {dataset}: {row['trial']}, valid {metric} {row['best_valid_score']:.4f}"]
    if f"test_{name}" in row:
        lines[0] += f", test {metric} {row[f'test_{name}']:.4f}"
    if "alpha" in row:
        lines.append(f"alpha chosen on validation: {row['alpha']}")
    if "alpha_per_layer" in row:
        lines.append(f"the same by layer: {row['alpha_per_layer']}")
    lines.append(f"saved in {folder.trial(row['trial'])}")
    return "\n".join(lines)


def in_short(summary: pd.DataFrame, metric: str) -> str:
    """The table of a benchmark: mean and standard deviation of the test figures that matter."""
    wanted = ["hit@10", metric.lower(), "hrli@1", "mixingratio_res_last"]
    shown = summary[["dataset", "model", "seeds"]].copy() if len(summary) else summary
    for name in dict.fromkeys(wanted):
        column = f"test_{name}"
        if f"{column}_mean" in summary:
            pairs = zip(summary[f"{column}_mean"], summary[f"{column}_std"])
            shown[column] = [
                f"{mean:.4f}" if math.isnan(std) else f"{mean:.4f} ± {std:.4f}"
                for mean, std in pairs
            ]
    return table.in_text(shown)
