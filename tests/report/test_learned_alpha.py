"""The path of a learned alpha on the page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from recbole_residual.report.page import report
from recbole_residual.report.record import RunRecord
from recbole_residual.report.sections import build_sections


def test_a_learned_alpha_has_its_path(whole_run: Path) -> None:
    record = RunRecord.read(whole_run)
    assert "learned_alpha" not in report(whole_run).tables
    path = [[0.9, 1.1], [0.7, 1.2], [0.5, 1.25]]
    learned = replace(record, result={**record.result, "learned_alpha_path": path})
    table = report(learned).tables["learned_alpha"]
    assert table.to_dict("list") == {
        "epoch": [1, 2, 3], "layer 1": [0.9, 0.7, 0.5], "layer 2": [1.1, 1.2, 1.25]
    }  # fmt: skip
    (axes,) = report(learned).figures["learned_alpha"].get_axes()
    drawn = [list(line.get_ydata()) for line in axes.get_lines()[1:]]
    assert drawn == [[0.9, 0.7, 0.5], [1.1, 1.2, 1.25]]
    first, second = replace(record, label="a"), replace(learned, label="b")
    both = [section for section in build_sections([first, second]) if section.name == "alpha"]
    (plot,) = (plot for plot in both[0].plots if plot.name == "learned_alpha")
    assert [line.get_label() for line in plot.figure.get_axes()[0].get_lines()[1:]] == [
        "b: layer 1", "b: layer 2"
    ]  # fmt: skip
