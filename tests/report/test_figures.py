"""Figures: the numbers that went in, told apart without colour, with names on the axes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex

from recbole_residual.report.comparison import compare
from recbole_residual.report.figures import (
    alpha_curves,
    heatmaps,
    hrli_against_accuracy,
    outcome_against_epsilon,
    position_bars,
    recovery_against_accuracy,
)
from recbole_residual.report.figures.style import OKABE_ITO
from recbole_residual.report.page import report

ALPHAS = np.array([0.0, 0.5, 1.0])


def sweep(shift: float = 0.0) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "alpha": ALPHAS,
            "hrli@1": 0.1 + 0.3 * ALPHAS + shift,
            "hit@10": 0.2 + 0.1 * ALPHAS,
            "ndcg@10": 0.1 + 0.05 * ALPHAS,
            "recoveryrate@10": 0.3 - 0.3 * ALPHAS,
            "mixingratio_attn": [0.9] * 3,
            "mixingratio_res": 0.9 - 0.6 * ALPHAS,
            "mixingratio_ln": 0.9 - 0.61 * ALPHAS,
            "mixingratio_res_last": 0.9 - 0.5 * ALPHAS,
        }
    )


def lines(axes: Any) -> dict[str, Any]:
    return {line.get_label(): line for line in axes.get_lines()}


def test_alpha_curves_of_one_run_hold_the_stages() -> None:
    left, right = alpha_curves({"a": sweep()}, "[MASK]").get_axes()
    drawn = lines(left)
    np.testing.assert_array_equal(drawn["with residual (res)"].get_ydata(), 0.9 - 0.6 * ALPHAS)
    assert "with residual, [MASK] position" in drawn
    np.testing.assert_array_equal(right.get_lines()[0].get_xydata(), sweep()[["alpha", "hrli@1"]])


def test_runs_are_told_apart_without_colour() -> None:
    runs = {f"run {number}": sweep(number / 100) for number in range(7)}
    left, right = alpha_curves(runs, "last").get_axes()
    for axes in (left, right):
        drawn = axes.get_lines()
        assert len({line.get_marker() for line in drawn}) == 7
        assert len({str(line.get_linestyle()) for line in drawn[:4]}) == 4
        assert {to_hex(line.get_color()).upper() for line in drawn} == set(OKABE_ITO)
    assert list(lines(left)) == list(runs)


def test_hrli_is_across_and_accuracy_up() -> None:
    (axes,) = hrli_against_accuracy({"a": sweep()}, "ndcg@10", "NDCG@10").get_axes()
    np.testing.assert_array_equal(axes.get_lines()[0].get_xydata(), sweep()[["hrli@1", "ndcg@10"]])
    assert {text.get_text() for text in axes.texts} == {"0", "0.5", "1"}


def test_the_choice_and_the_oracle_are_at_their_alpha() -> None:
    figure = recovery_against_accuracy({"a": sweep()}, {"a": 0.5}, {"a": 0.0}, 10)
    (axes,) = figure.get_axes()
    places = {c.get_label(): c.get_offsets().tolist() for c in axes.collections}
    assert places["chosen on validation"] == [pytest.approx([0.25, 0.15])]
    assert places["test oracle"] == [pytest.approx([0.2, 0.3])]


def test_outcome_against_epsilon() -> None:
    table = pd.DataFrame({"epsilon": [0.0, 0.1]})
    for part, value in (("test", 1), ("oracle", 2), ("unscaled", 3)):
        for metric in ("recoveryrate@5", "hit@5"):
            table[f"{part}_{metric}"] = [value, value + 10]
    left, right = outcome_against_epsilon({"a": table}, 5).get_axes()
    assert list(lines(left)["test oracle"].get_ydata()) == [2, 12]
    assert list(lines(right)["unchanged model"].get_ydata()) == [3, 13]


def test_heatmaps_end_with_the_last_position() -> None:
    rows = [
        {"layer": layer, "query": q, "key": k, "contribution": 1.0 + 3 * q + k, "attention": 0.5}
        for layer in ("1", "2")
        for q in range(3)
        for k in range(q, 3)
    ]
    rows += [
        {"layer": layer, "query": q, "key": k, "contribution": 0.0, "attention": 0.0}
        for layer in ("1", "2")
        for q in range(3)
        for k in range(q)
    ]
    figure = heatmaps(pd.DataFrame(rows), "[MASK]")
    first = figure.get_axes()[0]
    image = first.images[0].get_array()
    assert image[2, 2] == 1.0  # query 0, key 0: bottom right
    assert image[2, 0] == 1.0 + 2  # the last position takes from the oldest
    assert image.mask[0].tolist() == [False, True, True]  # nothing comes from later positions
    assert [tick.get_text() for tick in first.get_xticklabels()] == ["L"]
    assert any("[MASK]" in text.get_text() for text in figure.texts)
    assert [axes.get_title() for axes in figure.get_axes()[:2]] == [
        "contribution norm, layer 1",
        "contribution norm, layer 2",
    ]


def test_positions_run_downwards_to_the_last() -> None:
    figure = position_bars({"a": [0.1, 0.2], "b": [0.3, float("nan")]}, ["old", "new"])
    left, right = figure.get_axes()
    assert [tick.get_text() for tick in left.get_yticklabels()] == ["old", "new"]
    assert left.get_ylim()[0] > left.get_ylim()[1]
    assert right.patches[0].get_width() == 0.3


def test_all_axes_have_names(
    whole_run: Path, other_seed: Path, other_alpha: Path, masked_run: Path
) -> None:
    pages = [report(whole_run), compare([whole_run, other_seed, other_alpha, masked_run])]
    drawn = 0
    for page in pages:
        for name, figure in page.figures.items():
            if figure is None:
                continue
            drawn += 1
            for axes in figure.get_axes():
                if axes.get_label() == "<colorbar>":
                    continue
                where = (name, axes.get_title())
                assert axes.get_xlabel() or name in ("mixing_by_stage", "shuffle_bars"), where
                assert axes.get_ylabel() or axes.images, where
    assert drawn > 12


def test_bars_of_one_run_are_the_tables(whole_run: Path) -> None:
    page = report(whole_run)
    (axes,) = page.figures["shuffle_bars"].get_axes()
    table = page.tables["shuffle"].set_index("mode").drop("original")
    heights = [bar.get_height() for bar in axes.patches]
    expected = [*table["ndcg@10_drop"], *table["hit@10_drop"]]
    np.testing.assert_allclose(heights, expected)
    (axes,) = page.figures["last_item_ranks"].get_axes()
    np.testing.assert_allclose(
        [bar.get_height() for bar in axes.patches], page.tables["internals_ranks"]["share"]
    )
    (axes,) = page.figures["mixing_by_stage"].get_axes()
    ratios = page.tables["internals"]
    everywhere = ratios[ratios["position"] == "all"]
    expected = [
        everywhere[(everywhere["layer"] == layer) & (everywhere["stage"] == stage)]["mean"].iloc[0]
        for layer in ("1", "2", "all")
        for stage in ("attn", "res", "ln")
    ]
    np.testing.assert_allclose([bar.get_height() for bar in axes.patches], expected)
