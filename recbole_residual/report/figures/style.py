"""The style of all figures: readable in print, in grey and for colour-blind readers.

Colours are those of Okabe and Ito (2008); every series also has a marker, a line style or a hatch
of its own.
"""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any

import matplotlib as mpl
import pandas as pd
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from recbole_residual.report.figures.fonts import families_for
from recbole_residual.report.intervals import HIGH, LOW, has_interval

OKABE_ITO = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LINES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))
HATCHES = ("", "///", "...", "xxx", "\\\\\\", "ooo", "++")

_CHARACTER = 0.066
"""Inches that a character of a legend takes, on average."""

Series = Mapping[str, pd.DataFrame]
"""One table per run, by the label of the run."""

STYLE = {
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "lines.linewidth": 1.4,
    "lines.markersize": 4.5,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "savefig.dpi": 144,
    "hatch.linewidth": 0.5,
    "text.parse_math": False,  # a title such as "$5 a Day" is text
}

STAGE_NAMES = {
    "attn": "attention alone (attn)",
    "res": "with residual (res)",
    "ln": "after LayerNorm (ln)",
    "gate": "update gate (gate)",
}
"""Stages of the mixing ratio, in words."""


@dataclass(frozen=True)
class Margins:
    """Inches around and between the axes of a figure.

    Set by hand, because matplotlib's layout engines take as long as all the drawing.
    """

    left: float = 0.66
    right: float = 0.12
    bottom: float = 0.46
    top: float = 0.12
    between: float = 0.74


@contextmanager
def figure_with(
    columns: int = 1,
    width: float = 3.6,
    height: float = 2.9,
    margins: Margins = Margins(),
    texts: Iterable[str] = (),
) -> Iterator[Any]:
    """Inside, the style is in force; yields the figure and its axes.

    Args:
        columns: number of axes, beside each other.
        width, height: of each, in inches; a legend comes on top.
        margins: around the axes.
        texts: words that are not this package's own, in whatever script.
    """
    with mpl.rc_context({**STYLE, "font.family": families_for(texts)}):
        figure = Figure(figsize=(width * columns, height))
        FigureCanvasAgg(figure)
        yield figure, figure.subplots(1, columns, squeeze=False)[0]
        place(figure, columns, margins)


def place(figure: Figure, columns: int, margins: Margins) -> None:
    """Put axes, and a legend below them, where the margins say."""
    below = 0.0
    if figure.legends:
        below = figure.legends[0].get_window_extent().height / figure.dpi
        figure.set_figheight(figure.get_figheight() + below)
    width, height = figure.get_size_inches()
    inner = width - margins.left - margins.right - (columns - 1) * margins.between
    figure.subplots_adjust(
        left=margins.left / width,
        right=1 - margins.right / width,
        bottom=(margins.bottom + below) / height,
        top=1 - margins.top / height,
        wspace=margins.between / (inner / columns),
    )


def rendered(figure: Figure, kind: str) -> bytes:
    """A figure as the content of a file.

    Args:
        figure: to draw.
        kind: ``png`` or ``pdf``.
    """
    buffer = io.BytesIO()
    # Without a date, the same numbers give the same file.
    metadata = {"CreationDate": None} if kind == "pdf" else None
    with mpl.rc_context(STYLE):
        figure.savefig(buffer, format=kind, metadata=metadata)
    return buffer.getvalue()


def looks() -> Iterator[dict[str, Any]]:
    """A colour, a marker and a line style for each series in turn; once the colours are used up,
    with other markers and lines."""
    n = len(OKABE_ITO)
    for number in count():
        other = (number + number // n) % n
        look = {"marker": MARKERS[other], "linestyle": LINES[other]}
        yield {"color": OKABE_ITO[number % n], **look}


def band(axes: Any, frame: pd.DataFrame, x: str, y: str, color: str) -> None:
    """The 95 % interval of a line, if the table has one."""
    if has_interval(frame, y):
        low, high = frame[y + LOW], frame[y + HIGH]
        axes.fill_between(frame[x], low, high, color=color, alpha=0.15, linewidth=0)


def legend(axes: Any, figure: Figure, most_columns: int = 4) -> None:
    """A legend below all axes, so that it hides nothing."""
    handles, labels = axes.get_legend_handles_labels()
    if not handles:
        return
    inches = figure.get_figwidth()
    labels = [textwrap.fill(label, int((inches - 0.6) / _CHARACTER)) for label in labels]
    widest = max(len(line) for label in labels for line in label.splitlines())
    fitting = int(inches / (0.55 + _CHARACTER * widest))
    figure.legend(
        handles,
        labels,
        loc="lower center",
        ncols=max(1, min(fitting, most_columns, len(labels))),
        borderaxespad=0.2,
    )
