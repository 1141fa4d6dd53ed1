"""Heatmaps of who takes from whom."""

from __future__ import annotations

from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure

from recbole_residual.report.figures.style import STYLE


def heatmaps(maps: pd.DataFrame, last_position: str) -> Figure:
    """Average contribution and attention of the most recent positions, one column per layer.

    Args:
        maps: with columns ``layer``, ``query``, ``key``, ``contribution``, ``attention``.
        last_position: what stands at the last position.
    """
    layers = list(dict.fromkeys(maps["layer"]))
    size = int(maps["query"].max()) + 1
    with mpl.rc_context({**STYLE, "axes.grid": False}):
        figure = Figure(figsize=(2.9 * len(layers) + 0.9, 5.4), layout="constrained")
        FigureCanvasAgg(figure)
        grid = figure.subplots(2, len(layers), squeeze=False)
        for row, (value, name) in enumerate(
            (("contribution", "contribution norm"), ("attention", "attention weight"))
        ):
            tables = [
                maps[maps["layer"] == layer].pivot(index="query", columns="key", values=value)
                for layer in layers
            ]
            # Both axes run from the oldest position to the last one.
            images = [table.to_numpy(dtype=float)[::-1, ::-1] for table in tables]
            scale = _map_scale(np.concatenate(images), logarithmic=value == "contribution")
            for axes, layer, image in zip(grid[row], layers, images):
                seen = np.ma.masked_where(~(image > 0), image)
                shown = axes.imshow(seen, cmap="cividis", norm=scale)
                axes.set_facecolor("#e4e4e8")
                axes.set_title(f"{name}, layer {layer}")
                ticks = [place for place in range(size) if (size - 1 - place) % 5 == 0]
                names = ["L" if p == size - 1 else f"L-{size - 1 - p}" for p in ticks]
                axes.set_xticks(ticks, names)
                axes.set_yticks(ticks, names)
                axes.set_xlabel("takes from position")
                for spine in axes.spines.values():
                    spine.set_visible(False)
            grid[row][0].set_ylabel("position")
            figure.colorbar(shown, ax=list(grid[row]), shrink=0.85)
        if last_position != "item":
            figure.suptitle(f"position L holds {last_position}, not an item", fontsize=8)
        return figure


def _map_scale(values: np.ndarray, logarithmic: bool) -> Any:
    """Colours of a map. A residual is often a hundred times what attention brings: on a linear
    scale its diagonal would leave the rest black."""
    there = values[values > 0]
    if not logarithmic or not len(there) or there.min() == there.max():
        return Normalize(0, float(np.nanmax(values)) or 1.0)
    return LogNorm(max(float(there.min()), float(there.max()) / 1000), float(there.max()))
