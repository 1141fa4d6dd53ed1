"""Figures of the choice of alpha."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.figure import Figure

from recbole_residual.report.figures.alpha import label_alphas
from recbole_residual.report.figures.style import OKABE_ITO, Series, figure_with, legend, looks


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
    with figure_with(width=4.6, height=3.4, texts=sweeps) as (figure, (axes,)):
        for look, (label, sweep) in zip(looks(), sweeps.items()):
            axes.plot(sweep[hit], sweep[rate], label=label if len(sweeps) > 1 else None, **look)
            if len(sweeps) == 1:
                label_alphas(axes, sweep, hit, rate, list(sweep["alpha"]))
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
        legend(axes, figure, 2)
        return figure


def outcome_against_epsilon(selections: Series, k: int) -> Figure:
    """The chosen alpha against the oracle, for each accuracy that may be given up.

    Args:
        selections: tables of the probe ``alpha_selection``.
        k: the cut-off.
    """
    with figure_with(2, texts=selections) as (figure, panels):
        for look, (label, table) in zip(looks(), selections.items()):
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
            axes.set_xlabel("accuracy that may be given up, ε")
        legend(panels[1], figure, 3)
        return figure
