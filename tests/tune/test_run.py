"""Whole runs on a Ray of this machine, against the same trials one after another without Ray."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

pytest.importorskip("ray")

from recbole_residual.diagnose.full_run import run
from recbole_residual.model import SASRecResidual
from recbole_residual.model.registry import MODELS
from recbole_residual.tune import table
from recbole_residual.tune.folder import TuneFolder
from recbole_residual.tune.ray_api import Resources
from recbole_residual.tune.run import benchmark, resume_tune, tune
from tests.tune.conftest import GRID_KEYS, ON_CPU, QUICK_ALPHA, TINY

pytestmark = pytest.mark.usefixtures("ray_cluster")


def test_a_killed_worker_and_failing_trials_do_not_stop_the_others(tuned) -> None:
    result, folder, killed = tuned
    assert killed
    assert result.results["status"].tolist() == ["finished"] * 2 + ["failed"] * 2
    assert result.results["error"].str.contains("must be a multiple of").tolist()[2:] == [
        True,
        True,
    ]
    assert folder.results_file.read_text() == table.to_csv(result.results)
    assert pd.read_csv(folder.results_file)["trial"].tolist() == result.results["trial"].tolist()
    log = folder.log_file.read_text()
    assert log.count(" started: ") == 4
    assert log.count(" started again, its process died") == len(killed)


def test_the_numbers_are_those_of_single_runs_and_of_validation(tuned, tmp_path: Path) -> None:
    result, folder, _ = tuned
    singles = [
        run(
            "SASRecResidual",
            "ml-100k",
            config_dict={**GRID_KEYS, "n_heads": 1, "hidden_dropout_prob": rate},
        )
        for rate in (0.1, 0.4)
    ]
    scores = [single["best_valid_score"] for single in singles]
    assert result.results["best_valid_score"].tolist()[:2] == scores
    best = scores.index(max(scores))
    row = result.best["ml-100k"]
    assert row["trial"] == result.results["trial"][best]
    assert row["test_ndcg@10"] == singles[best]["test_result"]["ndcg@10"]
    # the test data was read for the best trial alone
    assert result.results["test_ndcg@10"].notna().sum() == 1
    for key in result.results["trial"]:
        tested = folder.trial(key).result_file.is_file()
        assert tested == (key == row["trial"])
        assert not folder.trial(key).resume_file.is_file()


def test_every_trial_took_the_data_that_was_read_before(tuned) -> None:
    result, folder, _ = tuned
    logs = [folder.trial(key).log_file.read_text() for key in result.results["trial"][:2]]
    assert all("is read already" in log for log in logs)


def test_failed_trials_are_tried_again_when_asked(tuned, tmp_path: Path) -> None:
    _, folder, _ = tuned
    copy = TuneFolder(tmp_path / "copy")
    shutil.copytree(folder.path, copy.path)
    keys = copy.forget_failed(copy.read_manifest())
    assert len(keys) == 2
    assert all(copy.trial(key).read_outcome() is None for key in keys)
    assert copy.forget_failed(copy.read_manifest()) == []


def test_a_metric_that_is_no_number_is_the_error_of_its_trial(tmp_path: Path) -> None:
    keys = {**TINY, "epochs": 1, "metrics": ["NDCG", "HRL2I"], "valid_metric": "HRL2I@10"}
    result = tune(
        "SASRecResidual",
        "ml-100k",
        {"space": {"MAX_ITEM_LIST_LENGTH": [1]}, "alpha_search": QUICK_ALPHA},
        config_dict={**keys, "output_dir": str(tmp_path / "tune")},
        resources=Resources(**ON_CPU),
    )
    assert result.all_failed
    assert "was not a number" in result.results["error"][0]
    assert "1 failed" in repr(result)


def test_a_finished_run_is_not_repeated(tuned, monkeypatch) -> None:
    result, folder, _ = tuned
    from recbole_residual.tune import run

    monkeypatch.setattr(run.ray_api, "fit", lambda *args, **kw: pytest.fail("repeated"))
    again = resume_tune(folder.path)
    pd.testing.assert_frame_equal(again.results, result.results)
    assert again.best == result.best


def test_progress_is_in_files_that_anybody_reads(tuned) -> None:
    result, folder, _ = tuned
    assert folder.progress_file.read_text().startswith("4 trials: 2 finished, 2 failed")
    assert str(result) in folder.log_file.read_text()
    assert json.loads(folder.result_file.read_text())["trials"] == {"finished": 2, "failed": 2}
    alpha = pd.read_csv(folder.alpha_file)
    assert set(alpha["scope"]) == {"global", "per_layer"}
    assert not folder.ray_folder.exists()


def test_asha_ends_trials_and_the_best_is_still_tested(tmp_path: Path, monkeypatch) -> None:
    class Mine(SASRecResidual):
        """A model that a user registered: workers have to be told of it."""

    monkeypatch.setitem(MODELS, "Mine", Mine)
    result = tune(
        None,
        "ml-100k",
        {
            "scheduler": "asha",
            "grace_period": 1,
            "reduction_factor": 2,
            "space": {"model": ["Mine"], "learning_rate": [0.003, 0.002, 1e-7, 1e-8]},
            "alpha_search": QUICK_ALPHA,
        },
        config_dict={**TINY, "epochs": 4, "output_dir": str(tmp_path / "tune")},
        resources=Resources(gpus_per_trial=0, max_concurrent=1),
    )
    results = result.results
    assert "stopped" in set(results["status"])
    assert (results["epochs_trained"][results["status"] == "stopped"] < 4).all()
    assert (results["epochs_trained"][results["status"] == "finished"] == 4).all()
    best = result.best["ml-100k"]
    assert best["best_valid_score"] == results["best_valid_score"].max()
    assert "test_ndcg@10" in best


def test_a_trial_that_was_ended_can_be_the_best(tmp_path: Path) -> None:
    from recbole_residual.tune.progress import Progress

    result = tune(
        "SASRecResidual",
        "ml-100k",
        {"space": {"n_layers": [1]}, "alpha_search": QUICK_ALPHA},
        config_dict={**TINY, "output_dir": str(tmp_path / "tune")},
        resources=Resources(**ON_CPU),
    )
    folder = TuneFolder(tmp_path / "tune")
    (key,) = result.results["trial"]
    # as the scheduler leaves a trial that it ends after its second epoch
    trial = folder.trial(key)
    for file in (trial.outcome_file, trial.result_file, folder.result_file):
        file.unlink()
    interrupted = _Interrupt(after=2)
    from recbole_residual.tune.trial import Setup, run_trial

    setup = Setup(str(folder), False, 1, result_alpha(), 1, 0, _reads())
    trial.clear()
    with pytest.raises(_Interrupted):
        run_trial(folder.read_manifest().trials[0], setup, interrupted)
    progress = Progress(folder, folder.read_manifest())
    progress.stopped(key)
    again = resume_tune(folder.path)
    row = again.best["ml-100k"]
    assert (row["status"], row["epochs_trained"]) == ("stopped", 2)
    single = run("SASRecResidual", "ml-100k", config_dict={**TINY, "n_layers": 1, "epochs": 2})
    assert row["test_ndcg@10"] == single["test_result"]["ndcg@10"]
    assert row["best_valid_score"] == single["best_valid_score"]
    assert table.FINISHED not in set(again.results["status"])


class _Interrupted(BaseException):
    pass


class _Interrupt:
    def __init__(self, after: int) -> None:
        self._left = after

    def __call__(self, report: Any) -> None:
        self._left -= 1
        if not self._left:
            raise _Interrupted


def result_alpha() -> Any:
    from recbole_residual.tune.space import AlphaSearch

    return AlphaSearch((0.0, 1.0))


def _reads() -> Any:
    from recbole_residual.tune.shared_reads import SharedReads

    return SharedReads(lambda table: table, lambda table: table)


@pytest.mark.parametrize("search", ["optuna", "hyperopt"])
def test_search_algorithms_run_and_resume(search: str, tmp_path: Path) -> None:
    pytest.importorskip(search)
    folder = TuneFolder(tmp_path / "tune")
    space = {
        "search": search,
        "num_samples": 2,
        "space": {"hidden_dropout_prob": {"uniform": [0.1, 0.5]}},
        "alpha_search": QUICK_ALPHA,
    }
    tune(
        "SASRecResidual",
        "ml-100k",
        space,
        config_dict={**TINY, "epochs": 1, "output_dir": str(folder)},
        resources=Resources(**ON_CPU),
    )
    manifest = folder.read_manifest()
    assert len(manifest.trials) == 2
    manifest.space["num_samples"] = 3  # as if the run had been interrupted before the third
    folder.write_manifest(manifest)
    again = resume_tune(folder.path)
    assert again.results["status"].tolist() == ["finished"] * 3
    assert folder.read_manifest().trials[:2] == manifest.trials


def test_a_benchmark_trains_and_tests_everything(tmp_path: Path) -> None:
    keys = {**TINY, "epochs": 1, "report": True, "output_dir": str(tmp_path / "b")}
    models = ["SASRecResidual", "GRU4RecResidual"]  # inner_size is no key of the second
    result = benchmark(models, ["ml-100k"], [1, 2], config_dict=keys, resources=Resources(**ON_CPU))
    results = result.results
    assert results["status"].tolist() == ["finished"] * 4
    pairs = [[model, seed] for model in models for seed in (1, 2)]
    assert results[["model", "seed"]].to_numpy().tolist() == pairs
    single = run("SASRecResidual", "ml-100k", config_dict={**TINY, "epochs": 1, "seed": 2})
    scores = results["test_ndcg@10"]
    assert scores[1] == single["test_result"]["ndcg@10"]
    assert result.summary is not None
    assert result.summary["seeds"].tolist() == [2, 2]
    assert result.summary["test_ndcg@10_mean"][0] == pytest.approx(scores[:2].mean())
    folder = TuneFolder(tmp_path / "b")
    assert (folder.report_folder / "report.html").is_file()
    assert pd.read_csv(folder.summary_file)["model"].tolist() == models


def test_nobody_else_can_work_on_a_folder(tmp_path: Path, tuned) -> None:
    _, folder, _ = tuned
    from recbole_residual.errors import ConfigError

    with folder.claimed(), pytest.raises(ConfigError, match="another process"):
        resume_tune(folder.path)
