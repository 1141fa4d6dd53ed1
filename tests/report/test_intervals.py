"""Intervals that are added to tables, and what is said of those that hold 0."""

from __future__ import annotations

import pandas as pd
import pytest

from recbole_residual.probe.uncertainty import wilson
from recbole_residual.report.intervals import doubt_notes, whiskers_are, with_intervals
from recbole_residual.report.table import Table


def test_shares_get_wilsons_interval_of_their_own_base() -> None:
    frame = pd.DataFrame(
        {
            "alpha": [1.0],
            "hit@10": [0.25],
            "ndcg@10": [0.1],
            "recoveryrate@10": [0.5],
            "recoverybase@10": [4],
            "test_recoveryrate@5": [0.5],
            "test_recoverybase@5": [2],
            "hrli@1": [0.1],
            "hrli@1_low": [0.0],
            "hrli@1_high": [0.7],
        }
    )
    found = with_intervals(frame, 40).iloc[0]
    for name, n in (("hit@10", 40), ("recoveryrate@10", 4), ("test_recoveryrate@5", 2)):
        low, high = map(float, wilson(frame[name].iloc[0] * n, n))
        assert (found[f"{name}_low"], found[f"{name}_high"]) == pytest.approx((low, high))
    assert (found["hrli@1_low"], found["hrli@1_high"]) == (0.0, 0.7)  # as they were
    assert "ndcg@10_low" not in found
    assert [name for name in found.index if "_low" not in name and "_high" not in name] == [
        name for name in frame if "_low" not in name and "_high" not in name
    ]
    unknown = with_intervals(frame, None)
    assert "hit@10_low" not in unknown
    assert "recoveryrate@10_low" in unknown


def test_differences_that_may_be_none_are_named() -> None:
    frame = pd.DataFrame(
        {
            "mode": ["original", "a", "b"],
            "ndcg@10_drop": [0.0, 0.1, 0.2],
            "ndcg@10_drop_low": [0.0, -0.1, 0.1],
            "ndcg@10_drop_high": [0.0, 0.3, 0.3],
        }
    )
    (note,) = doubt_notes(frame)
    assert note.startswith("Relative drop of NDCG@10: ")
    assert note.endswith("for a.")
    assert not doubt_notes(frame[["mode", "ndcg@10_drop"]])
    assert not doubt_notes(frame.iloc[[0, 2]])


def test_captions_say_what_whiskers_are() -> None:
    plain = pd.DataFrame({"x": [1.0]})
    certain = plain.assign(x_low=0.0, x_high=2.0)
    assert whiskers_are([certain], "x", "std") == "Whiskers: 95 % interval."
    assert whiskers_are([plain], "x", "std") == "Whiskers: std."
    assert whiskers_are([plain, certain], "x", "std") == "Whiskers: 95 % interval, or std."


def test_an_interval_stands_in_the_cell_of_its_number() -> None:
    frame = pd.DataFrame({"x": [0.5, 0.25], "x_low": [0.4, float("nan")], "x_high": [0.6, 0.3]})
    table = Table("t", "T", frame, "make")
    assert list(table.visible) == ["x"]
    assert '<td class="number">0.5000<small>0.400 to 0.600</small></td>' in table.to_html()
    assert '<td class="number">0.2500</td>' in table.to_html()
    assert 'data-csv="x,x_low,x_high\n0.5,0.4,0.6\n' in table.to_html()
    assert [line.strip() for line in table.to_text().splitlines()[2:]] == [
        "0.5000",
        "[.400, .600]",
        "0.2500",
    ]
    assert "0.5000 [0.4000, 0.6000]" in table.to_latex()
