"""What is saved is what was found, and stays whole."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from recbole.model.sequential_recommender import SASRec

from recbole_residual.probe import ProbeResult, choose_alpha, positions, shuffle, sweep_alpha
from tests.probe.conftest import build, loader


def test_csv_and_json_hold_the_table(tmp_path: Path) -> None:
    frame = pd.DataFrame({"alpha": [0.1, 1.0], "rate": [1 / 3, float("nan")], "mode": ["a", "b"]})
    result = ProbeResult(frame, {"model": "SASRec"}, ["an empty base"])
    files = result.save(tmp_path / "new" / "folder")
    assert [file.name for file in files] == ["probe.csv", "probe.json"]
    pd.testing.assert_frame_equal(pd.read_csv(files[0]), frame)
    content = json.loads(files[1].read_text())
    assert content["about"] == {"model": "SASRec"}
    assert content["notes"] == ["an empty base"]
    assert content["tables"]["probe"][1] == {"alpha": 1.0, "rate": None, "mode": "b"}
    assert content["tables"]["probe"][0]["rate"] == pytest.approx(1 / 3, abs=1e-14)
    result.to_frame()["alpha"] = 0
    assert result.frame["alpha"].tolist() == [0.1, 1.0]


def test_every_probe_saves_and_prints(model: SASRec, tmp_path: Path) -> None:
    data = loader(rows=20)
    results = [
        sweep_alpha(model, data, [0.5, 1.0], (1, 10)),
        sweep_alpha(model, data, [0.5, 1.0], (1, 10), per_layer=True),
        sweep_alpha(model, data, [0.5, 1.0], (1, 10), residual="both"),
        choose_alpha(model, data, data, alphas=[0.5, 1.0], topk=(1, 10)),
        shuffle(model, data, ["reverse"], topk=(1, 10)),
        positions(model, data, topk=(1, 10)),
    ]
    names = [file.name for result in results for file in result.save(tmp_path)]
    assert len(set(names)) == len(names)
    for result in results:
        text = str(result)
        assert result.name in text
        assert all(note in text for note in result.notes)
        json.loads((tmp_path / f"{result.name}.json").read_text())
    assert "ndcg@10, alpha_2 = 0.5" in str(results[1])


@pytest.mark.parametrize("n_layers", [1, 2, 3])
@pytest.mark.parametrize("residual", ["attention", "feed_forward", "both"])
def test_every_grid_prints(n_layers: int, residual: str) -> None:
    model, options = build(n_layers=n_layers), {"per_layer": True, "residual": residual}
    grid = sweep_alpha(model, loader(rows=5), [0.5, 1.0], (1, 10), **options)
    assert len(grid.short_frame()) == max(2, 2 ** (n_layers - 1))
    assert "ndcg@10" in str(grid)


def test_repr_is_short_and_html_is_a_table(model: SASRec) -> None:
    result = sweep_alpha(model, loader(rows=20), [0.5, 1.0], (1, 10))
    n_notes = len(result.notes)
    notes = f", {n_notes} note{'s' * (n_notes != 1)}" if n_notes else ""
    assert repr(result) == f"<AlphaSweep: alpha_sweep of SASRec, 2 rows{notes}>"
    html = result._repr_html_()
    assert html.count("<tr") == 3
    assert "ndcg@10" in html
    noted = ProbeResult(pd.DataFrame({"a": [1]}), {}, ["less < more"])
    assert repr(noted) == "<ProbeResult: probe, 1 row, 1 note>"
    assert "<li>less &lt; more</li>" in noted._repr_html_()
