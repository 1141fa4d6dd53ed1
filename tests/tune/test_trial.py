from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recbole_residual.diagnose.full_run import run
from recbole_residual.run.session import Session
from recbole_residual.tune import trial as trial_module
from recbole_residual.tune.folder import Manifest, TrialDefinition, TuneFolder
from recbole_residual.tune.plan import Plan
from recbole_residual.tune.shared_reads import SharedReads
from recbole_residual.tune.space import AlphaSearch
from recbole_residual.tune.trial import Setup, read_test, run_trial
from tests.tune.conftest import TINY

ALPHAS = AlphaSearch((0.0, 0.5, 1.0), 0.05, (0.0, 0.05, 0.5), per_layer=True)
CHANGING = {"seconds", "node", "process"}


def setup_in(path: Path, tests: bool = False) -> Setup:
    folder = TuneFolder(path)
    folder.path.mkdir()
    folder.write_manifest(Manifest("tune", "NDCG@10", True, {}, {}, [], []))
    reads = SharedReads(lambda table: table, lambda table: table)
    return Setup(str(folder), tests, 1, ALPHAS, cpus=1, gpus=0, reads=reads)


def definition(model: str = "SASRecResidual", **point: Any) -> TrialDefinition:
    keys = {key: value for key, value in TINY.items() if key != "inner_size" or "SASRec" in model}
    return Plan.of([model], ["ml-100k"], None, keys).trial(0, point)


def numbers(outcome: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in outcome.items() if key not in CHANGING}


