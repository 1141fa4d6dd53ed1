from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pytest

from recbole_residual.command import main
from recbole_residual.errors import ConfigError
from recbole_residual.study.pages import pages_of_rows, write_pages
from recbole_residual.study.row import write_row
from recbole_residual.study.tables import accuracy_table, markdown, statistics_table
from tests.study.conftest import made_row

ROWS = [
    made_row("amazon-toys-games", "temporal"),
    made_row("amazon-toys-games", "leave_one_out", prefix=0.4),
    made_row("amazon-toys-games", "temporal", "SASRecUniform", ranks=[1, 0, 2, 10, 0, 0]),
    made_row("amazon-toys-games", "temporal", "BERT4RecResidual", last_position="[MASK]"),
    made_row("amazon-toys-games", "temporal", "GRU4RecResidual", last_position="gate"),
    made_row("amazon-beauty", "leave_one_out", seed=2, part="published size"),
]


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    for row in ROWS:
        write_row(folder / "rows" / f"{row.cell.key}.json", row.cell, row.content)
    assert pages_of_rows(folder) == folder / "index.md"
    return folder


def test_the_first_page_has_three_figures_and_five_sentences(pages: Path) -> None:
    text = (pages / "index.md").read_text(encoding="utf-8")
    assert len(re.findall(r"^\d\. ", text, flags=re.MULTILINE)) == 5
    assert re.findall(r"\]\((figures/\w+\.png)\)", text) == [
        f"figures/{name}.png" for name in ("shuffles", "alpha", "uniform")
    ]
    assert (
        "21\N{NO-BREAK SPACE}% (2\N{NO-BREAK SPACE}% to 40\N{NO-BREAK SPACE}%) of NDCG@10" in text
    )
    assert "Lowering alpha raises the mixing ratio on 2 of 2 sets" in text
    assert "recbole-residual --mode=benchmark --study=made --data_path=DIR\n" in text


def test_every_link_and_figure_is_there(pages: Path) -> None:
    for page in pages.glob("*.md"):
        for link in re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8")):
            assert (pages / link).is_file(), f"{page.name}: {link}"


def test_what_does_not_transfer_is_said_in_place(pages: Path) -> None:
    text = (pages / "models.md").read_text(encoding="utf-8")
    assert "BERT4RecResidual: its last position holds [MASK]" in text
    assert "GRU4RecResidual: it has no attention" in text
    assert "SASRecUniform: blocks as in SASRec" in text


def test_each_claim_stands_with_rule_verdict_and_sets(pages: Path) -> None:
    text = (pages / "claims.md").read_text(encoding="utf-8")
    part = text.partition("## RD: Shuffling every item but the last costs little.")[2]
    part = part.partition("\n## ")[0]
    assert "**Holds in part**: 1 of 2 sets say so" in part
    assert "A set says so where it is at most 0.2 (this package's threshold)." in part
    assert re.search(r"amazon-toys-games \| leave-one-out \| +0\.4000", part)


def test_tables_are_written_as_csv_too(pages: Path) -> None:
    names = {path.stem for path in (pages / "tables").glob("*.csv")}
    assert {"claims", "statistics", "accuracy", "models", "mixing", "alpha_sweep"} <= names
    cells = pd.read_csv(pages / "tables" / "cells.csv")
    assert len(cells) == len(ROWS)
    assert cells["command"].str.startswith("recbole-residual --mode=benchmark").all()


def test_accuracy_stands_beside_what_was_published() -> None:
    frame = accuracy_table(ROWS).set_index("dataset")
    assert frame.loc["amazon-beauty", "published NDCG@10"] == 0.0588
    assert frame.loc["amazon-beauty", "ours / published"] == pytest.approx(1)
    assert frame.loc["amazon-toys-games", "published NDCG@10"].isna().all()


def test_statistics_say_whether_they_are_the_papers() -> None:
    frame = statistics_table(ROWS).set_index("dataset")
    assert frame.loc["amazon-toys-games", "the papers"] == "the same"
    assert frame.loc["amazon-beauty", "the papers"] == "22363 / 12101 / 198502"


def test_a_table_in_markdown_has_intervals_in_its_cells() -> None:
    frame = pd.DataFrame({"set": ["a"], "x": [0.5], "x_low": [0.25], "x_high": [0.75]})
    assert markdown(frame).splitlines()[-1].split("|")[2].strip() == "0.5000 (0.2500 to 0.7500)"
    assert markdown(pd.DataFrame()) == "Not measured yet."


def test_pages_without_a_row_say_so(tmp_path: Path) -> None:
    text = write_pages([], tmp_path).read_text(encoding="utf-8")
    assert "13 are not measured yet" in text
    with pytest.raises(ConfigError, match="no rows of a study"):
        pages_of_rows(tmp_path)


def test_the_same_rows_give_the_same_files(pages: Path, tmp_path: Path) -> None:
    pages_of_rows(pages, tmp_path)
    for file in tmp_path.rglob("*.*"):
        assert file.read_bytes() == (pages / file.relative_to(tmp_path)).read_bytes()


def test_the_command_makes_pages_of_rows(
    pages: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--mode=report", f"--rows={pages}", f"--output_dir={tmp_path / 'made'}"]) == 0
    assert f"saved {tmp_path / 'made' / 'index.md'}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--mode=report"], "--mode=report is about a run, --run=FOLDER, or a study's rows"),
        (["--mode=benchmark", "--rows=rows"], "--rows is for a study"),
        (["--mode=benchmark", "--study=papers", "--config_files=a.yaml"], "from its yaml file"),
        (["--mode=benchmark", "--study=paper"], "did you mean 'papers'?"),
        (["--mode=tune", "--study=papers"], "it is for --mode=benchmark"),
    ],
)
def test_the_command_says_what_is_wrong(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert message in capsys.readouterr().err
