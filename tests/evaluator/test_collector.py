from __future__ import annotations

import math
from itertools import combinations
from typing import Any, Callable
from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from recbole.data.dataloader import FullSortEvalDataLoader
from recbole.evaluator import Collector, DataStruct, Evaluator
from recbole.evaluator.register import metrics_dict
from recbole.utils import init_seed

from recbole_residual.config.residual_config import ResidualConfig
from recbole_residual.errors import HistoryMaskedError, NaNScoreError, NotObservedError
from recbole_residual.evaluator import ResidualCollector, observing
from recbole_residual.evaluator.base_metric import SequenceMetric
from recbole_residual.evaluator.collector import BatchedStruct, sequence_rows
from recbole_residual.evaluator.earlier_ranking import position_scores
from recbole_residual.model.architecture.blocks import MODELS_WITH_ATTENTION
from recbole_residual.model.residual import scale_residual
from tests.evaluator import naive

Sessions = Callable[..., Any]

OURS = ["HRLI", "HRL2I", "MixingRatio", "RecoveryRate"]
TOPK_METRICS = ["Recall", "MRR", "NDCG", "Hit", "Precision", "MAP", "GAUC"]
ITEM_METRICS = [
    "ItemCoverage",
    "AveragePopularity",
    "ShannonEntropy",
    "GiniIndex",
    "TailPercentage",
]
UNI = {"split": {"LS": "valid_and_test"}, "group_by": "user", "order": "TO", "mode": "uni10"}


def evaluate(session: Any, alpha: float = 1.0, on: Any = None) -> dict[str, float]:
    data = session.test_data if on is None else on
    with scale_residual(session.model, alpha):
        return dict(session.trainer.evaluate(data, load_best_model=False))


def sequences_of_length_one_too(session: Any) -> FullSortEvalDataLoader:
    """The rows for training as a loader for evaluation: leave-one-out evaluates no short ones."""
    return FullSortEvalDataLoader(session.config, session.train_data._dataset, None)


def same(left: dict[str, float], right: dict[str, float], tolerance: float = 0) -> None:
    assert left.keys() == right.keys()
    for key, value in left.items():
        assert right[key] == pytest.approx(value, abs=tolerance, rel=tolerance, nan_ok=True), key


def naive_struct(session: Any) -> DataStruct:
    """What RecBole's item metrics need, put together by hand."""
    items = []
    for interaction, _, _, _ in session.test_data:
        scores = session.model.full_sort_predict(interaction)
        scores[:, 0] = -torch.inf
        items.append(scores.topk(max(session.config["topk"]), dim=-1).indices)
    struct = DataStruct()
    dataset = session.train_data._dataset
    struct.set("rec.items", torch.cat(items))
    struct.set("data.num_items", dataset.item_num)
    struct.set("data.count_items", dataset.item_counter)
    return struct


# RecBole's own metrics ---------------------------------------------------------------------------


def test_recboles_topk_metrics_are_those_of_its_own_collector(session: Sessions) -> None:
    ours = session(metrics=TOPK_METRICS + OURS)
    theirs = session(metrics=TOPK_METRICS)
    theirs.trainer.eval_collector = Collector(theirs.config)
    theirs.trainer.evaluator = Evaluator(theirs.config)
    expected = evaluate(theirs)
    found = evaluate(ours)
    assert {key: found[key] for key in expected} == expected


def test_recboles_metrics_of_sampled_evaluation_too(session: Sessions) -> None:
    ours = session(metrics=["NDCG", "GAUC", *OURS[2:]], eval_args=UNI)
    theirs = session(metrics=["NDCG", "GAUC"], eval_args=UNI)
    theirs.trainer.eval_collector = Collector(theirs.config)
    theirs.trainer.evaluator = Evaluator(theirs.config)
    init_seed(0, reproducibility=True)
    expected = evaluate(theirs)
    init_seed(0, reproducibility=True)
    found = evaluate(ours)
    assert {key: found[key] for key in expected} == expected


@pytest.mark.parametrize("name", ITEM_METRICS)
def test_recboles_item_metrics_which_crash_in_its_own_collector(
    session: Sessions, name: str
) -> None:
    opened = session(metrics=[name])
    expected = metrics_dict[name.lower()](opened.config).calculate_metric(naive_struct(opened))
    assert evaluate(opened) == dict(expected)
    assert evaluate(opened) == dict(expected)  # and nothing is left of the first time


