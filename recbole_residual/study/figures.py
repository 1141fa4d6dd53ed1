"""The figures of a study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from recbole_residual.report.figures.style import (
    HATCHES,
    OKABE_ITO,
    Margins,
    figure_with,
    legend,
    looks,
)
from recbole_residual.report.measured import Measured


def bars(
    labels: Sequence[str],
    series: Mapping[str, Sequence[Measured]],
    title: str,
    ends: tuple[float, float],
) -> Figure:
    """Bars beside each other for each set, with 95 % intervals.

    Args:
        labels: of the sets, from the top.
        series: by name, one figure a set.
        title: of the axis.
        ends: of the axis, at least.
    """
    height = 0.8 / len(series)
    margins = Margins(left=0.3 + 0.075 * max(map(len, labels)), right=0.15)
    inches = (margins.left + 4.4, 0.9 + 0.42 * len(labels))
    with figure_with(1, *inches, margins, labels) as (figure, (axes,)):
        y = np.arange(len(labels))
        for number, (name, values) in enumerate(series.items()):
            at = y + (number - (len(series) - 1) / 2) * height
            middle = np.array([one.value for one in values])
            whiskers = np.array(
                [[one.value - one.low, one.high - one.value] for one in values]
            ).clip(min=0)
            axes.barh(
                at,
                middle,
                height,
                label=name,
                color=OKABE_ITO[number],
                hatch=HATCHES[number],
                edgecolor="white",
                xerr=None if np.isnan(whiskers).all() else np.nan_to_num(whiskers).T.tolist(),
                error_kw={"elinewidth": 0.8, "ecolor": "#222222"},
            )
        axes.set_yticks(y, labels)
        axes.invert_yaxis()
        axes.set_xlabel(title)
        low, high = axes.get_xlim()
        axes.set_xlim(min(low, ends[0]), max(high, ends[1]))
        axes.axvline(0, color="#222222", linewidth=0.6)
        legend(axes, figure)
        return figure


def against_uniform(labels: Sequence[str], frame: pd.DataFrame) -> Figure:
    """The mixing ratio of each set against what uniform attention costs there.

    Args:
        labels: of the sets.
        frame: with ``mixing res`` and ``share lost`` and its interval.
    """
    with figure_with(width=5.4, height=3.4, texts=labels) as (figure, (axes,)):
        for look, label, (_, row) in zip(looks(), labels, frame.iterrows()):
            value = row["share lost"]
            whiskers = [[value - row["share lost_low"]], [row["share lost_high"] - value]]
            axes.errorbar(
                [row["mixing res"]],
                [value],
                yerr=np.nan_to_num(np.array(whiskers)).clip(min=0).tolist(),
                label=label,
                color=look["color"],
                marker=look["marker"],
                linestyle="",
                elinewidth=0.8,
            )
        axes.axhline(0, color="#222222", linewidth=0.6)
        axes.set_xlabel("mixing ratio with the residual, learned attention")
        axes.set_ylabel("NDCG@10 lost by uniform attention")
        legend(axes, figure, most_columns=2)
        return figure


def lines(frames: Mapping[str, pd.DataFrame], x: str, y: str, titles: tuple[str, str]) -> Figure:
    """A line for each set.

    Args:
        frames: by the label of the set, with the columns ``x`` and ``y``.
        x, y: columns.
        titles: of the axes.
    """
    with figure_with(width=5.4, height=3.2, texts=frames) as (figure, (axes,)):
        for look, (label, frame) in zip(looks(), frames.items()):
            axes.plot(frame[x], frame[y], label=label, **look)
        axes.set_xlabel(titles[0])
        axes.set_ylabel(titles[1])
        axes.set_ylim(bottom=0)
        legend(axes, figure, most_columns=2)
        return figure
