from __future__ import annotations

import io
from typing import Any

import numpy as np
import pandas as pd
import pytest

from recbole_residual.tune import table
from recbole_residual.tune.folder import Manifest, TrialDefinition
from recbole_residual.tune.space import Space


def manifest(trials: list[TrialDefinition], bigger: bool = True) -> Manifest:
    space = Space.read({"space": {"n_layers": [1]}}).to_plain()
    return Manifest("tune", "NDCG@10", bigger, space, {}, [], trials)


def trial(key: str, dataset: str = "a", model: str = "M", **point: Any) -> TrialDefinition:
    return TrialDefinition(key, model, dataset, point, {})


def outcome(score: float, status: str = "finished", **more: Any) -> dict[str, Any]:
    return {
        "status": status,
        "seed": 1,
        "epochs_trained": 3,
        "best_epoch": 2,
        "best_valid_score": score,
        "seconds": 1.0,
        **more,
    }


def test_the_table_has_a_row_for_every_trial_in_the_order_of_the_plan() -> None:
    plan = manifest([trial("0", n_layers=1), trial("1", n_layers=2), trial("2", n_layers=3)])
    results = table.results_table(
        plan, {"1": outcome(0.3, best_valid_result={"ndcg@10": 0.3})}, {"0": {"status": "running"}}
    )
    assert results["trial"].tolist() == ["0", "1", "2"]
    assert results["status"].tolist() == ["running", "finished", "waiting"]
    assert results["n_layers"].tolist() == [1, 2, 3]
    assert results["valid_ndcg@10"].dropna().tolist() == [0.3]


def test_alpha_columns_are_those_of_the_epsilon_of_the_space() -> None:
    answers = [
        {"scope": scope, "epsilon": epsilon, "alpha": f"{epsilon}", "valid_hit@10": epsilon}
        for scope in ("global", "per_layer")
        for epsilon in (0.0, 0.05)
    ]
    plan = manifest([trial("0")])
    outcomes = {"0": outcome(0.1, alpha=answers)}
    row = table.results_table(plan, outcomes, {}).iloc[0]
    assert row["alpha"] == row["alpha_per_layer"] == "0.05"
    assert row["alpha_valid_hit@10"] == row["alpha_per_layer_valid_hit@10"] == 0.05
    assert len(table.alpha_table(plan, outcomes)) == 4


def test_an_error_of_many_lines_is_one_line_of_the_csv() -> None:
    plan = manifest([trial("0"), trial("1")])
    failed = {"status": "failed", "epochs_trained": 0, "error": 'ValueError: a,"b"\n  c\n\nd'}
    results = table.results_table(plan, {"0": failed, "1": outcome(0.1)}, {})
    text = table.to_csv(results)
    assert len(text.splitlines()) == 3
    assert pd.read_csv(io.StringIO(text))["error"].tolist()[0] == 'ValueError: a,"b" c d'


@pytest.mark.parametrize("bigger", [True, False])
def test_the_best_trial_is_that_of_the_metric_and_the_first_of_equals(bigger: bool) -> None:
    generator = np.random.default_rng(0)
    for _ in range(50):
        scores = generator.integers(0, 4, 6) / 10
        trials = [trial(str(i), dataset="ab"[i % 2]) for i in range(6)]
        outcomes = {str(i): outcome(score) for i, score in enumerate(scores)}
        outcomes["4"] = {"status": "failed", "epochs_trained": 0}
        best = table.best_trials(manifest(trials, bigger), outcomes)
        for dataset, keys in (("a", ["0", "2"]), ("b", ["1", "3", "5"])):
            want = (max if bigger else min)(scores[int(key)] for key in keys)
            assert best[dataset] == next(key for key in keys if scores[int(key)] == want)


def test_a_summary_is_mean_and_sample_deviation_over_seeds() -> None:
    generator = np.random.default_rng(1)
    trials, outcomes, values = [], {}, {}
    for model in ("M", "N"):
        for seed in range(3):
            key = f"{model}{seed}"
            trials.append(trial(key, model=model, seed=seed))
            value = values.setdefault(model, [])
            value.append(generator.random())
            outcomes[key] = outcome(0.1, test_result={"hit@10": value[-1]})
    outcomes["N2"] = {"status": "failed", "epochs_trained": 0, "error": "x"}
    summary = table.summary_table(table.results_table(manifest(trials), outcomes, {}))
    assert summary["seeds"].tolist() == [3, 2]
    for row, used in ((0, values["M"]), (1, values["N"][:2])):
        assert summary["test_hit@10_mean"][row] == pytest.approx(np.mean(used))
        assert summary["test_hit@10_std"][row] == pytest.approx(np.std(used, ddof=1))


def test_the_short_table_shows_running_and_failed_trials_and_then_the_best() -> None:
    trials = [trial(str(i)) for i in range(6)]
    outcomes = {str(i): outcome(i / 10) for i in range(3)}
    outcomes["3"] = {"status": "failed", "epochs_trained": 0, "error": "ValueError: no"}
    others = {"4": {"status": "running", "epochs_trained": 2, "best_valid_score": 0.05}}
    results = table.results_table(manifest(trials), outcomes, others)
    shown = table.short_table(results, "NDCG@10", most=4)
    assert shown["trial"].tolist() == ["4", "3", "2", "1"]
    assert "ValueError: no" in table.in_text(shown)
    assert "n_layers" not in shown
    assert table.states(results) == "3 finished, 1 failed, 1 running, 1 waiting"


def test_every_searched_key_is_shown_whatever_its_name() -> None:
    keys = {"alpha_train": 0.5, "valid_metric": "NDCG@10", "test_mode": 1, "learning_rate": 0.1}
    results = table.results_table(manifest([trial("0", **keys)]), {"0": outcome(0.1)}, {})
    assert set(keys) < set(table.short_table(results, "NDCG@10", list(keys)).columns)