def test_recboles_value_metrics(session: Sessions) -> None:
    settings = {"metrics": ["AUC", "LogLoss"], "valid_metric": "AUC"}
    ours = session("SASRec", eval_args={**UNI, "mode": "uni5"}, **settings)
    assert 0 <= evaluate(ours)["auc"] <= 1


# Independence ------------------------------------------------------------------------------------


def test_a_metric_never_changes_the_others(session: Sessions) -> None:
    everything = evaluate(session(metrics=TOPK_METRICS + ITEM_METRICS + OURS), alpha=0.3)
    assert list(evaluate(session(metrics=OURS[::-1]), alpha=0.3)) != list(everything)
    chosen = [OURS[::-1] + TOPK_METRICS[::-1], *([name] for name in OURS), *combinations(OURS, 2)]
    for metrics in chosen:
        found = evaluate(session(metrics=list(metrics)), alpha=0.3)
        same(found, {key: everything[key] for key in found})


@pytest.mark.parametrize("model", ["SASRec", "BERT4Rec", "CORE"])
def test_the_batch_size_changes_nothing(session: Sessions, model: str) -> None:
    settings = {"metrics": ["NDCG", *OURS], "metric_decimal_place": 12, "dtype": torch.float64}
    expected = evaluate(session(model, eval_batch_size=4096, **settings), alpha=0.2)
    for size in (1, 7):
        same(evaluate(session(model, eval_batch_size=size, **settings), alpha=0.2), expected, 1e-11)


def test_values_do_not_grow_or_drift_from_one_evaluation_to_the_next(session: Sessions) -> None:
    opened = session(metrics=["NDCG", "GAUC", "ItemCoverage", *OURS], eval_batch_size=16)
    first = evaluate(opened)
    sizes = [len(opened.trainer.evaluator.evaluated.get("rec.last_rank"))]
    for _ in range(2):
        same(evaluate(opened), first)
        sizes.append(len(opened.trainer.evaluator.evaluated.get("rec.last_rank")))
    assert sizes == [len(opened.test_data._dataset)] * 3


def test_an_evaluation_that_broke_off_leaves_nothing_behind(session: Sessions) -> None:
    opened = session(metrics=["NDCG", *OURS], eval_batch_size=16)
    expected = evaluate(opened)
    predict, calls = opened.model.full_sort_predict, []

    def break_off(interaction: Any) -> torch.Tensor:
        calls.append(interaction)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return predict(interaction)

    opened.model.full_sort_predict = break_off
    with pytest.raises(KeyboardInterrupt):
        evaluate(opened)
    del opened.model.full_sort_predict
    same(evaluate(opened), expected)


@pytest.mark.parametrize(
    ("metrics", "kept"),
    [
        (["NDCG"], {"rec.topk"}),
        (["HRLI"], {"rec.last_rank"}),
        (["HRL2I"], {"rec.last_but_one_rank"}),
        (["RecoveryRate"], {"rec.target_rank", "rec.position_rank"}),
        (
            ["MixingRatio"],
            {
                "rec.mixing_stages",
                "rec.mixing_ratio",
                "rec.mixing_ratio_last",
                "rec.mixing_positions",
            },
        ),
    ],
)
def test_only_what_the_metrics_need_is_kept(
    session: Sessions, metrics: list[str], kept: set[str]
) -> None:
    opened = session(metrics=metrics)
    evaluate(opened)
    assert set(opened.trainer.evaluator.evaluated._data_dict) == kept


@pytest.mark.parametrize("stages", [("attn", "ln"), ("ln",), ("res", "ffn", "attn", "ffn_ln")])
def test_ratios_are_labelled_with_the_stages_that_were_computed(
    session: Sessions, stages: tuple[str, ...]
) -> None:
    opened = session(metrics=["MixingRatio"])
    expected = evaluate(opened)
    opened.model.mixing_stages = stages
    result = evaluate(opened)
    assert list(result) == [f"mixingratio_{stage}{at}" for at in ("", "_last") for stage in stages]
    shared = [key for key in result if key in expected]
    assert shared
    assert [result[key] for key in shared] == [expected[key] for key in shared]


