"""The metrics in RecBole itself: names, its Trainer, and run_recbole from start to end."""

from __future__ import annotations

import sys
from copy import deepcopy
from pathlib import Path
from typing import Any, Callable

import pandas as pd
import pytest
from recbole.evaluator import register as recboles
from recbole.trainer import Trainer
from recbole.utils import EvaluatorType

from recbole_residual.evaluator import register, register_metrics, unregister
from tests.evaluator.conftest import SETTINGS

Sessions = Callable[..., Any]


@pytest.fixture
def run_recbole() -> Callable[..., Any]:
    """RecBole's own entry, which imports ray, and that has no old enough wheels on Python 3.12."""
    return pytest.importorskip("recbole.quick_start", exc_type=ImportError).run_recbole


OURS = ["HRLI", "HRL2I", "MixingRatio", "RecoveryRate"]


def test_registering_again_changes_nothing() -> None:
    tables = [
        recboles.smaller_metrics,
        recboles.metric_information,
        recboles.metric_types,
        recboles.metrics_dict,
    ]
    before = deepcopy(tables)
    methods = [Trainer.__init__, Trainer._valid_epoch, Trainer.evaluate]
    register_metrics()
    register()
    assert tables == before
    assert methods == [Trainer.__init__, Trainer._valid_epoch, Trainer.evaluate]


def test_the_end_of_a_registration_gives_recboles_methods_back() -> None:
    names = ("__init__", "_valid_epoch", "evaluate")
    try:
        unregister()
        recboles_own = [vars(Trainer)[name] for name in names]
        with register():
            changed = [vars(Trainer)[name] for name in names]
        assert all(ours is not own for ours, own in zip(changed, recboles_own))
        assert [vars(Trainer)[name] for name in names] == recboles_own
    finally:
        register()


def test_a_block_inside_a_registration_does_not_end_it() -> None:
    register()
    methods = [Trainer.__init__, Trainer._valid_epoch, Trainer.evaluate]
    with register():
        pass
    assert methods == [Trainer.__init__, Trainer._valid_epoch, Trainer.evaluate]


def test_the_four_are_ranking_metrics_with_a_direction() -> None:
    for name in OURS:
        assert recboles.metric_types[name.lower()] == EvaluatorType.RANKING
        assert (name.lower() in recboles.smaller_metrics) == name.startswith("HRL")


@pytest.mark.parametrize(
    ("valid_metric", "bigger"),
    [("HRLI@1", False), ("hrl2i@5", False), ("MixingRatio_res", True), ("RecoveryRate@5", True)],
)
def test_they_serve_as_valid_metric(session: Sessions, valid_metric: str, bigger: bool) -> None:
    opened = session(metrics=OURS, valid_metric=valid_metric, epochs=1)
    score, result = opened.trainer.fit(opened.train_data, opened.valid_data, saved=False)
    assert opened.config["valid_metric_bigger"] is bigger
    assert score == result[valid_metric.lower()]


class RecordedTensorboard:
    def __init__(self) -> None:
        self.scalars: dict[str, list[int]] = {}

    def add_scalar(self, tag: str, value: float, step: int) -> None:
        self.scalars.setdefault(tag, []).append(step)

    def add_hparams(self, *args: Any) -> None:
        pass


def test_every_validation_is_in_tensorboard(session: Sessions) -> None:
    opened = session(metrics=["NDCG", *OURS], epochs=3, eval_step=1)
    opened.trainer.tensorboard = board = RecordedTensorboard()
    _, result = opened.trainer.fit(opened.train_data, opened.valid_data, saved=False)
    opened.trainer.evaluate(opened.test_data, load_best_model=False)
    for key in result:
        assert board.scalars[f"Valid/{key}"] == [0, 1, 2]


def test_recboles_own_run_recbole_from_start_to_end(
    run_recbole: Callable[..., Any],
    data_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Training, early stopping on one of ours, the checkpoint read back, the test, the table."""
    monkeypatch.setattr(sys, "argv", ["run.py"])
    settings = {**SETTINGS, "data_path": str(data_path), "saved": True}
    settings.update(metrics=["Recall", "NDCG", *OURS], topk=[1, 10], valid_metric="HRLI@1")
    result = run_recbole("SASRec", "tiny", config_dict={**settings, "export_per_user": True})
    assert result["valid_score_bigger"] is False
    keys = ["recall@1", "ndcg@10", "hrli@1", "hrl2i@10", "recoveryrate@10", "mixingratio_ln_last"]
    for part in ("best_valid_result", "test_result"):
        assert set(keys) <= set(result[part])
    assert result["best_valid_score"] == result["best_valid_result"]["hrli@1"]

    (written,) = Path("saved").glob("SASRec-*-per_user.*")
    table = pd.read_parquet(written) if written.suffix == ".parquet" else pd.read_csv(written)
    assert round(table["hrli@10"].mean(), 4) == result["test_result"]["hrli@10"]
    assert round(table["ndcg@10"].mean(), 4) == result["test_result"]["ndcg@10"]


def test_a_model_without_attention_runs_in_run_recbole_with_hrli_alone(
    run_recbole: Callable[..., Any], data_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["run.py"])
    settings = {**SETTINGS, "data_path": str(data_path), "num_layers": 1, "dropout_prob": 0.1}
    settings.update(metrics=["NDCG", "HRLI", "ItemCoverage"], epochs=1)
    result = run_recbole("GRU4Rec", "tiny", config_dict=settings, saved=False)
    assert 0 <= result["test_result"]["hrli@5"] <= 1
