"""What a report writes, and how often it is built."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from recbole_residual.command import main
from recbole_residual.report import page
from recbole_residual.report.page import report
from recbole_residual.report.saving import save_figures
from tests.conftest import SMALL


def test_figures_for_a_paper_are_written_when_asked(whole_run: Path, tmp_path: Path) -> None:
    plots = [plot for plot in report(whole_run)._plots() if plot.name in ("gauges", "maps")]
    png, pdf = (tmp_path / "figures" / f"gauges.{kind}" for kind in ("png", "pdf"))
    assert len(save_figures(plots, tmp_path, pdf=False)) == 2
    assert png.is_file()
    assert not pdf.exists()
    assert len(save_figures(plots, tmp_path, pdf=True)) == 4
    assert pdf.read_bytes().startswith(b"%PDF")
    save_figures(plots, tmp_path, pdf=False)
    assert pdf.is_file()  # it is still that of the PNG
    png.write_bytes(b"another figure")
    save_figures(plots, tmp_path, pdf=False)
    assert png.read_bytes() == (whole_run / "figures" / "gauges.png").read_bytes()
    assert not pdf.exists()


def test_the_command_builds_one_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    built = []
    build = page.build_sections
    monkeypatch.setattr(page, "build_sections", lambda records: built.append(1) or build(records))
    file = tmp_path / "small.yaml"
    file.write_text(json.dumps({**SMALL, "epochs": 1, "report": True}))
    command = ["--model=SASRecResidual", "--dataset=ml-100k", f"--config_files={file}"]
    assert main([*command, f"--output_dir={tmp_path / 'run'}"]) == 0
    assert len(built) == 1
    assert "SASRecResidual on ml-100k" in capsys.readouterr().out
