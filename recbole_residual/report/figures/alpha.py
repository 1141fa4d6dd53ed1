"""Figures of the sweep over alpha."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from recbole_residual.report.figures.style import (
    STAGE_NAMES,
    Margins,
    Series,
    band,
    figure_with,
    legend,
    looks,
)

_MARGINS = Margins(left=0.8)
"""Small NDCGs have long numbers."""


def alpha_curves(sweeps: Series, last: str) -> Figure:
    """Alpha against the mixing ratio and against HRLI@1.

    Args:
        sweeps: with columns ``alpha``, ``mixingratio_...`` and ``hrli@1``.
        last: what the last position is called.
    """
    with figure_with(2, texts=sweeps) as (figure, (left, right)):
        if len(sweeps) == 1:
            (sweep,) = sweeps.values()
            lines = {f"mixingratio_{stage}": name for stage, name in STAGE_NAMES.items()}
            lines["mixingratio_res_last"] = f"with residual, {last} position"
            drawn = [(name, label) for name, label in lines.items() if name in sweep]
            for look, (name, label) in zip(looks(), drawn):
                left.plot(sweep["alpha"], sweep[name], label=label, **look)
                band(left, sweep, "alpha", name, look["color"])
            right.plot(sweep["alpha"], sweep["hrli@1"], **next(looks()))
            band(right, sweep, "alpha", "hrli@1", next(looks())["color"])
            left.set_ylabel("mixing ratio")
        else:
            for look, (label, sweep) in zip(looks(), sweeps.items()):
                stage = "res" if "mixingratio_res" in sweep else "gate"
                left.plot(sweep["alpha"], sweep[f"mixingratio_{stage}"], label=label, **look)
                right.plot(sweep["alpha"], sweep["hrli@1"], **look)
                band(right, sweep, "alpha", "hrli@1", look["color"])
            left.set_ylabel("mixing ratio (res, or gate)")
        right.set_ylabel("HRLI@1")
        right.set_ylim(bottom=0)
        left.set_ylim(0, 1)
        for axes in (left, right):
            axes.set_xlabel("residual factor \N{GREEK SMALL LETTER ALPHA}")
        legend(left, figure)
        return figure


def hrli_against_accuracy(sweeps: Series, metric: str, metric_name: str) -> Figure:
    """How accuracy and HRLI@1 move together as alpha goes.

    Args:
        sweeps: with columns ``alpha``, ``hrli@1`` and ``metric``.
        metric: name of the column of accuracy.
        metric_name: what it is called.
    """
    with figure_with(width=4.6, height=3.2, margins=_MARGINS, texts=sweeps) as (figure, (axes,)):
        for look, (label, sweep) in zip(looks(), sweeps.items()):
            axes.plot(sweep["hrli@1"], sweep[metric], label=label, **look)
            if len(sweeps) == 1:
                label_alphas(axes, sweep, "hrli@1", metric, list(sweep["alpha"]))
            else:
                label_alphas(axes, sweep, "hrli@1", metric, [sweep["alpha"].iloc[0]])
        axes.set_xlabel("HRLI@1")
        axes.set_ylabel(metric_name)
        axes.margins(0.12)
        if len(sweeps) > 1:
            legend(axes, figure)
        return figure


def learned_alphas(paths: Series, several: bool) -> Figure:
    """The learned factor of each layer after each epoch.

    Args:
        paths: with a column ``epoch`` and one for each layer.
        several: whether lines are named by their run too.
    """
    with figure_with(width=4.6, texts=paths) as (figure, (axes,)):
        axes.axhline(1, color="#333333", linewidth=0.8)
        look = looks()
        for label, path in paths.items():
            for layer in map(str, path.columns.drop("epoch")):
                name = f"{label}: {layer}" if several else layer
                axes.plot(path["epoch"], path[layer], label=name, **next(look))
        axes.set_xlabel("epoch")
        axes.set_ylabel("learned residual factor \N{GREEK SMALL LETTER ALPHA}")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        legend(axes, figure)
        return figure


def label_alphas(axes: Any, sweep: pd.DataFrame, x: str, y: str, alphas: Sequence[float]) -> None:
    """Write alpha beside points, leaving out those that would overlap the one before."""
    span_x = float(np.ptp(sweep[x])) or 1.0
    span_y = float(np.ptp(sweep[y])) or 1.0
    placed: list[tuple[float, float]] = []
    ends = (sweep["alpha"].iloc[-1], sweep["alpha"].iloc[0])
    for alpha in sorted(alphas, key=lambda value: value not in ends):
        row = sweep[sweep["alpha"] == alpha].iloc[0]
        at = (row[x] / span_x, row[y] / span_y)
        if all(abs(at[0] - px) > 0.07 or abs(at[1] - py) > 0.07 for px, py in placed):
            placed.append(at)
            axes.annotate(
                f"{alpha:g}",
                (row[x], row[y]),
                xytext=(5, 5),
                textcoords="offset points",
                fontsize=7,
                color="#444444",
            )
