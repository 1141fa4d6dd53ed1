from __future__ import annotations

from typing import Any, Callable

import pytest
import torch
from recbole.evaluator import Evaluator
from recbole.model.general_recommender import BPR
from recbole.model.sequential_recommender import CORE, GRU4Rec, SASRec
from recbole.trainer import Trainer

from recbole_residual.errors import UnavailableMetricError
from recbole_residual.evaluator import check_metrics, metric_problem, result_keys
from recbole_residual.model.registry import get_model

Sessions = Callable[..., Any]
FULL = {"eval_args": {"mode": {"valid": "full", "test": "full"}}}


@pytest.mark.parametrize("metric", ["HRLI", "hrl2i", "MixingRatio", "RecoveryRate", "NDCG"])
@pytest.mark.parametrize("model", ["SASRec", "BERT4Rec", "CORE", "SASRecResidual"])
def test_attention_models_give_all(metric: str, model: str) -> None:
    assert metric_problem(metric, FULL, get_model(model)) is None


@pytest.mark.parametrize(
    ("metric", "config", "model", "words"),
    [
        ("MixingRatio", FULL, GRU4Rec, "GRU4Rec has none.* SASRec, "),
        ("RecoveryRate", FULL, GRU4Rec, "GRU4Rec has none.* SASRec, "),
        ("HRLI", FULL, BPR, "BPR is not a sequential model"),
        ("MixingRatio", FULL, BPR, "BPR is not a sequential model"),
        ("HRLI", {"eval_args": {"mode": "uni100"}}, SASRec, "mode: full"),
        ("HRL2I", {"eval_args": {"mode": {"valid": "full", "test": "pop100"}}}, SASRec, "full"),
        ("HRLI", {**FULL, "filter_seen": True}, SASRec, "filter_seen: False"),
        ("HRL2I", {**FULL, "post_remove_context": 1}, SASRec, "post_remove_context: False"),
    ],
)
def test_what_cannot_be_had_is_told_with_what_to_do(
    metric: str, config: dict[str, Any], model: type, words: str
) -> None:
    with pytest.raises(UnavailableMetricError, match=words):
        check_metrics({**config, "metrics": ["NDCG", metric]}, model)


def test_masked_history_and_sampling_only_concern_hrli() -> None:
    config = {"eval_args": {"mode": "uni100"}, "filter_seen": True}
    check_metrics({**config, "metrics": ["MixingRatio", "RecoveryRate"]}, SASRec)
    check_metrics({**FULL, "metrics": ["HRLI"]}, GRU4Rec)  # and HRLI needs no attention


def test_only_a_users_own_class_waits_for_its_object(session: Sessions) -> None:
    class Mine(GRU4Rec):
        pass

    assert metric_problem("MixingRatio", FULL, Mine) is None
    opened = session("GRU4Rec", num_layers=1, dropout_prob=0.0)
    mine = Mine(opened.config, opened.train_data._dataset)
    assert "Mine has none" in str(metric_problem("MixingRatio", FULL, mine))
    without_attention = session("CORE", dnn_type="ave").model
    assert isinstance(without_attention, CORE)
    assert "CORE has none" in str(metric_problem("RecoveryRate", FULL, without_attention))


def test_a_trainer_refuses_before_any_training(session: Sessions) -> None:
    with pytest.raises(UnavailableMetricError, match="MixingRatio needs"):
        session("GRU4Rec", num_layers=1, dropout_prob=0.0, metrics=["MixingRatio"])
    with pytest.raises(UnavailableMetricError, match="mode: full"):
        session(metrics=["HRLI"], eval_args={"mode": "uni100", "order": "TO"})


def test_export_per_user_needs_sequences_and_one_process() -> None:
    config = {**FULL, "metrics": ["NDCG"], "export_per_user": True}
    check_metrics(config, SASRec)
    with pytest.raises(UnavailableMetricError, match="export_per_user: False"):
        check_metrics(config, BPR)
    with pytest.raises(UnavailableMetricError, match="one process"):
        check_metrics({**config, "single_spec": False}, SASRec)


def test_the_ratio_at_mask_is_not_reported_without_a_word(
    session: Sessions, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("WARNING"):
        session("BERT4Rec", metrics=["MixingRatio"])
    assert "does not speak of the last item" in caplog.text
    caplog.clear()
    with caplog.at_level("WARNING"):
        session("SASRec", metrics=["MixingRatio"])
    assert "MASK" not in caplog.text


def test_result_keys_are_those_of_the_result(session: Sessions) -> None:
    metrics = ["NDCG", "GAUC", "ItemCoverage", "HRLI", "HRL2I", "MixingRatio", "RecoveryRate"]
    opened = session(metrics=metrics, topk=[3, 1])
    result = opened.trainer.evaluate(opened.test_data, load_best_model=False)
    assert result_keys(opened.config) == list(result)
    assert all(key == key.lower() for key in result)


def test_a_trainer_with_a_collector_of_its_own_keeps_it(session: Sessions) -> None:
    opened = session()

    class Mine(Trainer):
        def __init__(self, config: Any, model: Any) -> None:
            super().__init__(config, model)
            self.eval_collector = Kept(config)
            self.evaluator = Evaluator(config)

    from recbole.evaluator import Collector

    class Kept(Collector):
        pass

    trainer = Mine(opened.config, opened.model)
    with torch.no_grad():
        assert "ndcg@5" in trainer.evaluate(opened.test_data, load_best_model=False)
    assert isinstance(trainer.eval_collector, Kept)
