"""Heatmaps of who takes from whom."""

from __future__ import annotations

from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator

from recbole_residual.report.figures.style import STYLE

QUANTITIES = {"contribution": "contribution norm", "attention": "attention weight"}
"""What is drawn, one row each."""


def heatmaps(maps: pd.DataFrame, last_position: str) -> Figure:
    """Average contribution and attention of the most recent positions, one column per layer.

    Args:
        maps: with columns ``layer``, ``query``, ``key``, ``contribution``, ``attention``.
        last_position: what stands at the last position.
    """
    layers = list(dict.fromkeys(maps["layer"]))
    with mpl.rc_context({**STYLE, "axes.grid": False}):
        width, height = 2.75 * len(layers) + 1.45, 5.5
        figure = Figure(figsize=(width, height))
        FigureCanvasAgg(figure)
        grid = figure.subplots(
            2,
            len(layers) + 1,  # the last column holds the colour bars
            squeeze=False,
            gridspec_kw={
                "width_ratios": [1.0] * len(layers) + [0.06],
                "left": 0.66 / width,
                "right": 1 - 0.66 / width,
                "bottom": 0.46 / height,
                "top": 1 - 0.4 / height,
                "wspace": 0.24,
                "hspace": 0.36,
            },
        )
        for row, value in zip(grid, QUANTITIES):
            _draw_row(row, maps, layers, value)
        if last_position != "item":
            figure.suptitle(f"position L holds {last_position}, not an item", fontsize=8, y=0.995)
        return figure


def _draw_row(row: Any, maps: pd.DataFrame, layers: list[str], value: str) -> None:
    """The maps of one quantity, one for each layer, and their colours."""
    size = int(maps["query"].max()) + 1
    ticks = [place for place in range(size) if (size - 1 - place) % 5 == 0]
    names = ["L" if place == size - 1 else f"L-{size - 1 - place}" for place in ticks]
    tables = [
        maps[maps["layer"] == layer].pivot(index="query", columns="key", values=value)
        for layer in layers
    ]
    # Both axes run from the oldest position to the last one.
    images = [table.to_numpy(dtype=float)[::-1, ::-1] for table in tables]
    scale = _map_scale(np.concatenate(images), logarithmic=value == "contribution")
    for axes, layer, image in zip(row, layers, images):
        visible = np.ma.masked_where(~(image > 0), image)
        drawn = axes.imshow(visible, cmap="cividis", norm=scale)
        axes.set_facecolor("#e4e4e8")
        axes.set_title(f"{QUANTITIES[value]}, layer {layer}")
        axes.set_xticks(ticks, names)
        axes.set_yticks(ticks, names)
        axes.set_xlabel("takes from position")
        for spine in axes.spines.values():
            spine.set_visible(False)
    row[0].set_ylabel("position")
    row[-1].set_label("<colorbar>")
    # Numbers of a logarithmic scale are otherwise formulas, which are not set here.
    bar = row[-1].figure.colorbar(
        drawn, cax=row[-1], format=FuncFormatter(lambda number, _: f"{number:g}")
    )
    if isinstance(scale, LogNorm):
        bar.locator = LogLocator(subs=(1.0, 2.0, 5.0))
        bar.minorticks_off()


def _map_scale(values: np.ndarray, logarithmic: bool) -> Any:
    """Colours of a map. A residual is often a hundred times what attention brings: on a linear
    scale its diagonal would leave the rest black."""
    positive = values[values > 0]
    if not logarithmic or not len(positive) or positive.min() == positive.max():
        return Normalize(0, float(np.nanmax(values)) or 1.0)
    return LogNorm(max(float(positive.min()), float(positive.max()) / 1000), float(positive.max()))
