"""Figures of items taken out: deletion and insertion, and the reliance curve."""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from recbole_residual.report.figures.style import Margins, Series, band, figure_with, legend, looks

_MARGINS = Margins(left=0.8, between=0.95)
"""Small falls have long numbers."""


def deletion_and_insertion(curves: pd.DataFrame) -> Figure:
    """The score as items go or come back in the order of each attribution.

    Args:
        curves: with columns ``attribution``, ``n_items``, ``deletion``, ``insertion``.
    """
    with figure_with(2, margins=_MARGINS) as (figure, panels):
        for axes, kind, name in zip(
            panels, ("deletion", "insertion"), ("fall of the score", "rise of the score")
        ):
            for look, (label, rows) in zip(looks(), curves.groupby("attribution", sort=False)):
                _curve(axes, rows, "n_items", kind, str(label), look)
            axes.set_ylabel(f"{name} (standard deviations)")
            axes.set_xlabel("items replaced" if kind == "deletion" else "items put back")
        legend(panels[0], figure)
        return figure


def reliance_curve(curves: Series, metric: str, metric_name: str) -> Figure:
    """What is lost with the item at each distance from the end.

    Args:
        curves: with columns ``from_end``, ``log_probability_fall`` and ``metric``.
        metric: the column of the fall of accuracy.
        metric_name: what it is called.
    """
    with figure_with(2, margins=_MARGINS, texts=curves) as (figure, panels):
        for axes, column, name in zip(
            panels,
            (metric, "log_probability_fall"),
            (metric_name, "fall of log-probability"),
        ):
            for look, (label, rows) in zip(looks(), curves.items()):
                _curve(axes, rows, "from_end", column, label, look)
            axes.axhline(0, color="#333333", linewidth=0.8)
            axes.set_ylabel(name)
            axes.set_xlabel("position taken out, back from the last")
        legend(panels[0], figure)
        return figure


def _curve(axes: Any, rows: pd.DataFrame, x: str, y: str, label: str, look: dict[str, Any]) -> None:
    """A line with its interval."""
    axes.plot(rows[x], rows[y], label=label, **look)
    band(axes, rows, x, y, look["color"])
