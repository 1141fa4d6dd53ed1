"""One table as HTML, text, csv and LaTeX."""

from __future__ import annotations

import pandas as pd

from recbole_residual.report.table import Table

FRAME = pd.DataFrame(
    {"alpha": [0.3, 1.0], "metric": ["<HR>", "50%"], "value_": [0.5, float("nan")]}
)


def test_html_is_escaped_and_undefined_is_said() -> None:
    html = Table("t", "T", FRAME, "make", marked=[1]).to_html()
    assert "&lt;HR&gt;" in html
    assert '<tr class="marked"><td class="number">1</td>' in html
    assert "n/a" in html
    assert html.count('<td class="number">') == 4


def test_text_points_rows_out() -> None:
    lines = Table("t", "T", FRAME, "make", marked=[1]).to_text().splitlines()
    assert lines[-1].lstrip().startswith("> 1 ")
    assert lines[-2].split() == ["0.3", "<HR>", "0.5000"]


def test_latex_is_escaped_and_says_where_it_comes_from() -> None:
    latex = Table("t", "T", FRAME, "make it").to_latex()
    assert latex.startswith("% T\n% make it\n\\begin{tabular}")
    assert "50\\%" in latex
    assert "\\toprule" in latex


def test_nothing_is_not_a_blank() -> None:
    absent = Table("t", "T", None, "make it")
    assert "not run" in absent.to_html()
    assert absent.to_text() == "not run: make it"
    assert "not run" in absent.to_latex()
    assert absent.visible.empty
