"""The page: whole, by itself, and true."""

from __future__ import annotations

import base64
import html
import io
import json
import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import matplotlib.image
import numpy as np
import pandas as pd
import pytest

from recbole_residual.command import main
from recbole_residual.errors import ConfigError
from recbole_residual.report.page import report
from recbole_residual.report.record import RunRecord
from recbole_residual.report.runs import Runs
from recbole_residual.report.sections.maps import maps_section
from recbole_residual.run.folder import RunFolder

SECTIONS = [
    "answer",
    "dataset",
    "accuracy",
    "last-item",
    "mixing",
    "maps",
    "alpha",
    "selection",
    "positions",
    "shuffles",
    "reliance",
    "reliance-curve",
    "faithfulness",
    "influence",
    "papers",
    "configuration",
]
FIGURES = {
    "faithfulness_curves",
    "gauges",
    "influence",
    "reliance_curve",
    "alpha_curves",
    "hrli_accuracy",
    "recovery_accuracy",
    "outcome_epsilon",
    "maps",
    "mixing_by_stage",
    "shuffle_bars",
    "last_item_ranks",
}


UNROUNDED = "_result_unrounded"


class Page(HTMLParser):
    """What a browser would find."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.sections: list[str] = []
        self.links: list[str] = []
        self.images: list[str] = []
        self.cells: list[str] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "link", "img", "br", "wbr"):
            self.open.append(tag)
        found = dict(attrs)
        self.ids += [found["id"]] if "id" in found else []
        self.sections += [found["id"]] if tag == "section" else []
        self.links += [found[name] for name in ("src", "href") if name in found]
        if tag == "img":
            self.images.append(found["src"])
            assert found["alt"]
        if tag == "td":
            self.cells.append("")
        assert tag not in ("iframe", "object")
        assert tag != "script" or not attrs  # its own, none from elsewhere

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data
        if self.open and self.open[-1] == "td":
            self.cells[-1] += data


def test_a_finished_run_has_a_page_with_everything(whole_run: Path) -> None:
    text = (whole_run / "report.html").read_text(encoding="utf-8")
    page = Page(text)
    assert not page.open
    assert page.sections == SECTIONS
    assert len(set(page.ids)) == len(page.ids)
    assert len(page.images) == len(FIGURES)
    for link in page.links:
        assert link.startswith(("data:", "#"))
        assert not link.startswith("#") or link[1:] in page.ids
    assert not re.search(r"url\(|@import|https?://", text)
    assert "not run" in page.text  # uniform attention was not compared
    assert str(RunFolder(whole_run).path) in page.text


def test_a_run_that_was_asked_nothing_says_so(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.write_config({"model": "SASRecResidual", "dataset": "ml-100k"})
    found = report(folder.path)
    page = Page(found.to_html())
    assert page.sections == SECTIONS
    assert not page.images
    assert set(found.figures.values()) == {None}
    there = {name for name, table in found.tables.items() if table is not None}
    assert there == {"configuration", "papers_findings"}
    assert set(found.tables["papers_findings"]["ours"]) == {"not run"}
    assert page.text.count("not run") >= len(found.tables) + len(found.figures) - 3
    assert str(found).count("not run: ") == 6
    files = found.save(tmp_path / "out")
    assert sorted(path.suffix for path in files) == [".csv", ".csv", ".csv", ".html"]
    index = pd.read_csv(tmp_path / "out" / "tables" / "index.csv")
    assert (index["file"] == "not run").sum() == len(found.tables) - 2


def test_no_cell_is_blank_where_a_number_belongs(whole_run: Path) -> None:
    found = report(whole_run)
    tables = [table for section in found.sections for table in section.tables]
    for table in tables:
        columns = [name for name in table.visible if name not in ("remark", "value")]
        rows = Page(f"<body>{table.to_html()}</body>").cells
        width = len(table.visible.columns)
        for number, cell in enumerate(rows):
            if table.visible.columns[number % width] in columns:
                assert cell.strip()
                assert cell not in ("nan", "NaN", "None")


def test_the_numbers_are_the_runs_own(whole_run: Path) -> None:
    result = json.loads((whole_run / "result.json").read_text())
    found = report(whole_run)
    names = {"HR": "hit", "NDCG": "ndcg", "MRR": "mrr", "HRLI": "hrli", "HRL2I": "hrl2i"}
    for table in ("accuracy", "last_item"):
        for row in found.tables[table].to_dict("records"):
            values = result[{"validation": "valid", "test": "test"}[row["data"]] + UNROUNDED]
            for k in (1, 5, 10, 20):
                assert row[f"@{k}"] == values[f"{names[row['metric']]}@{k}"]
    splits = found.tables["mixing_by_split"].set_index(["data", "position"])
    for data, key in (("validation", "valid_result"), ("test", "test_result")):
        for position, end in (("all", ""), ("last", "_last")):
            for stage in ("attn", "res", "ln"):
                expected = result[f"{key}_unrounded"][f"mixingratio_{stage}{end}"]
                assert splits.loc[(data, position), stage] == expected
    pooled = found.tables["internals"].set_index(["layer", "stage", "position"])["mean"]
    assert pooled["all", "res", "last"] == pytest.approx(
        result["test_result_unrounded"]["mixingratio_res_last"], abs=1e-5
    )
    assert found.tables["dataset"].drop(columns="dataset").to_dict("records") == [
        result["dataset_statistics"]
    ]
    for probe in ("shuffle", "positions", "reliance", "layer_grid", "feed_forward_sweep"):
        saved = pd.read_csv(whole_run / "probe" / f"{probe}.csv")
        pd.testing.assert_frame_equal(found.tables[probe], saved, check_dtype=False)


def test_the_chosen_alpha_is_marked(whole_run: Path) -> None:
    about = json.loads((whole_run / "probe" / "alpha_selection.json").read_text())["about"]
    found = report(whole_run)
    (table,) = (t for s in found.sections for t in s.tables if t.name == "alpha_sweep")
    (row,) = table.marked
    assert table.frame["alpha"].iloc[row] == about["alpha"]
    assert "chosen on validation" in table.frame["remark"].iloc[row]
    assert table.to_html().count('class="marked"') == 1
    assert f"\n    > {about['alpha']:g} " in str(found) or f"> {about['alpha']:g} " in str(found)
    in_force = table.frame[table.frame["remark"].str.contains("this run")]
    assert list(in_force["alpha"]) == [1.0]


def test_what_is_saved_is_what_is_shown(whole_run: Path, tmp_path: Path) -> None:
    found = report(whole_run)
    assert set(found.figures) == FIGURES
    for folder in (whole_run / "figures",):
        assert {path.name for path in folder.iterdir()} == {
            f"{name}.{kind}" for name in FIGURES for kind in ("png", "pdf")
        }
        for path in folder.glob("*.png"):
            image = matplotlib.image.imread(path)
            assert image.shape[0] > 200
            assert image[..., :3].std() > 0.02
        assert all(path.read_bytes().startswith(b"%PDF") for path in folder.glob("*.pdf"))
    index = pd.read_csv(whole_run / "tables" / "index.csv").set_index("table")
    assert index["command"].str.startswith("recbole-residual ").all()
    assert set(index.index) == set(found.tables)
    page = (whole_run / "report.html").read_text(encoding="utf-8")
    for name, frame in found.tables.items():
        assert f'id="table-{name}"' in page
        if frame is not None:
            saved = pd.read_csv(
                whole_run / "tables" / f"{name}.csv",
                dtype=dict.fromkeys(frame.select_dtypes(exclude="number").columns, str),
                keep_default_na=False,
                na_values="NaN",
            )
            pd.testing.assert_frame_equal(saved, frame, check_dtype=False)
        latex = (whole_run / "tables" / f"{name}.tex").read_text(encoding="utf-8")
        assert latex.count("\n%") == 1
        assert ("toprule" in latex) == (frame is not None)


def test_the_same_numbers_give_the_same_files(whole_run: Path, tmp_path: Path) -> None:
    files = report(whole_run).save(tmp_path, latex=True)
    assert len(files) > 2 * len(FIGURES)
    for path in files:
        assert path.read_bytes() == (whole_run / path.relative_to(tmp_path)).read_bytes()


def test_the_mask_is_spoken_of_wherever_its_ratio_is(masked_run: Path) -> None:
    found = report(masked_run)
    assert found.tables["internals"] is None
    assert found.tables["mixing_by_split"] is not None
    section = found.sections[SECTIONS.index("mixing")]
    assert "does not speak of the last item" in section.warning
    assert section.warning in Page(found.to_html()).text
    assert "does not speak of the last item" in str(found)


def test_the_report_of_an_old_run_can_be_made_again(
    masked_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not (masked_run / "report.html").exists()
    assert main(["--mode=report", f"--run={masked_run}", "--latex=True"]) == 0
    assert "BERT4RecResidual on ml-100k" in capsys.readouterr().out
    assert (masked_run / "report.html").is_file()
    assert (masked_run / "tables" / "accuracy.tex").is_file()
    with pytest.raises(ConfigError, match="not the folder of a run"):
        report(masked_run / "tables")


def test_a_run_that_never_trained_has_no_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.write_config({"model": "SASRecResidual", "dataset": "ml-100k"})
    assert main(["--mode=report", f"--run={folder}"]) == 2
    assert f"--resume={folder}" in capsys.readouterr().err
    assert [path.name for path in folder.path.iterdir()] == ["config.yaml"]


def test_reports_are_short_in_a_list(whole_run: Path) -> None:
    assert repr(report(whole_run)).startswith("<Report on SASRecResidual on ml-100k: 16 sections")
    assert "<table " in report(whole_run)._repr_html_()
    assert "<script>" not in report(whole_run)._repr_html_()


BROWSER = next(
    filter(None, map(shutil.which, ["chromium", "chromium-browser", "google-chrome"])), None
)


def seen_by_a_browser(page: str, script: str, width: int, folder: Path) -> str:
    """What a script of the test's own says after the page is loaded."""
    ours = f"<script>onload = () => document.body.setAttribute('data-seen', {script})</script>"
    file = folder / "page.html"
    file.write_text(page.replace("</body>", f"{ours}</body>"), encoding="utf-8")
    assert BROWSER is not None
    done = subprocess.run(
        [
            BROWSER,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--enable-logging=stderr",
            f"--user-data-dir={folder / 'profile'}",
            f"--window-size={width},900",
            "--virtual-time-budget=5000",
            "--dump-dom",
            file.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert "CONSOLE" not in done.stderr
    assert "net::ERR" not in done.stderr
    seen = re.search(r'data-seen="([^"]*)"', done.stdout)
    assert seen is not None
    return html.unescape(seen.group(1))


@pytest.mark.skipif(BROWSER is None, reason="there is no Chromium on this machine")
@pytest.mark.parametrize("width", [1300, 390])
def test_a_browser_loads_it_without_errors(whole_run: Path, tmp_path: Path, width: int) -> None:
    # A page cannot tell how it looks; a script counts what it shows.
    script = """[
        [...document.images].filter((image) => image.complete && image.naturalWidth > 200).length,
        document.querySelectorAll('section h2').length,
        document.querySelectorAll('table').length,
        document.documentElement.scrollWidth <= innerWidth,
    ].join(' ')"""
    text = (whole_run / "report.html").read_text(encoding="utf-8")
    images, headings, tables, fits = seen_by_a_browser(text, script, width, tmp_path).split()
    assert int(images) == len(FIGURES)
    assert int(headings) == len(SECTIONS)
    assert int(tables) == sum(table is not None for table in report(whole_run).tables.values())
    assert fits == "true"


@pytest.mark.skipif(BROWSER is None, reason="there is no Chromium on this machine")
def test_tables_sort_and_are_copied(whole_run: Path, tmp_path: Path) -> None:
    script = """(() => {
        const table = document.querySelector('#table-alpha_sweep table');
        const column = () => [...table.tBodies[0].rows].map((row) => row.cells[0].textContent);
        const head = table.tHead.rows[0].cells[0];
        const orders = [column()];
        head.click();
        orders.push(column());
        head.click();
        orders.push(column());
        const button = table.closest('.block').querySelector('button.csv');
        return JSON.stringify([orders, head.getAttribute('aria-sort'), button.textContent,
                               table.dataset.csv]);
    })()"""
    text = (whole_run / "report.html").read_text(encoding="utf-8")
    seen = seen_by_a_browser(text, script, 1300, tmp_path)
    (as_it_was, up, down), sort, button, csv = json.loads(seen)
    assert up == sorted(as_it_was, key=float)
    assert down == up[::-1]
    assert sort == "descending"
    assert button == "Copy as csv"
    copied = pd.read_csv(io.StringIO(csv))
    saved = pd.read_csv(whole_run / "tables" / "alpha_sweep.csv")
    np.testing.assert_allclose(copied["HRLI@1"], saved["hrli@1"])
    np.testing.assert_allclose(copied["HRLI@1_low"], saved["hrli@1_low"])


def test_commands_stand_once_a_section_with_paths_from_the_run(whole_run: Path) -> None:
    text = (whole_run / "report.html").read_text(encoding="utf-8")
    for section in text.split("<section ")[1:]:
        (folded,) = re.findall(r"<pre>(.*?)</pre>", section, re.DOTALL)
        commands = folded.strip().splitlines()
        assert 1 <= len(set(commands)) == len(commands) <= 3
        assert str(whole_run) not in folded
    assert "recbole-residual --mode=probe --run=. --probes=shuffle" in text


def test_pictures_in_the_page_are_the_files(whole_run: Path) -> None:
    page = Page((whole_run / "report.html").read_text(encoding="utf-8"))
    shown = {base64.b64decode(link.removeprefix("data:image/png;base64,")) for link in page.images}
    assert shown == {path.read_bytes() for path in (whole_run / "figures").glob("*.png")}


def test_maps_of_weights_that_do_not_sum_to_one_say_so(whole_run: Path) -> None:
    record = RunRecord.read(whole_run)
    for p, said in ((1.0, False), (2.0, True)):
        changed = replace(record, config={**record.config, "attention_norm_p": p})
        (plot,) = maps_section(Runs([changed])).plots
        assert ("with attention_norm_p = 2, do not sum to 1" in plot.caption) == said
