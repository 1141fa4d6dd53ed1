"""The sentences of the answer are made from the numbers of the run."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from recbole_residual.report.answer import Quantity, _shuffles, answer, quantities
from recbole_residual.report.comparison import compare
from recbole_residual.report.measured import Measured
from recbole_residual.report.neighbours import neighbouring_results
from recbole_residual.report.page import report
from recbole_residual.report.papers import verdict
from recbole_residual.report.record import RunRecord, StoredProbe


def percent(value: float) -> str:
    return f"{100 * value:.1f} %"


def test_the_page_opens_with_the_answer(whole_run: Path) -> None:
    page = report(whole_run)
    first = page.sections[0]
    assert first.name == "answer"
    assert 4 <= len(first.points) <= 6
    assert page.to_html().index(first.points[0]) < page.to_html().index("<table")
    assert str(page).splitlines()[3].startswith("- The last input item is ranked first")


def test_sentences_hold_the_numbers_of_the_run(whole_run: Path) -> None:
    result = json.loads((whole_run / "result.json").read_text())
    test, n = result["test_result_unrounded"], result["test_sequences"]
    sentences = answer(RunRecord.read(whole_run)).sentences
    sentences = [sentence.replace("\N{NO-BREAK SPACE}", " ") for sentence in sentences]
    last_item, shuffles, mixing, turned_down, uncertain = (
        next(sentence for sentence in sentences if words in sentence)
        for words in ("last input item", "Shuffling", "attention alone", "alpha =", "Uncertain")
    )
    assert f"ranked first for {percent(test['hrli@1'])}" in last_item
    assert f"of the {n} test sequences" in last_item
    assert f"came next for {percent(test['hit@1'])}" in last_item
    table = pd.read_csv(whole_run / "probe" / "shuffle.csv").set_index("mode")["ndcg@10_drop"]
    drop = table["shuffle_prefix"]
    assert (percent(abs(drop)) if drop else "is the same") in shuffles
    assert ("costs nothing" in shuffles) == (table["shuffle_prefix"] <= 0)
    assert percent(test["mixingratio_attn"]) in mixing
    assert percent(test["mixingratio_res"]) in mixing
    about = json.loads((whole_run / "probe" / "alpha_selection.json").read_text())["about"]
    assert f"alpha = {about['alpha']:g}" in turned_down
    assert "one training run" in uncertain


def wilson_by_hand(successes: float, n: int) -> tuple[float, float]:
    """The shares that the observed one does not reject at 5 % by the score test."""
    z = stats.norm.ppf(0.975)
    centre = (successes + z * z / 2) / (n + z * z)
    half = z / (n + z * z) * (successes * (n - successes) / n + z * z / 4) ** 0.5
    return centre - half, centre + half


def test_every_share_has_its_interval(whole_run: Path) -> None:
    n = json.loads((whole_run / "result.json").read_text())["test_sequences"]
    tables = report(whole_run).tables
    hrli = tables["last_item"].set_index(["data", "metric"]).loc[("test", "HRLI")]
    for k in (1, 5, 10, 20):
        low, high = wilson_by_hand(hrli[f"@{k}"] * n, n)
        assert hrli[f"@{k}_low"] == pytest.approx(low, abs=1e-9)
        assert hrli[f"@{k}_high"] == pytest.approx(high)
    ndcg = tables["accuracy"].set_index(["data", "metric"]).loc[("test", "NDCG")]
    assert ndcg["@20_low"] <= ndcg["@20"] <= ndcg["@20_high"]
    for _, row in tables["alpha_sweep"].iterrows():
        base = int(row["recoverybase@10"])
        if base:
            low, high = wilson_by_hand(row["recoveryrate@10"] * base, base)
            assert row["recoveryrate@10_low"] == pytest.approx(low, abs=1e-9)
            assert row["recoveryrate@10_high"] == pytest.approx(high)


def test_ratios_are_resampled_as_they_are_averaged(whole_run: Path) -> None:
    record = RunRecord.read(whole_run)
    table, test = record.per_user(), record.results_by_split["test"]
    length = table["sequence_length"].to_numpy(dtype=float)
    rng = np.random.default_rng(1)
    drawn = [rng.integers(0, len(table), len(table)) for _ in range(4000)]
    for name, weight in (("mixingratio_res", length), ("mixingratio_res_last", length**0)):
        values = table[name].to_numpy()
        assert np.average(values, weights=weight) == pytest.approx(test[name], rel=1e-6)
        means = [np.average(values[rows], weights=weight[rows]) for rows in drawn]
        expected = np.quantile(means, [0.025, 0.975])
        width = expected[1] - expected[0]
        np.testing.assert_allclose(record.intervals["test"][name], expected, atol=0.1 * width)


def changed(record: RunRecord, probe: str, **columns: Any) -> RunRecord:
    """The run with other numbers in the table of a probe."""
    stored = record.probes[probe]
    tables = {**stored.tables, probe: stored.tables[probe].assign(**columns)}
    probes = {**record.probes, probe: StoredProbe(stored.about, stored.notes, tables)}
    return replace(record, probes=probes)


def test_how_often_an_alpha_is_chosen_is_said_and_shown(whole_run: Path) -> None:
    """Against the samples in the csv file of the probe."""
    samples = pd.read_csv(whole_run / "probe" / "alpha_selection_bootstrap.csv")
    about = json.loads((whole_run / "probe" / "alpha_selection.json").read_text())["about"]
    at = samples[samples["epsilon"] == about["epsilon"]].set_index("alpha")["share"]
    share = at.get(about["alpha"], 0.0)
    record = RunRecord.read(whole_run)
    sentences = [text.replace("\N{NO-BREAK SPACE}", " ") for text in answer(record).sentences]
    (said,) = (text for text in sentences if "bootstrap samples" in text)
    assert f"does in {percent(share)} of bootstrap samples" in said
    assert ("which alpha to choose" in sentences[-1]) == (share < 0.5)
    page = report(whole_run)
    shown = page.tables["alpha_selection_bootstrap"].set_index("alpha")
    np.testing.assert_allclose(shown.sum(), 1)
    for _, row in samples.iterrows():
        assert shown.loc[row["alpha"], f"epsilon = {row['epsilon']:g}"] == row["share"]
    numbers = page.tables["answer"].set_index("quantity")["number"]
    (name,) = (name for name in numbers.index if "bootstrap samples" in name)
    assert numbers[name] == share


def test_validation_has_the_intervals_of_its_sweep(whole_run: Path) -> None:
    sweep = pd.read_csv(whole_run / "probe" / "alpha_selection_valid_sweep.csv")
    row = sweep[sweep["alpha"] == 1].iloc[0]
    tables = report(whole_run).tables
    ndcg = tables["accuracy"].set_index(["data", "metric"]).loc[("validation", "NDCG")]
    assert (ndcg["@10_low"], ndcg["@10_high"]) == pytest.approx(
        (row["ndcg@10_low"], row["ndcg@10_high"])
    )
    ratio = tables["mixing_by_split"].set_index(["data", "position"]).loc[("validation", "all")]
    assert (ratio["res_low"], ratio["res_high"]) == pytest.approx(
        (row["mixingratio_res_low"], row["mixingratio_res_high"])
    )


def test_what_an_interval_leaves_open_is_said(whole_run: Path) -> None:
    record = RunRecord.read(whole_run)
    sure = changed(record, "shuffle", **{"ndcg@10_drop_low": 0.1, "ndcg@10_drop_high": 0.3})
    unsure = changed(record, "shuffle", **{"ndcg@10_drop_low": -0.1, "ndcg@10_drop_high": 0.3})
    assert "whether shuffling" not in answer(sure).sentences[-1]
    assert "whether shuffling" in answer(unsure).sentences[-1]


def test_what_was_not_asked_is_said(masked_run: Path) -> None:
    record = RunRecord.read(masked_run)
    sentences = answer(record).sentences
    assert "was not asked (--probes=shuffle)" in sentences[1]
    assert "[MASK]" in sentences[2]
    assert "was not asked (--probes=alpha_selection)" in sentences[3]
    assert set(quantities(record)) == {"hrli", "hit@1", "hit", "ndcg", "attn", "res"}


def test_a_quantity_reads_with_its_interval() -> None:
    assert str(Quantity("a", 0.5)) == "0.5000"
    assert str(Quantity("a", 0.5, 0.25, 0.75)) == "0.5000 (0.2500 to 0.7500)"
    assert Quantity("a", 0.1, -0.1, 0.3).may_be_none
    assert not Quantity("a", 0.1).may_be_none


def test_outside_is_not_said_of_a_smaller_difference() -> None:
    spread = {"low": 0.0032, "high": 0.0186, "least": True}
    assert "outside" not in verdict(spread, Measured(0.0001))
    assert verdict(spread, Measured(0.02)).endswith("outside")
    assert verdict({"low": 0.12, "high": 0.4}, Measured(0.01)).endswith("outside")


def test_runs_beside_it_are_those_on_its_dataset(tmp_path: Path) -> None:
    for name, dataset in (("a", "ml-100k"), ("b", "ml-100k"), ("c", "other"), ("d", "ml-100k")):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "config.yaml").write_text(f"model: SASRec\ndataset: {dataset}\n")
        if name != "d":  # has not finished
            result = {"dataset": dataset, "test_result": {"hrli@1": 0.1, "hit@1": None}}
            (folder / "result.json").write_text(json.dumps(result))
    assert neighbouring_results(RunRecord.read(tmp_path / "a")) == [{"hrli@1": 0.1}]


def test_the_answer_of_several_runs(whole_run: Path, other_alpha: Path) -> None:
    page = compare([whole_run, other_alpha])
    points = page.sections[0].points
    values = [json.loads((f / "result.json").read_text()) for f in (whole_run, other_alpha)]
    hrli = [value["test_result_unrounded"]["hrli@1"] for value in values]
    labels = list(page.tables["runs"]["run"])
    most = labels[0] if hrli[0] > hrli[1] else labels[1]
    (sentence,) = (point for point in points if "ranked first most often" in point)
    assert f"most often in {most}: " in sentence
    assert 4 <= len(points) <= 6
    tests = page.tables["paired_tests"]
    below = int((tests["p (Wilcoxon), Holm"] < 0.05).sum())
    (said,) = (point for point in points if "paired tests across users" in point)
    assert said.startswith(f"Of {len(tests)} paired tests")
    assert ("none is below" if below == 0 else f", {below} ") in said


def test_a_drop_from_nothing_is_not_defined(whole_run: Path) -> None:
    drop = Quantity("NDCG@10 lost", float("nan"))
    sentence = _shuffles(RunRecord.read(whole_run), {"shuffle_prefix": drop})
    assert "is not defined: NDCG@10 of the input" in sentence
    assert "nan" not in sentence
