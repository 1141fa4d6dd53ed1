"""The papers' numbers are in the package, and ours stand beside the right ones."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from recbole_residual.probe.uncertainty import wilson
from recbole_residual.report.measures import MEASURES
from recbole_residual.report.papers import reference
from recbole_residual.report.record import RunRecord
from recbole_residual.report.runs import Runs
from recbole_residual.report.sections.papers import papers_section


def tables(*records: RunRecord) -> tuple[Any, Any]:
    findings, accuracy = papers_section(Runs(records)).tables
    return findings, accuracy


def test_the_data_is_whole() -> None:
    data = reference()
    assert {finding["measure"] for finding in data["findings"]} == set(MEASURES)
    assert len(data["accuracy"]) == 18
    for row in [*data["findings"], *data["accuracy"]]:
        assert row["source"] in data["sources"]
    assert {row["dataset"] for row in data["accuracy"]} == set(data["datasets"])
    ranges = {
        finding["measure"]: (finding["low"], finding["high"])
        for finding in data["findings"]
        if "low" in finding
    }
    assert ranges == {
        "mixing_attn": (0.72, 0.96),
        "mixing_res": (0.12, 0.40),
        "position_spread": (0.0032, 0.0186),
    }


def test_findings_are_computed_from_the_run(whole_run: Path) -> None:
    record = RunRecord.read(whole_run)
    findings, _ = tables(record)
    ours = dict(zip(reference_measures(), findings.frame["ours"]))
    test = json.loads((whole_run / "result.json").read_text())["test_result_unrounded"]
    attn = test["mixingratio_attn"]
    within = "within" if 0.72 <= attn <= 0.96 else "outside"
    low, high = record.intervals["test"]["mixingratio_attn"]
    assert ours["mixing_attn"] == f"{attn:.4f} ({low:.3f} to {high:.3f}), {within}"
    assert ours["ln_minus_res"] == f"{test['mixingratio_ln'] - test['mixingratio_res']:.4f}"
    ratios = record.table("internals").set_index(["layer", "stage", "position"])["mean"]
    last = [ratios["all", "res", position] for position in ("last", "last-1", "last-2")]
    assert ours["position_spread"].startswith(f"{max(last) - min(last):.4f}, ")
    assert ours["alpha_mixing"] == "-1.0000"
    sweep = record.table("alpha_sweep")
    near = sweep[sweep["alpha"].isin([0.1, 0.2, 0.3])]
    rate, base = near["recoveryrate@10"].max(), near["recoverybase@10"].max()
    low, high = wilson(rate * base, base)
    expected = f"{rate:.4f} ({low:.3f} to {high:.3f})" if base else "n/a"
    assert ours["recovery"] == expected
    assert ours["uniform_minus_learned"] == "not run"


def reference_measures() -> list[str]:
    return [finding["measure"] for finding in reference()["findings"]]


def test_uniform_attention_is_held_against_the_run_that_differs_in_nothing_else(
    whole_run: Path,
) -> None:
    learned = RunRecord.read(whole_run)
    config = {**learned.config, "model": "SASRecUniform", "attention": "uniform"}
    result = {**learned.result, "test_result_unrounded": {"ndcg@10": 0.5}}
    uniform = replace(learned, config=config, result=result, label="uniform")
    findings, _ = tables(learned, uniform)
    shown = findings.visible.iloc[reference_measures().index("uniform_minus_learned")]
    difference = 0.5 - learned.result["test_result_unrounded"]["ndcg@10"]
    assert shown["uniform"] == f"{difference:.4f}"
    assert shown[learned.label] == "not run"


@pytest.mark.parametrize(
    ("model", "dataset", "split", "paper"),
    [
        ("SASRecResidual", "ml-1m", {"GT": [0.9, 0.9]}, 0.0948),
        ("SASRec", "ml-1m", {"LS": "valid_and_test"}, 0.1858),
        ("GRU4RecResidual", "amazon-beauty", {"LS": "valid_and_test"}, 0.0356),
        ("GRU4RecResidual", "amazon-beauty", {"GT": [0.9, 0.9]}, None),
        ("SASRec", "ml-100k", {"LS": "valid_and_test"}, None),
    ],
)
def test_accuracy_stands_beside_that_of_the_same_data(
    whole_run: Path, model: str, dataset: str, split: dict[str, Any], paper: float | None
) -> None:
    record = RunRecord.read(whole_run)
    settings = {"model": model, "dataset": dataset, "eval_args": {"split": split}}
    _, accuracy = tables(replace(record, config={**record.config, **settings}))
    if paper is None:
        assert accuracy.frame is None
        assert accuracy.to_text().startswith("no published number")
    else:
        (row,) = accuracy.frame.to_dict("records")
        assert row["paper NDCG@10"] == paper
        assert row["our NDCG@10"] == record.result["test_result_unrounded"]["ndcg@10"]


@pytest.mark.parametrize(("dataset", "filtered"), [("diginetica", "no"), ("ml-1m", "yes")])
def test_every_row_says_whether_seen_items_were_filtered(
    whole_run: Path, dataset: str, filtered: str
) -> None:
    record = RunRecord.read(whole_run)
    settings = {"dataset": dataset, "eval_args": {"split": {"GT": [0.9, 0.9]}}}
    _, accuracy = tables(replace(record, config={**record.config, **settings}))
    (row,) = accuracy.frame.to_dict("records")
    assert row["paper filters seen items"] == filtered
    assert row["ours filters seen items"] == "no"