class Interrupted(BaseException):
    """What a kill looks like to a test."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Setup, dict[str, Any], list[Any]]:
    """A trial from start to end, with what it reported."""
    setup = setup_in(tmp_path_factory.mktemp("whole") / "tune")
    reports: list[Any] = []
    return setup, run_trial(definition(), setup, reports.append), reports


def test_a_trial_trains_as_a_run_does(whole, tmp_path: Path) -> None:
    _, outcome, _ = whole
    result = run(
        "SASRecResidual", "ml-100k", config_dict={**TINY, "output_dir": str(tmp_path / "run")}
    )
    assert outcome["status"] == "finished"
    assert outcome["best_valid_score"] == result["best_valid_score"]
    assert outcome["best_valid_result"] == dict(result["best_valid_result"])
    assert outcome["epochs_trained"] == result["epochs_trained"] == TINY["epochs"]


def test_every_epoch_is_reported_and_the_end(whole) -> None:
    _, outcome, reports = whole
    assert [report["epoch"] for report in reports] == [1, 2, 3]
    scores = [report["score"] for report in reports[:2]]
    assert [report["best"] for report in reports[:2]] == list(np.maximum.accumulate(scores))
    assert reports[-1]["ended"]
    assert reports[-1]["best"] == outcome["best_valid_score"]


def test_an_outcome_is_not_computed_twice(whole, monkeypatch) -> None:
    setup, outcome, _ = whole
    monkeypatch.setattr(trial_module, "build_session", lambda config: pytest.fail("trained again"))
    reports: list[Any] = []
    assert run_trial(definition(), setup, reports.append) == outcome
    assert len(reports) == 1


def test_alpha_is_asked_on_validation_alone(whole, monkeypatch) -> None:
    setup, outcome, _ = whole
    from recbole_residual.probe import select_alpha, sweep_alpha

    session = Session.open(TuneFolder(setup.folder).trial(definition().key).path)
    for scope in ("global", "per_layer"):
        sweep = sweep_alpha(
            session.model, session.valid_data, ALPHAS.alphas, per_layer=scope == "per_layer"
        )
        answers = [answer for answer in outcome["alpha"] if answer["scope"] == scope]
        assert [answer["epsilon"] for answer in answers] == [0.0, 0.05, 0.5]
        for answer in answers:
            choice = select_alpha(sweep, answer["epsilon"])
            factors = [float(factor) for factor in answer["alpha"].split()]
            assert factors * (len(choice.setting.alpha) // len(factors)) == list(
                choice.setting.alpha
            )
            for name in ("hit@10", "ndcg@10", "hrli@1"):
                want = sweep.frame[name].iloc[choice.row]
                assert answer[f"valid_{name}"] == pytest.approx(want, nan_ok=True)
    assert not any(
        name.startswith(("test_", "oracle_")) for row in outcome["alpha"] for name in row
    )
    assert "test_result" not in outcome


@pytest.mark.parametrize("reports_before", [1, 2])
def test_an_interrupted_trial_ends_with_the_same_numbers(
    whole, reports_before: int, tmp_path: Path
) -> None:
    _, outcome, reports = whole
    setup = setup_in(tmp_path / "tune")
    heard: list[Any] = []

    def interrupt(report: Any) -> None:
        heard.append(report)
        if len(heard) == reports_before:
            raise Interrupted

    with pytest.raises(Interrupted):
        run_trial(definition(), setup, interrupt)
    again: list[Any] = []
    assert numbers(run_trial(definition(), setup, again.append)) == numbers(outcome)

    def times(entries: list[Any]) -> list[Any]:
        return [{key: v for key, v in entry.items() if key != "time"} for entry in entries]

    assert times(again) == times(reports)  # the epochs before the interruption are told again


def test_a_trial_interrupted_after_training_is_not_trained_again(
    whole, tmp_path: Path, monkeypatch
) -> None:
    _, outcome, _ = whole
    setup = setup_in(tmp_path / "tune")
    with monkeypatch.context() as patch:
        patch.setattr(trial_module.AlphaQuestions, "on_validation", _interrupt)
        with pytest.raises(Interrupted):
            run_trial(definition(), setup, lambda report: None)
    from recbole_residual.trainer.trainer import ResidualTrainer

    monkeypatch.setattr(ResidualTrainer, "_train_epoch", lambda *args, **kw: pytest.fail("trained"))
    assert numbers(run_trial(definition(), setup, lambda report: None)) == numbers(outcome)


def _interrupt(*args: Any, **options: Any) -> None:
    raise Interrupted


def test_a_trial_interrupted_before_training_starts_over(whole, tmp_path: Path) -> None:
    _, outcome, _ = whole
    setup = setup_in(tmp_path / "tune")
    folder = TuneFolder(setup.folder).trial(definition().key)
    folder.path.mkdir(parents=True)
    folder.log_file.write_text("a run that got nowhere")
    folder.history_file.write_text('[{"epoch": 9, "score": 1, "time": 0}]')
    assert numbers(run_trial(definition(), setup, lambda report: None)) == numbers(outcome)


def test_an_error_is_an_outcome(tmp_path: Path) -> None:
    setup = setup_in(tmp_path / "tune")
    reports: list[Any] = []
    outcome = run_trial(definition(n_heads=3), setup, reports.append)
    assert outcome["status"] == "failed"
    assert "must be a multiple of" in outcome["error"]
    assert "Traceback" in outcome["traceback"]
    assert reports == [{"ended": True, "trial": outcome["trial"]}]


@pytest.mark.parametrize("model", ["GRU4RecResidual", "GRU4Rec", "BERT4RecResidual"])
def test_every_kind_of_model_is_asked_what_it_can_answer(model: str, tmp_path: Path) -> None:
    setup = setup_in(tmp_path / "tune")
    outcome = run_trial(definition(model, epochs=1), setup, lambda report: None)
    assert outcome["status"] == "finished", outcome["traceback"]
    answers = [row for row in outcome["alpha"] if row["scope"] == "global"]
    assert [row["epsilon"] for row in answers] == [0.0, 0.05, 0.5]
    assert all("valid_hit@10" in row for row in answers)


def test_a_benchmark_trial_is_tested_and_is_a_run(tmp_path: Path) -> None:
    result = run(
        "SASRecResidual", "ml-100k", config_dict={**TINY, "output_dir": str(tmp_path / "run")}
    )
    setup = setup_in(tmp_path / "tune", tests=True)
    outcome = run_trial(definition(), setup, lambda report: None)
    assert outcome["test_result"] == dict(result["test_result"])
    row = next(
        row for row in outcome["alpha"] if (row["scope"], row["epsilon"]) == ("global", 0.05)
    )
    assert {"test_hit@10", "oracle_alpha", "oracle_hit@10", "unscaled_hit@10"} <= set(row)
    saved = TuneFolder(setup.folder).trial(outcome["trial"]).read_result()
    assert saved is not None
    assert saved["test_result"] == json.loads(json.dumps(dict(result["test_result"])))
    # interrupted after the test and before the outcome was written
    TuneFolder(setup.folder).trial(outcome["trial"]).outcome_file.unlink()
    assert numbers(run_trial(definition(), setup, lambda report: None)) == numbers(outcome)


def test_the_chosen_trial_is_tested_as_a_run_would_have_been(whole, tmp_path: Path) -> None:
    setup = setup_in(tmp_path / "tune")
    run_trial(definition(), setup, lambda report: None)
    read_test(definition().key, setup)
    outcome = TuneFolder(setup.folder).trial(definition().key).read_outcome()
    assert outcome is not None
    result = run(
        "SASRecResidual", "ml-100k", config_dict={**TINY, "output_dir": str(tmp_path / "run")}
    )
    assert outcome["test_result"] == dict(result["test_result"])
    chosen = [row["alpha"] for row in outcome["alpha"]]
    assert chosen == [row["alpha"] for row in whole[1]["alpha"]]  # by validation, as before
    modified = TuneFolder(setup.folder).trial(definition().key).result_file.stat().st_mtime_ns
    read_test(definition().key, setup)  # once is enough
    assert (
        TuneFolder(setup.folder).trial(definition().key).result_file.stat().st_mtime_ns == modified
    )
