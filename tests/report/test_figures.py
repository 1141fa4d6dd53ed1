"""Figures: the numbers that went in, told apart without colour, with names on the axes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex

from recbole_residual.report.comparison import compare
from recbole_residual.report.figures import (
    alpha_curves,
    deletion_and_insertion,
    fonts,
    heatmaps,
    hrli_against_accuracy,
    influence_bars,
    outcome_against_epsilon,
    position_bars,
    ratios_by_stage,
    recovery_against_accuracy,
    reliance_curve,
)
from recbole_residual.report.figures.style import OKABE_ITO, rendered
from recbole_residual.report.page import report

ROOT = Path(__file__).parents[2]
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
                assert axes.get_xlabel() or name in (
                    "influence",
                    "mixing_by_stage",
                    "shuffle_bars",
                ), where
                assert axes.get_ylabel() or axes.images or name == "gauges", where
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
    (axes,) = page.figures["influence"].get_axes()
    modules = page.tables["influence_modules"]
    np.testing.assert_allclose(
        [bar.get_height() for bar in axes.patches],
        [*modules["last_item_share"], *modules["accuracy_share"]],
    )
    assert "layer 2, feed_forward" in [tick.get_text() for tick in axes.get_xticklabels()]
    (axes,) = page.figures["mixing_by_stage"].get_axes()
    ratios = page.tables["internals"]
    everywhere = ratios[ratios["position"] == "all"]
    expected = [
        everywhere[(everywhere["layer"] == layer) & (everywhere["stage"] == stage)]["mean"].iloc[0]
        for layer in ("1", "2", "all")
        for stage in ("attn", "res", "ln")
    ]
    np.testing.assert_allclose([bar.get_height() for bar in axes.patches], expected)


def test_modules_of_two_encoders_are_told_apart() -> None:
    modules = ["item_encoder.attention", "feature_encoder.attention", "norm"]
    shares = {"last_item_share": [0.5, 0.3, 0.2], "accuracy_share": [0.1, 0.2, 0.7]}
    table = pd.DataFrame({"layer": ["1", "1", ""], "module": modules, **shares})
    (axes,) = influence_bars({"a": table}).get_axes()
    named = [tick.get_text() for tick in axes.get_xticklabels()]
    assert named == [f"layer 1, {modules[0]}", f"layer 1, {modules[1]}", "norm"]
    assert [bar.get_height() for bar in axes.patches] == [0.5, 0.3, 0.2, 0.1, 0.2, 0.7]
    other = table.iloc[[2, 0]].assign(module=["norm", "encoder.attention"])
    (axes,) = influence_bars({"a": table, "b": other}).get_axes()
    np.testing.assert_array_equal(
        [bar.get_height() for bar in axes.patches],
        [0.5, 0.3, 0.2, np.nan, np.nan, np.nan, 0.2, 0.5],
    )


def test_a_dollar_is_a_dollar() -> None:
    titles = ["$5 a Day (2008)", "$ and $\\alpha$"]
    (axes,) = position_bars({"a": [0.1, 0.2]}, titles).get_axes()
    for tick, title in zip(axes.get_yticklabels(), titles):
        assert tick.get_text() == title
        assert not tick.get_parse_math()
    rendered(axes.figure, "png")  # mathtext would refuse the second


def test_colours_of_maps_are_named_in_plain_numbers() -> None:
    """A scale of less than two decades is the one that matplotlib names between its decades too."""
    places = [(query, key) for query in range(4) for key in range(query, 4)]
    maps = pd.DataFrame(
        {
            "layer": "1",
            "query": [query for query, _ in places],
            "key": [key for _, key in places],
            "contribution": np.geomspace(0.2, 7, len(places)),
            "attention": 0.5,
        }
    )
    figure = heatmaps(maps, "item")
    rendered(figure, "png")
    named = [
        label.get_text()
        for axes in figure.get_axes()
        if axes.get_label() == "<colorbar>"
        for minor in (False, True)
        for label in axes.get_yticklabels(minor=minor)
    ]
    assert {"0.5", "1", "2", "5"} <= set(named)
    assert all(float(label) >= 0 for label in named if label)


def fonts_of(figure: Any) -> list[str]:
    (axes, *_) = figure.get_axes()
    return axes.get_yticklabels()[0].get_fontfamily()


def test_other_scripts_are_written_where_a_font_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    title, plain = "\U000f0001\U000f0002", "1234"  # for private use: in no font
    figure = position_bars({"a": [0.1]}, [title], otherwise=[plain])
    assert figure.get_axes()[0].get_yticklabels()[0].get_text() == plain
    assert fonts_of(figure) == ["DejaVu Sans"]
    # Now there is one.
    known = fonts._characters
    sans, other = fonts._file_of("DejaVu Sans"), fonts._file_of("DejaVu Serif")
    assert sans != other
    monkeypatch.setattr(
        fonts,
        "_characters",
        lambda file: known(file) | ({ord(c) for c in title} if file == other else set()),
    )
    fonts._family_with.cache_clear()
    figure = position_bars({"a": [0.1]}, [title], otherwise=[plain])
    assert figure.get_axes()[0].get_yticklabels()[0].get_text() == title
    assert fonts_of(figure) == ["DejaVu Sans", "DejaVu Serif"]
    fonts._family_with.cache_clear()


@pytest.mark.skipif(
    not fonts.is_readable("七人の侍"), reason="there is no Japanese font on this machine"
)
def test_japanese_is_drawn(recwarn: pytest.WarningsRecorder) -> None:
    figure = position_bars({"a": [0.1]}, ["七人の侍 (1954)"], otherwise=["1"])
    assert figure.get_axes()[0].get_yticklabels()[0].get_text() == "七人の侍 (1954)"
    rendered(figure, "png")
    rendered(figure, "pdf")
    assert not [warning for warning in recwarn if "missing from font" in str(warning.message)]


def test_the_first_figure_on_a_machine_logs_nothing(tmp_path: Path) -> None:
    code = (
        "import logging, sys; logging.basicConfig(level=logging.INFO, stream=sys.stdout);"
        "from recbole_residual.report.figures import position_bars;"
        "position_bars({'a': [1.0]}, ['b'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "MPLCONFIGDIR": str(tmp_path), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert list(tmp_path.glob("fontlist*"))  # it was indeed the first
    assert "font" not in done.stdout + done.stderr


def test_a_long_label_stays_inside() -> None:
    label = "SASRecResidual, " + ", ".join(f"a_long_key_{i} {i}" for i in range(12))
    figure = alpha_curves({label: sweep(), "other": sweep()}, "last")
    (legend,) = figure.legends
    box = legend.get_window_extent()
    assert box.x0 >= 0
    assert box.x1 <= figure.bbox.width
    assert "\n" in legend.get_texts()[0].get_text()


@pytest.mark.parametrize("runs", [1, 2, 7])
def test_nothing_is_cut_off_and_nothing_overlaps(runs: int) -> None:
    named = {f"run {number}, learning_rate 0.001": sweep() for number in range(runs)}
    sweeps_of = dict.fromkeys(named, 0.5)
    for figure in (
        alpha_curves(named, "last"),
        hrli_against_accuracy(named, "ndcg@10", "NDCG@10"),
        recovery_against_accuracy(named, sweeps_of, sweeps_of, 10),
    ):
        boxes = [axes.get_tightbbox() for axes in figure.get_axes()]
        for box in boxes:
            assert box.x0 >= 0
            assert box.x1 <= figure.bbox.width
            assert box.y1 <= figure.bbox.height
            for legend in figure.legends:
                assert box.y0 >= legend.get_window_extent().y1 - 1
        if len(boxes) == 2:
            assert boxes[0].x1 <= boxes[1].x0


def with_ends(frame: pd.DataFrame, *names: str) -> pd.DataFrame:
    """The same with an interval of 0.1 to both sides."""
    return frame.assign(
        **{f"{name}_low": frame[name] - 0.1 for name in names},
        **{f"{name}_high": frame[name] + 0.1 for name in names},
    )


def test_attributions_are_drawn_by_what_follows_their_order() -> None:
    table = pd.DataFrame(
        {
            "attribution": ["attention"] * 2 + ["recency"] * 2,
            "n_items": [0, 1] * 2,
            "deletion": [0.0, 0.5, 0.0, 0.9],
            "insertion": [0.0, 0.4, 0.0, 0.8],
        }
    )
    left, right = deletion_and_insertion(with_ends(table, "deletion", "insertion")).get_axes()
    assert list(lines(left)) == ["attention", "recency"]
    assert list(lines(left)["recency"].get_ydata()) == [0.0, 0.9]
    assert list(lines(right)["attention"].get_ydata()) == [0.0, 0.4]
    (band, _) = left.collections
    assert band.get_datalim(left.transData).y1 == pytest.approx(0.6)
    assert not deletion_and_insertion(table).get_axes()[0].collections


def test_the_reliance_curve_begins_at_the_last_item() -> None:
    table = pd.DataFrame(
        {"from_end": [0, 1], "ndcg@10_fall": [0.3, 0.1], "log_probability_fall": [2.0, 1.0]}
    )
    figure = reliance_curve({"alpha = 1": table}, "ndcg@10_fall", "fall of NDCG@10")
    left, right = figure.get_axes()
    np.testing.assert_array_equal(lines(left)["alpha = 1"].get_xydata(), [[0, 0.3], [1, 0.1]])
    np.testing.assert_array_equal(lines(right)["alpha = 1"].get_xydata(), [[0, 2], [1, 1]])
    assert left.get_ylabel() == "fall of NDCG@10"


def test_whiskers_of_shares_stay_between_0_and_1() -> None:
    table = pd.DataFrame(
        {
            "layer": ["all"] * 2,
            "position": ["all"] * 2,
            "stage": ["attn", "res"],
            "mean": [0.95, 0.05],
            "std": [0.3, 0.2],
        }
    )
    (axes,) = ratios_by_stage({"a": table}).get_axes()
    ends = np.concatenate([line[:, 1] for line in axes.collections[0].get_segments()])
    assert ends.tolist() == pytest.approx([0.65, 1.0, 0.0, 0.25])
    (axes,) = ratios_by_stage({"a": with_ends(table, "mean")}).get_axes()
    ends = np.concatenate([line[:, 1] for line in axes.collections[0].get_segments()])
    assert ends.tolist() == pytest.approx([0.85, 1.0, 0.0, 0.15])
