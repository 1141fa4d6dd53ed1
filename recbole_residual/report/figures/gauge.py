"""Where runs lie on scales from 0 to 1: among other runs, and in the ranges of the papers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from matplotlib.figure import Figure

from recbole_residual.report.figures.style import (
    OKABE_ITO,
    Margins,
    figure_with,
    legend,
    looks,
)


@dataclass(frozen=True)
class Scale:
    """One quantity, a share.

    Attributes:
        name: what stands beside it.
        values: by the label of the run: the value and the ends of its interval, NaN if none.
        others: what the runs beside these have.
        low, high: the range that papers report; None if they report none.
    """

    name: str
    values: Mapping[str, tuple[float, float, float]]
    others: Sequence[float] = field(default_factory=list)
    low: float | None = None
    high: float | None = None


def gauges(scales: Sequence[Scale]) -> Figure:
    """One line per quantity: the papers' range as a band, other runs as strokes, ours as marks."""
    labels = list(dict.fromkeys(label for scale in scales for label in scale.values))
    longest = max(len(scale.name) for scale in scales)
    margins = Margins(left=0.25 + 0.068 * longest, right=0.2, bottom=0.46, top=0.08)
    height = 0.6 + 0.4 * len(scales)
    with figure_with(1, 3.1 + margins.left, height, margins, labels) as (figure, (axes,)):
        for place, scale in enumerate(scales):
            axes.barh(place, 1, 0.5, color="#ececf0", zorder=1)
            if scale.low is not None and scale.high is not None:
                axes.barh(
                    place,
                    scale.high - scale.low,
                    0.5,
                    left=scale.low,
                    color="#b9d9ec",
                    zorder=1.5,
                    label="range in the papers",
                )
            if scale.others:
                axes.vlines(
                    [min(max(value, 0), 1) for value in scale.others],
                    place - 0.25,
                    place + 0.25,
                    color="#77777c",
                    linewidth=1,
                    label="runs beside it",
                )
            for look, label in zip(looks(), labels):
                if label in scale.values:
                    _mark(axes, place, scale.values[label], look, label)
        axes.set_yticks(range(len(scales)), [scale.name for scale in scales])
        axes.tick_params(axis="y", length=0)
        axes.tick_params(axis="y", pad=8)
        axes.set_ylim(len(scales) - 0.5, -0.5)
        axes.set_xlim(0, 1)
        axes.set_xlabel("share")
        axes.grid(visible=False)
        for spine in axes.spines.values():
            spine.set_visible(False)
        _name_each_once(axes)
        legend(axes, figure)
        return figure


def _mark(
    axes: Any, place: int, value: tuple[float, float, float], look: dict[str, str], label: str
) -> None:
    """A run on its line, with its interval; what lies outside 0 to 1 stands at the end."""
    middle, low, high = (min(max(number, 0.0), 1.0) for number in value)
    axes.hlines(place, low, high, color=OKABE_ITO[-1], linewidth=1.2, zorder=3)
    axes.plot(
        [middle],
        [place],
        marker=look["marker"],
        color=look["color"],
        markersize=8,
        markeredgecolor="white",
        linestyle="none",
        zorder=4,
        clip_on=False,
        label=label,
    )


def _name_each_once(axes: Any) -> None:
    """Marks of one kind on several lines take one entry of the legend."""
    names = set()
    for artist in [*axes.containers, *axes.collections, *axes.lines]:
        if artist.get_label() in names:
            artist.set_label("_nolegend_")
        names.add(artist.get_label())
