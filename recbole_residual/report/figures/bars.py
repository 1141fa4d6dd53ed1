"""Figures of bars: mixing ratios, drops, ranks, shares of positions."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from recbole_residual.report.figures.fonts import is_readable
from recbole_residual.report.figures.style import (
    HATCHES,
    OKABE_ITO,
    STAGE_NAMES,
    Margins,
    Series,
    figure_with,
    legend,
    looks,
)
from recbole_residual.report.intervals import HIGH, LOW, has_interval


def ratios_by_stage(ratios: Series) -> Figure:
    """Mean mixing ratio by stage: by layer for one run, by run for several.

    Args:
        ratios: tables of the probe ``internals``.
    """
    one = len(ratios) == 1
    bars: dict[str, pd.DataFrame] = {}
    for label, table in ratios.items():
        everywhere = table[table["position"] == "all"]
        if one:
            for layer, part in everywhere.groupby("layer", sort=False):
                bars["all layers" if layer == "all" else f"layer {layer}"] = part
        else:
            bars[label] = everywhere[everywhere["layer"] == "all"]
    stages = list(dict.fromkeys(stage for part in bars.values() for stage in part["stage"]))
    with figure_with(width=5.2, height=3.2, texts=ratios) as (figure, (axes,)):
        tables = {label: part.set_index("stage").reindex(stages) for label, part in bars.items()}
        _grouped_bars(
            axes,
            {label: list(table["mean"]) for label, table in tables.items()},
            {label: _whiskers(table, "mean", "std", share=True) for label, table in tables.items()},
        )
        axes.set_xticks(range(len(stages)), [STAGE_NAMES.get(s, s) for s in stages])
        axes.set_ylabel("mixing ratio")
        axes.set_ylim(0, 1.05)
        legend(axes, figure)
        return figure


def shuffle_bars(shuffles: Series, k: int) -> Figure:
    """Relative drop under each perturbation: two metrics for one run, NDCG for several.

    Args:
        shuffles: tables of the probe ``shuffle``.
        k: the cut-off.
    """
    modes = list(dict.fromkeys(mode for table in shuffles.values() for mode in table["mode"]))
    modes.remove("original")
    bars: dict[str, tuple[pd.DataFrame, str]] = {}
    for label, table in shuffles.items():
        indexed = table.set_index("mode").reindex(modes)
        bars[f"NDCG@{k}" if len(shuffles) == 1 else label] = (indexed, f"ndcg@{k}_drop")
        if len(shuffles) == 1:
            bars[f"HR@{k}"] = (indexed, f"hit@{k}_drop")
    with figure_with(width=5.4, height=3.0, texts=shuffles) as (figure, (axes,)):
        _grouped_bars(
            axes,
            {label: list(table[name]) for label, (table, name) in bars.items()},
            {label: _whiskers(table, name, f"{name}_std") for label, (table, name) in bars.items()},
        )
        axes.axhline(0, color="#333333", linewidth=0.8)
        axes.set_xticks(
            range(len(modes)), [mode.replace("_", "\n", 1).replace("_", " ") for mode in modes]
        )
        what = "" if len(shuffles) == 1 else f" of NDCG@{k}"
        axes.set_ylabel(f"relative drop{what} (1 = all lost)")
        legend(axes, figure)
        return figure


def rank_distribution(ranks: Series) -> Figure:
    """Where the last input item stands in the ranking: with the target for one run, or by run.

    Args:
        ranks: the table ``internals_ranks`` of the probe ``internals``.
    """
    with figure_with(width=5.4, height=3.0, margins=Margins(bottom=0.86), texts=ranks) as (
        figure,
        (axes,),
    ):
        first = next(iter(ranks.values()))
        bins = first[first["item"] == "last input item"]
        names = [
            f"{low}" if low == high else f"{low}-{high}"
            for low, high in zip(bins["rank_from"], bins["rank_to"])
        ]
        if len(ranks) == 1:
            parts = {str(item): part for item, part in first.groupby("item", sort=False)}
            _grouped_bars(
                axes,
                {item: list(part["share"]) for item, part in parts.items()},
                {
                    item: (list(part[f"share{LOW}"]), list(part[f"share{HIGH}"]))
                    for item, part in parts.items()
                    if has_interval(part, "share")
                },
            )
        else:
            for look, (label, table) in zip(looks(), ranks.items()):
                part = table[table["item"] == "last input item"]
                axes.plot(range(len(part)), part["share"], label=label, **look)
                if len(part) > len(names):
                    names = [f"{a}-{b}" for a, b in zip(part["rank_from"], part["rank_to"])]
        axes.set_xticks(range(len(names)), names, rotation=35, ha="right", rotation_mode="anchor")
        axes.set_xlabel("rank in the whole catalogue")
        axes.set_ylabel("share of sequences")
        axes.set_ylim(bottom=0)
        legend(axes, figure)
        return figure


def influence_bars(modules: Series) -> Figure:
    """In which modules the influence sits: on the last item, for one run on the target too.

    Args:
        modules: the table ``influence_modules`` of the probe ``influence``.
    """
    tables = {label: table.set_index(_places(table)) for label, table in modules.items()}
    names = list(dict.fromkeys(name for table in tables.values() for name in table.index))
    shares = {label: table["last_item_share"] for label, table in tables.items()}
    if len(tables) == 1:
        (table,) = tables.values()
        shares = {
            "on the last item": table["last_item_share"],
            "on the target": table["accuracy_share"],
        }
    margins = Margins(bottom=0.25 + 0.042 * max(map(len, names)))
    with figure_with(width=5.4, height=2.4 + margins.bottom, margins=margins, texts=modules) as (
        figure,
        (axes,),
    ):
        _grouped_bars(axes, {label: list(share.reindex(names)) for label, share in shares.items()})
        axes.set_xticks(range(len(names)), names, rotation=35, ha="right", rotation_mode="anchor")
        axes.set_ylabel("share of the influence")
        axes.set_ylim(bottom=0)
        legend(axes, figure)
        return figure


def position_bars(
    panels: Mapping[str, Sequence[float]],
    names: Sequence[str],
    otherwise: Sequence[str] | None = None,
) -> Figure:
    """One panel of horizontal bars per quantity, positions down, the last one at the bottom.

    Args:
        panels: for each quantity one value per position, NaN where it is not defined.
        names: of the positions, the oldest first.
        otherwise: what to write for a name that no font on this machine can.
    """
    if otherwise is not None:
        names = [name if is_readable(name) else plain for name, plain in zip(names, otherwise)]
    height = 0.72 + 0.24 * len(names)
    longest = max((_width(name) for name in names), default=0)
    margins = Margins(left=0.2 + 0.075 * longest, between=0.2)
    width = 2.2 + (margins.left + margins.right) / len(panels)
    with figure_with(len(panels), width, height, margins, names) as (figure, all_axes):
        for number, (axes, (title, values)) in enumerate(zip(all_axes, panels.items())):
            places = np.arange(len(names))
            axes.barh(places, values, color=OKABE_ITO[number], hatch=HATCHES[number])
            axes.set_yticks(places, names if number == 0 else [])
            axes.set_ylim(len(names) - 0.4, -0.6)
            axes.set_xlabel(title)
            axes.axvline(0, color="#333333", linewidth=0.8)
            axes.grid(visible=False, axis="y")
        return figure


def _whiskers(
    table: pd.DataFrame, name: str, spread: str, share: bool = False
) -> tuple[list[float], list[float]]:
    """Ends of the whiskers of a column: its 95 % interval if the table has one, else its spread.

    Args:
        table: with the column and perhaps its interval.
        name: of the column.
        spread: the column of its standard deviation.
        share: whether it lies between 0 and 1; no whisker leaves that.
    """
    if has_interval(table, name):
        low, high = table[name + LOW], table[name + HIGH]
    else:
        low, high = table[name] - table[spread], table[name] + table[spread]
    if share:
        low, high = low.clip(0, 1), high.clip(0, 1)
    return list(low), list(high)


def _grouped_bars(
    axes: Any,
    values: Mapping[str, Sequence[float]],
    ends: Mapping[str, tuple[Sequence[float], Sequence[float]]] | None = None,
) -> None:
    """Bars side by side, one group for each place.

    Args:
        axes: where to.
        values: by the name of the series, a height for each place.
        ends: the same for the ends of the whiskers; None for bars without.
    """
    width = 0.8 / len(values)
    looks = cycle(zip(OKABE_ITO, HATCHES))
    for number, ((label, heights), (color, hatch)) in enumerate(zip(values.items(), looks)):
        places = np.arange(len(heights)) + (number - (len(values) - 1) / 2) * width
        axes.bar(
            places,
            heights,
            width * 0.92,
            label=label,
            color=color,
            hatch=hatch,
            edgecolor="white",
            linewidth=0,
        )
        if ends is not None:
            low, high = (np.asarray(end, dtype=float) for end in ends[label])
            reach = high > low  # a bar without spread needs no whisker
            axes.vlines(places[reach], low[reach], high[reach], color="#333333", linewidth=0.9)
    axes.grid(visible=False, axis="x")


def _places(table: pd.DataFrame) -> pd.Series:
    """Names of layers and modules, without the encoder's where a model has only one."""
    layer = table["layer"].map(lambda layer: f"layer {layer}, " if layer else "")
    short = layer + table["module"].str.rpartition(".")[2]
    return layer + table["module"] if short.duplicated().any() else short


def _width(text: str) -> int:
    """Of a text in characters of the Latin alphabet: those of Chinese and Japanese take two."""
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)
