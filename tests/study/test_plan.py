from __future__ import annotations

from pathlib import Path

import pytest

from recbole_residual.errors import ConfigError
from recbole_residual.study.plan import SPLITS, StudyPlan, check_values

MADE = """
seeds: [1, 2]
splits: [temporal, leave_one_out]
settings: {hidden_size: 32, attn_dropout_prob: 0.1}
datasets:
  ml-100k: {splits: [leave_one_out], settings: {hidden_size: 16}}
  other: {seeds: [7]}
parts:
  - {models: [SASRecResidual], seeds: [2]}
  - {models: [SASRecResidual, GRU4RecResidual]}
  - {name: wide, models: [SASRecResidual], datasets: [ml-100k], settings: {hidden_size: 64}}
"""


@pytest.fixture
def plan() -> StudyPlan:
    Path("made.yaml").write_text(MADE, encoding="utf-8")
    return StudyPlan.load("made.yaml")


def test_parts_make_cells_each_once_in_their_order(plan: StudyPlan) -> None:
    cells = plan.cells()
    assert [(cell.part, cell.model, cell.seed) for cell in cells] == [
        ("main", "SASRecResidual", 2),
        ("main", "SASRecResidual", 1),
        ("main", "GRU4RecResidual", 1),
        ("main", "GRU4RecResidual", 2),
        ("wide", "SASRecResidual", 1),
        ("wide", "SASRecResidual", 2),
    ]
    assert {cell.split for cell in cells} == {"leave_one_out"}
    assert [cell.settings["hidden_size"] for cell in cells] == [16] * 4 + [64] * 2
    assert "attn_dropout_prob" not in cells[2].settings, "a key that GRU4Rec does not know"
    assert len({cell.key for cell in cells}) == len(cells)
    assert cells[0].config["eval_args"] == SPLITS["leave_one_out"]


def test_a_dataset_of_ones_own_takes_the_place_of_other(plan: StudyPlan) -> None:
    cells = plan.cells(["mine"], ["SASRecResidual"])
    assert [(cell.dataset, cell.split, cell.seed) for cell in cells] == [
        ("mine", "temporal", 2),
        ("mine", "leave_one_out", 2),
        ("mine", "temporal", 7),
        ("mine", "leave_one_out", 7),
    ]
    assert cells[0].settings["hidden_size"] == 32


def test_the_command_wins(plan: StudyPlan) -> None:
    cells = plan.cells(["ml-100k"], ["SASRecResidual"], [5], {"hidden_size": 8})
    assert [(cell.seed, cell.settings["hidden_size"]) for cell in cells] == [(5, 8)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("parts: []", "lacks datasets, seeds, splits"),
        ("[1]", "holds no study"),
        ("{", "is not yaml"),
        (MADE.replace("seeds: [2]", "seed: [2]"), "unknown key 'seed', did you mean 'seeds'"),
        (MADE.replace("[temporal,", "[random,"), "'random' is no split"),
        (MADE.replace("datasets: [ml-100k]", "datasets: [ml-1m]"), "names ml-1m"),
        (MADE.replace("models: [SASRecResidual], seeds", "seeds"), "names no models"),
    ],
)
def test_what_is_no_study_is_refused(text: str, message: str) -> None:
    Path("bad.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=message):
        StudyPlan.load("bad.yaml")


def test_mistakes_are_found_before_anything_is_trained(plan: StudyPlan) -> None:
    with pytest.raises(ConfigError, match="no study 'paper', did you mean 'papers'"):
        StudyPlan.load("paper")
    with pytest.raises(ConfigError, match="trains nothing of ml-100k, BSARec"):
        plan.cells(["ml-100k"], ["BSARec"])
    with pytest.raises(ConfigError, match="unknown option 'hiden_size'"):
        plan.cells(keys={"hiden_size": 8})
    with pytest.raises(ConfigError, match="eval_args cannot be given to a study"):
        plan.cells(keys={"eval_args": {}})
    with pytest.raises(ConfigError, match="learning_rate"):
        check_values(plan.cells(keys={"learning_rate": -1}), {})


@pytest.mark.parametrize("name", ["papers", "quick"])
def test_the_studies_of_this_package_are_usable(name: str) -> None:
    cells = StudyPlan.load(name).cells()
    check_values(cells, {})
    assert any(cell.model == "SASRecUniform" for cell in cells)