@settings(deadline=None, max_examples=25)
@given(sizes=st.lists(st.integers(0, 5), min_size=1, max_size=6), seed=st.integers(0, 99))
def test_batches_come_out_as_one_tensor_and_only_once(sizes: list[int], seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    batches = [torch.randn(size, 2, generator=generator) for size in sizes]
    struct = BatchedStruct()
    struct.set("data.num_items", 3)
    for batch in batches:
        changed = batch.clone()
        struct.update_tensor("rec.x", changed)
        changed.zero_()
    taken = struct.take()
    assert torch.equal(taken.get("rec.x"), torch.cat(batches))
    assert taken.get("data.num_items") == 3
    assert "rec.x" not in struct.take()


@pytest.mark.parametrize("model", MODELS_WITH_ATTENTION)
def test_every_attention_model_of_recbole_gives_all_four(session: Sessions, model: str) -> None:
    result = evaluate(session(model, metrics=OURS), alpha=0.2)
    assert 0 < result["mixingratio_res"] < 1
    assert 0 <= result["hrli@5"] <= 1
    assert result["recoverybase@5"] > 0
    assert 0 <= result["recoveryrate@5"] <= 1


# Defined outcomes --------------------------------------------------------------------------------


def test_nan_scores_are_an_error_for_each_of_the_four(session: Sessions) -> None:
    for metric in OURS:
        opened = session(metrics=[metric])
        opened.model.item_embedding.weight.data[4] = torch.nan
        with pytest.raises(NaNScoreError):
            evaluate(opened)


def test_nobody_watching_is_an_error(session: Sessions) -> None:
    for metric in OURS:
        opened = session(metrics=[metric])
        batch = next(iter(opened.test_data))
        scores = opened.model.full_sort_predict(batch[0])
        with pytest.raises(NotObservedError, match="register"):
            opened.trainer.eval_collector.eval_batch_collect(scores, batch[0], batch[2], batch[3])
        with observing(opened.trainer), observing(opened.trainer):  # a second one does no harm
            scores = opened.model.full_sort_predict(batch[0])
            opened.trainer.eval_collector.eval_batch_collect(scores, batch[0], batch[2], batch[3])


@pytest.mark.parametrize("metric", ["HRLI", "HRL2I"])
def test_history_masked_out_of_the_ranking_is_refused(session: Sessions, metric: str) -> None:
    opened = session(metrics=[metric])
    collector = opened.trainer.eval_collector
    interaction, _, positive_u, positive_i = next(iter(opened.test_data))
    scores = opened.model.full_sort_predict(interaction)
    scores.scatter_(1, interaction["item_id_list"], -torch.inf)
    with collector.observing(opened.model), pytest.raises(HistoryMaskedError, match="filter_seen"):
        collector.eval_batch_collect(scores, interaction, positive_u, positive_i)


def test_recovery_ranks_among_the_items_of_the_evaluations_own_ranking(session: Sessions) -> None:
    """With items out of the ranking, they are out of it at every position."""
    opened = session(metrics=["RecoveryRate"], dtype=torch.float64)
    collector = opened.trainer.eval_collector
    interaction, _, positive_u, positive_i = next(iter(opened.test_data))
    seen = interaction["item_id_list"].clone()
    seen[seen == positive_i.unsqueeze(1)] = 0
    with scale_residual(opened.model, 0.3), collector.observing(opened.model):
        with torch.no_grad():
            scores = opened.model.full_sort_predict(interaction).scatter_(1, seen, -torch.inf)
        collector.eval_batch_collect(scores, interaction, positive_u, positive_i)
    struct = collector.get_data_struct()
    at_positions = position_scores(opened.model, interaction, (0, 1, 2, 3)).detach()
    for row, target in enumerate(positive_i.tolist()):
        assert struct.get("rec.target_rank")[row] == naive.rank(scores[row].numpy(), target)
        for offset in range(4):
            read = at_positions[offset, row].clone()
            read[seen[row]] = -torch.inf
            expected = naive.rank(read.numpy(), target)
            if offset >= interaction["item_length"][row]:
                expected = 0
            assert struct.get("rec.position_rank")[row, offset] == expected


def test_bert4recs_cut_off_items_are_left_out_and_counted(
    session: Sessions, caplog: pytest.LogCaptureFixture
) -> None:
    opened = session("BERT4Rec", metrics=["HRLI", "HRL2I"], dtype=torch.float64)
    data = sequences_of_length_one_too(opened)
    with caplog.at_level("INFO"):
        evaluate(opened, on=data)
    found = opened.trainer.evaluator
    n_without = {1: 0, 2: 0}
    row = 0
    for interaction, _, _, _ in data:
        scores = opened.model.full_sort_predict(interaction).detach().numpy()
        for items, length in zip(
            interaction["item_id_list"].tolist(), interaction["item_length"].tolist()
        ):
            seen = items[:length][1:]  # RecBole always drops the oldest
            for back, name in ((1, "rec.last_rank"), (2, "rec.last_but_one_rank")):
                rank = int(found.evaluated.get(name)[row])
                if len(seen) < back:
                    n_without[back] += 1
                    assert rank == 0
                else:
                    assert rank == naive.rank(scores[row % len(scores)], seen[-back])
            row += 1
    assert n_without[1] > 0
    assert found.left_out() == {"hrli": n_without[1], "hrl2i": n_without[2]}
    assert f"hrli: {n_without[1]} sequences" in caplog.text
    caplog.clear()
    evaluate(opened, on=data)
    assert "left out" not in caplog.text  # told once, not after every epoch


def test_bert4rec_of_this_package_keeps_what_fits(session: Sessions) -> None:
    settings = {"config_class": ResidualConfig, "strict_config": False, "metrics": ["HRLI"]}
    opened = session("BERT4RecResidual", valid_metric="HRLI@1", loss_positions="last", **settings)
    evaluate(opened, on=sequences_of_length_one_too(opened))
    assert opened.trainer.evaluator.left_out() == {"hrli": 0}


# Sampled evaluation ------------------------------------------------------------------------------


@settings(deadline=None, max_examples=40)
@given(
    n_targets=st.lists(st.integers(1, 4), min_size=1, max_size=6),
    times=st.integers(2, 5),
    seed=st.integers(0, 99),
)
def test_the_row_of_each_targets_sequence_under_sampling(
    n_targets: list[int], times: int, seed: int
) -> None:
    users = np.random.default_rng(seed).permutation(50)[: len(n_targets)] + 1
    user, positive_u, expected, start = [], [], [], 0
    for index, (one, n) in enumerate(zip(users, n_targets)):
        user += [one] * (n * times)
        positive_u += [index] * n
        expected += [start + i for i in range(n)]
        start += n * times
    rows = sequence_rows(torch.tensor(user), torch.tensor(positive_u), len(n_targets))
    assert rows.tolist() == expected


def test_sampled_evaluation_of_ratios_and_recovery(session: Sessions) -> None:
    """The ratios are those of full ranking; ranks at positions are among the sampled items."""
    settings = {"metrics": ["Hit", "MixingRatio", "RecoveryRate"], "dtype": torch.float64}
    full = session(**settings)
    sampled = session(eval_args=UNI, eval_batch_size=50, **settings)
    in_full = evaluate(full, alpha=0.3)
    batches = list(sampled.test_data)  # sampled anew each time
    torch.set_default_dtype(torch.float64)
    try:
        with mock.patch.object(type(sampled.test_data), "__iter__", return_value=iter(batches)):
            in_sample = evaluate(sampled, alpha=0.3)
    finally:
        torch.set_default_dtype(torch.float32)
    same(
        {key: value for key, value in in_sample.items() if key.startswith("mixing")},
        {key: value for key, value in in_full.items() if key.startswith("mixing")},
    )
    struct = sampled.trainer.evaluator.evaluated
    position_rank = struct.get("rec.position_rank")
    assert len(position_rank) == len(full.test_data._dataset)
    row = 0
    for interaction, row_idx, positive_u, positive_i in batches:
        for score_row, target in zip(positive_u.tolist(), positive_i.tolist()):
            mine = row_idx == score_row
            candidates = sorted(set(interaction["item_id"][mine].tolist()))
            first = int(mine.nonzero()[0])
            read = position_scores(sampled.model, interaction[[first]], (0, 1, 2, 3))[:, 0]
            for offset in range(4):
                higher = sum(
                    1 for item in candidates if read[offset, item] > read[offset, target] + 1e-12
                )
                reached = offset < int(interaction["item_length"][first])
                assert position_rank[row, offset] == (1 + higher if reached else 0)
            row += 1


def test_without_a_trainer_the_collector_can_be_used_alone(session: Sessions) -> None:
    opened = session(metrics=OURS)
    collector = ResidualCollector(opened.config)
    with collector.observing(opened.model):
        for interaction, _, positive_u, positive_i in opened.test_data:
            scores = opened.model.full_sort_predict(interaction)
            scores[:, 0] = -torch.inf
            collector.eval_batch_collect(scores, interaction, positive_u, positive_i)
    struct = collector.get_data_struct()
    expected = evaluate(opened)
    for metric in opened.trainer.evaluator.metric_class.values():
        assert isinstance(metric, SequenceMetric)
        for key, value in metric.calculate_metric(struct).items():
            assert value == expected[key] or math.isnan(value)
