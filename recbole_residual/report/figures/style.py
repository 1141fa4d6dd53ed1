"""The style of all figures: readable in print, in grey and for colour-blind readers.

Colours are those of Okabe and Ito (2008); every series also has a marker, a line style or a hatch
of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import cycle
from typing import Any

import matplotlib as mpl
import pandas as pd
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

OKABE_ITO = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LINES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))
HATCHES = ("", "///", "...", "xxx", "\\\\\\", "ooo", "++")

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
    "pdf.fonttype": 42,  # text that a publisher can search and edit
    "hatch.linewidth": 0.5,
}

STAGE_NAMES = {
    "attn": "attention alone (attn)",
    "res": "with residual (res)",
    "ln": "after LayerNorm (ln)",
    "gate": "update gate (gate)",
}
"""Stages of the mixing ratio, in words."""


@contextmanager
def figure_with(columns: int = 1, width: float = 3.6, height: float = 2.9) -> Iterator[Any]:
    """Inside, the style is in force; yields the figure and its axes."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(width * columns, height), layout="constrained")
        FigureCanvasAgg(figure)
        yield figure, figure.subplots(1, columns, squeeze=False)[0]


def looks() -> Iterator[dict[str, Any]]:
    for color, marker, line in cycle(zip(OKABE_ITO, MARKERS, LINES)):
        yield {"color": color, "marker": marker, "linestyle": line}


def legend(axes: Any, figure: Any, n_series: int) -> None:
    """A legend below all axes, so that it hides nothing."""
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        columns = 1 if max(map(len, labels)) > 28 else min(4, n_series)
        rows = -(-len(labels) // columns)
        figure.set_figheight(figure.get_figheight() + 0.17 * max(0, rows - 2))
        figure.legend(handles, labels, loc="outside lower center", ncols=columns)
