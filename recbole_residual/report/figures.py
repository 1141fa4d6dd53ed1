"""The figures: readable in print, in grey and for colour-blind readers, runs overlaid.

Colours are those of Okabe and Ito (2008); every series also has a marker, a line style or a hatch
of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import cycle
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure

OKABE_ITO = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LINES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))
HATCHES = ("", "///", "...", "xxx", "\\\\\\", "ooo", "++")

Series = Mapping[str, pd.DataFrame]
"""One table per run, by the label of the run."""

_STYLE = {
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


@contextmanager
def _figure(columns: int = 1, width: float = 3.6, height: float = 2.9) -> Iterator[Any]:
    """Inside, the style is in force; yields the figure and its axes."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(width * columns, height), layout="constrained")
        FigureCanvasAgg(figure)
        yield figure, figure.subplots(1, columns, squeeze=False)[0]


def _looks() -> Iterator[dict[str, Any]]:
    for color, marker, line in cycle(zip(OKABE_ITO, MARKERS, LINES)):
        yield {"color": color, "marker": marker, "linestyle": line}


def _legend(axes: Any, figure: Any, n_series: int) -> None:
    """A legend below all axes, so that it hides nothing."""
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        columns = 1 if max(map(len, labels)) > 28 else min(4, n_series)
        rows = -(-len(labels) // columns)
        figure.set_figheight(figure.get_figheight() + 0.17 * max(0, rows - 2))
        figure.legend(handles, labels, loc="outside lower center", ncols=columns)


STAGE_NAMES = {
    "attn": "attention alone (attn)",
    "res": "with residual (res)",
    "ln": "after LayerNorm (ln)",
    "gate": "update gate (gate)",
}
"""Stages of the mixing ratio, in words."""


def alpha_curves(sweeps: Series, last: str) -> Figure:
    """Alpha against the mixing ratio and against HRLI@1.

    Args:
        sweeps: with columns ``alpha``, ``mixingratio_...`` and ``hrli@1``.
        last: what the last position is called.
    """
    with _figure(2) as (figure, (left, right)):
        if len(sweeps) == 1:
            (sweep,) = sweeps.values()
            lines = {
                name: sweep[f"mixingratio_{stage}"]
                for stage, name in STAGE_NAMES.items()
                if f"mixingratio_{stage}" in sweep
            }
            if "mixingratio_res_last" in sweep:
                lines[f"with residual, {last} position"] = sweep["mixingratio_res_last"]
            for look, (label, values) in zip(_looks(), lines.items()):
                left.plot(sweep["alpha"], values, label=label, **look)
            right.plot(sweep["alpha"], sweep["hrli@1"], **next(_looks()))
            left.set_ylabel("mixing ratio")
        else:
            for look, (label, sweep) in zip(_looks(), sweeps.items()):
                stage = "res" if "mixingratio_res" in sweep else "gate"
                left.plot(sweep["alpha"], sweep[f"mixingratio_{stage}"], label=label, **look)
                right.plot(sweep["alpha"], sweep["hrli@1"], **look)
            left.set_ylabel("mixing ratio (res, or gate)")
        right.set_ylabel("HRLI@1")
        right.set_ylim(bottom=0)
        left.set_ylim(0, 1)
        for axes in (left, right):
            axes.set_xlabel(r"residual factor $\alpha$")
        _legend(left, figure, max(2, len(sweeps)))
        return figure


def hrli_against_accuracy(sweeps: Series, metric: str, metric_name: str) -> Figure:
    """How accuracy and HRLI@1 move together as alpha goes.

    Args:
        sweeps: with columns ``alpha``, ``hrli@1`` and ``metric``.
        metric: name of the column of accuracy.
        metric_name: what it is called.
    """
    with _figure(width=4.6, height=3.2) as (figure, (axes,)):
        for look, (label, sweep) in zip(_looks(), sweeps.items()):
            axes.plot(sweep["hrli@1"], sweep[metric], label=label, **look)
            if len(sweeps) == 1:
                _label_alphas(axes, sweep, "hrli@1", metric, list(sweep["alpha"]))
            else:
                _label_alphas(axes, sweep, "hrli@1", metric, [sweep["alpha"].iloc[0]])
        axes.set_xlabel("HRLI@1")
        axes.set_ylabel(metric_name)
        axes.margins(0.12)
        if len(sweeps) > 1:
            _legend(axes, figure, 2)
        return figure


def _label_alphas(axes: Any, sweep: pd.DataFrame, x: str, y: str, alphas: Sequence[float]) -> None:
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


def recovery_against_accuracy(
    sweeps: Series, chosen: Mapping[str, float], oracle: Mapping[str, float], k: int
) -> Figure:
    """What of the recoverable base is recovered, and what it costs; test data.

    Args:
        sweeps: with columns ``alpha``, ``hit@k`` and ``recoveryrate@k``.
        chosen: for each run the alpha chosen on validation.
        oracle: for each run the alpha that the same rule chooses on the test data.
        k: the cut-off.
    """
    hit, rate = f"hit@{k}", f"recoveryrate@{k}"
    with _figure(width=4.6, height=3.4) as (figure, (axes,)):
        for look, (label, sweep) in zip(_looks(), sweeps.items()):
            axes.plot(sweep[hit], sweep[rate], label=label if len(sweeps) > 1 else None, **look)
            if len(sweeps) == 1:
                _label_alphas(axes, sweep, hit, rate, list(sweep["alpha"]))
            for name, alpha, marker, size in (
                ("chosen on validation", chosen[label], "*", 190),
                ("test oracle", oracle[label], "o", 130),
            ):
                row = sweep[sweep["alpha"] == alpha]
                first = label == next(iter(sweeps))
                axes.scatter(
                    row[hit],
                    row[rate],
                    s=size,
                    marker=marker,
                    facecolor="none",
                    edgecolor=OKABE_ITO[-1] if marker == "*" else look["color"],
                    linewidth=1.3,
                    label=name if first else None,
                    zorder=3,
                )
        axes.set_xlabel(f"HR@{k}")
        axes.set_ylabel(f"RecoveryRate@{k}")
        axes.margins(0.12)
        _legend(axes, figure, 2)
        return figure


def outcome_against_epsilon(selections: Series, k: int) -> Figure:
    """The chosen alpha against the oracle, for each accuracy that may be given up.

    Args:
        selections: tables of the probe ``alpha_selection``.
        k: the cut-off.
    """
    with _figure(2) as (figure, panels):
        for look, (label, table) in zip(_looks(), selections.items()):
            prefix = f"{label}: " if len(selections) > 1 else ""
            for axes, metric in zip(panels, (f"recoveryrate@{k}", f"hit@{k}")):
                axes.plot(
                    table["epsilon"],
                    table[f"test_{metric}"],
                    label=f"{prefix}chosen on validation",
                    color=look["color"],
                    marker=look["marker"],
                )
                axes.plot(
                    table["epsilon"],
                    table[f"oracle_{metric}"],
                    label=f"{prefix}test oracle",
                    color=look["color"],
                    marker=look["marker"],
                    markerfacecolor="white",
                    linestyle="--",
                )
            panels[1].plot(
                table["epsilon"],
                table[f"unscaled_hit@{k}"],
                label=f"{prefix}unchanged model",
                color="#777777",
                linestyle=":",
            )
        panels[0].set_ylabel(f"RecoveryRate@{k}, test")
        panels[1].set_ylabel(f"HR@{k}, test")
        for axes in panels:
            axes.set_xlabel(r"accuracy that may be given up, $\epsilon$")
        _legend(panels[1], figure, 3)
        return figure


def heatmaps(maps: pd.DataFrame, last_position: str) -> Figure:
    """Average contribution and attention of the most recent positions, one column per layer.

    Args:
        maps: with columns ``layer``, ``query``, ``key``, ``contribution``, ``attention``.
        last_position: what stands at the last position.
    """
    layers = list(dict.fromkeys(maps["layer"]))
    size = int(maps["query"].max()) + 1
    with mpl.rc_context({**_STYLE, "axes.grid": False}):
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
    with _figure(width=5.2, height=3.2) as (figure, (axes,)):
        values = {
            label: [_at(part, stage, "mean") for stage in stages] for label, part in bars.items()
        }
        spread = {
            label: [_at(part, stage, "std") for stage in stages] for label, part in bars.items()
        }
        _grouped_bars(axes, values, spread)
        axes.set_xticks(range(len(stages)), [STAGE_NAMES.get(s, s) for s in stages])
        axes.set_ylabel("mixing ratio")
        axes.set_ylim(0, 1.05)
        _legend(axes, figure, 4)
        return figure


def _at(part: pd.DataFrame, stage: str, statistic: str) -> float:
    found = part.loc[part["stage"] == stage, statistic]
    return float(found.iloc[0]) if len(found) else float("nan")


def _grouped_bars(
    axes: Any, values: Mapping[str, Sequence[float]], spread: Mapping[str, Sequence[float]]
) -> None:
    width = 0.8 / len(values)
    looks = cycle(zip(OKABE_ITO, HATCHES))
    for number, ((label, heights), (color, hatch)) in enumerate(zip(values.items(), looks)):
        places = np.arange(len(heights)) + (number - (len(values) - 1) / 2) * width
        axes.bar(
            places,
            heights,
            width * 0.92,
            yerr=[value or np.nan for value in spread[label]] if any(spread[label]) else None,
            label=label,
            color=color,
            hatch=hatch,
            edgecolor="white",
            linewidth=0,
            error_kw={"elinewidth": 0.8, "ecolor": "#333333", "capsize": 1.5},
        )
    axes.grid(visible=False, axis="x")


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
    with _figure(width=6.4, height=3.2) as (figure, (axes,)):
        _grouped_bars(
            axes,
            {label: list(table[name]) for label, (table, name) in bars.items()},
            {label: list(table[f"{name}_std"].fillna(0)) for label, (table, name) in bars.items()},
        )
        axes.axhline(0, color="#333333", linewidth=0.8)
        axes.set_xticks(range(len(modes)), [mode.replace("_", "\n", 1) for mode in modes])
        what = "" if len(shuffles) == 1 else f" of NDCG@{k}"
        axes.set_ylabel(f"relative drop{what} (1 = all lost)")
        _legend(axes, figure, 4)
        return figure


def rank_distribution(ranks: Series) -> Figure:
    """Where the last input item stands in the ranking: with the target for one run, or by run.

    Args:
        ranks: the table ``internals_ranks`` of the probe ``internals``.
    """
    with _figure(width=6.4, height=3.2) as (figure, (axes,)):
        first = next(iter(ranks.values()))
        bins = first[first["item"] == "last input item"]
        names = [
            f"{low}" if low == high else f"{low}-{high}"
            for low, high in zip(bins["rank_from"], bins["rank_to"])
        ]
        if len(ranks) == 1:
            shares = {
                str(item): list(part["share"]) for item, part in first.groupby("item", sort=False)
            }
            _grouped_bars(axes, shares, {label: [0.0] * len(names) for label in shares})
        else:
            for look, (label, table) in zip(_looks(), ranks.items()):
                part = table[table["item"] == "last input item"]
                axes.plot(range(len(part)), part["share"], label=label, **look)
                if len(part) > len(names):
                    names = [f"{a}-{b}" for a, b in zip(part["rank_from"], part["rank_to"])]
        axes.set_xticks(range(len(names)), names, rotation=35, ha="right", rotation_mode="anchor")
        axes.set_xlabel("rank in the whole catalogue")
        axes.set_ylabel("share of sequences")
        axes.set_ylim(bottom=0)
        _legend(axes, figure, 2)
        return figure


def position_bars(panels: Mapping[str, Sequence[float]], names: Sequence[str]) -> Figure:
    """One panel of horizontal bars per quantity, positions down, the last one at the bottom.

    Args:
        panels: for each quantity one value per position, NaN where it is not defined.
        names: of the positions, the oldest first.
    """
    height = 1.1 + 0.24 * len(names)
    with _figure(len(panels), width=2.4, height=height) as (figure, all_axes):
        figure.set_size_inches(2.4 * len(panels) + 1.8, height)
        for number, (axes, (title, values)) in enumerate(zip(all_axes, panels.items())):
            places = np.arange(len(names))
            axes.barh(places, values, color=OKABE_ITO[number], hatch=HATCHES[number])
            axes.set_yticks(places, names if number == 0 else [])
            axes.set_ylim(len(names) - 0.4, -0.6)
            axes.set_xlabel(title)
            axes.axvline(0, color="#333333", linewidth=0.8)
            axes.grid(visible=False, axis="y")
        return figure
