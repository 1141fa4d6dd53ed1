"""One tester for the four metrics: against loops over users, on random and on trained scores."""

from __future__ import annotations

import math
import pickle
from typing import Any, Callable, Optional

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from recbole.evaluator.collector import DataStruct
from recbole.evaluator.register import smaller_metrics

from recbole_residual.decomposition.stages import ATTENTION_STAGES
from recbole_residual.evaluator import HRL2I, HRLI, MixingRatio, RecoveryRate
from recbole_residual.evaluator.base_metric import SequenceMetric
from recbole_residual.model.residual import scale_residual
from tests.evaluator import naive
from tests.evaluator.conftest import Session

TOPK = [1, 3, 10]
Values = dict[str, list[Optional[float]]]


def hits_by_loop(name: str, ranks: list[int]) -> Values:
    return {f"{name}@{k}": [float(rank <= k) if rank else None for rank in ranks] for k in TOPK}


class MetricTester:
    """Checks a metric on what a collector could have gathered.

    Subclasses say which metric, make random input for a number of sequences, and compute the
    values per sequence and the result with plain loops.
    """

    metric: type[SequenceMetric]
    smaller: bool

    def random(self, n: int, seed: int) -> dict[str, torch.Tensor]:
        raise NotImplementedError

    def by_loop(self, data: dict[str, torch.Tensor]) -> Values:
        raise NotImplementedError

    def result_by_loop(self, data: dict[str, torch.Tensor]) -> dict[str, float]:
        return {key: naive.mean(values) for key, values in self.by_loop(data).items()}

    def made(self, places: int = 12) -> SequenceMetric:
        return self.metric({"topk": TOPK, "metric_decimal_place": places})

    @staticmethod
    def struct(data: dict[str, torch.Tensor]) -> DataStruct:
        struct = DataStruct()
        for name, value in data.items():
            struct.set(name, value)
        return struct

    def check(self, data: dict[str, torch.Tensor]) -> None:
        metric = pickle.loads(pickle.dumps(self.made()))
        per_sequence = metric.per_sequence(self.struct(data))
        expected = self.by_loop(data)
        assert list(per_sequence) == list(expected)
        for key, values in expected.items():
            as_floats = [math.nan if value is None else value for value in values]
            np.testing.assert_allclose(per_sequence[key], as_floats, atol=1e-12)
        result = metric.calculate_metric(self.struct(data))
        assert list(result) == metric.result_keys(TOPK)
        for key, value in self.result_by_loop(data).items():
            assert result[key] == pytest.approx(value, abs=1e-9, nan_ok=True), key


class HRLITester(MetricTester):
    metric, smaller, name = HRLI, True, "rec.last_rank"

    def random(self, n: int, seed: int) -> dict[str, torch.Tensor]:
        generator = torch.Generator().manual_seed(seed)
        return {self.name: torch.randint(0, 14, (n,), generator=generator)}

    def by_loop(self, data: dict[str, torch.Tensor]) -> Values:
        return hits_by_loop(self.metric.__name__.lower(), data[self.name].tolist())


class HRL2ITester(HRLITester):
    metric, name = HRL2I, "rec.last_but_one_rank"


class MixingRatioTester(MetricTester):
    metric, smaller = MixingRatio, False

    def random(self, n: int, seed: int) -> dict[str, torch.Tensor]:
        generator = torch.Generator().manual_seed(seed)
        shape = (n, len(ATTENTION_STAGES))
        return {
            "rec.mixing_stages": ATTENTION_STAGES,
            "rec.mixing_ratio": torch.rand(shape, generator=generator, dtype=torch.float64),
            "rec.mixing_ratio_last": torch.rand(shape, generator=generator, dtype=torch.float64),
            "rec.mixing_positions": torch.randint(1, 9, (n,), generator=generator),
        }

    def by_loop(self, data: dict[str, torch.Tensor]) -> Values:
        return {
            f"mixingratio_{stage}{suffix}": [float(row[i]) for row in data[name]]
            for suffix, name in (("", "rec.mixing_ratio"), ("_last", "rec.mixing_ratio_last"))
            for i, stage in enumerate(ATTENTION_STAGES)
        }

    def result_by_loop(self, data: dict[str, torch.Tensor]) -> dict[str, float]:
        result = {}
        for key, values in self.by_loop(data).items():
            at_positions = []
            for value, n_positions in zip(values, data["rec.mixing_positions"].tolist()):
                at_positions += [value] * (1 if key.endswith("_last") else n_positions)
            result[key] = naive.mean(at_positions)
        return result


class RecoveryRateTester(MetricTester):
    metric, smaller = RecoveryRate, False

    def random(self, n: int, seed: int) -> dict[str, torch.Tensor]:
        generator = torch.Generator().manual_seed(seed)
        position_rank = torch.randint(1, 14, (n, 4), generator=generator)
        length = torch.randint(1, 6, (n, 1), generator=generator)
        return {
            "rec.target_rank": torch.randint(1, 14, (n,), generator=generator),
            "rec.position_rank": position_rank * (torch.arange(4) < length),
        }

    def by_loop(self, data: dict[str, torch.Tensor]) -> Values:
        values: Values = {f"recoveryrate@{k}": [] for k in TOPK}
        for now, before in zip(
            data["rec.target_rank"].tolist(), data["rec.position_rank"].tolist()
        ):
            for k in TOPK:
                hit = [0 < rank <= k for rank in before]
                in_base = not hit[0] and (hit[1] or hit[2] or hit[3])
                values[f"recoveryrate@{k}"].append(float(now <= k) if in_base else None)
        return values

    def result_by_loop(self, data: dict[str, torch.Tensor]) -> dict[str, float]:
        result = super().result_by_loop(data)
        for k in TOPK:
            values = self.by_loop(data)[f"recoveryrate@{k}"]
            result[f"recoverybase@{k}"] = len([value for value in values if value is not None])
        return result


TESTERS = [HRLITester(), HRL2ITester(), MixingRatioTester(), RecoveryRateTester()]
every_metric = pytest.mark.parametrize(
    "tester", TESTERS, ids=[tester.metric.__name__ for tester in TESTERS]
)


@every_metric
@settings(deadline=None, max_examples=40)
@given(n=st.integers(1, 60), seed=st.integers(0, 10**6))
def test_random_input(tester: MetricTester, n: int, seed: int) -> None:
    tester.check(tester.random(n, seed))


@every_metric
def test_nothing_evaluated_gives_nan(tester: MetricTester) -> None:
    nothing = {
        name: value[:0] if isinstance(value, torch.Tensor) else value
        for name, value in tester.random(5, seed=0).items()
    }
    tester.check(nothing)
    result = tester.made().calculate_metric(tester.struct(nothing))
    sizes = {key: value for key, value in result.items() if key.startswith("recoverybase")}
    assert all(math.isnan(value) for key, value in result.items() if key not in sizes)
    assert not any(sizes.values())


@every_metric
def test_results_are_rounded_as_asked(tester: MetricTester) -> None:
    struct = tester.struct(tester.random(7, seed=1))
    exact = tester.made().calculate_metric(struct)
    for key, value in tester.made(places=2).calculate_metric(struct).items():
        assert value == pytest.approx(round(exact[key], 2), nan_ok=True)


@every_metric
def test_the_direction_is_declared(tester: MetricTester) -> None:
    assert tester.metric.smaller is tester.smaller
    assert (tester.metric.__name__.lower() in smaller_metrics) is tester.smaller


@pytest.mark.parametrize("tester", TESTERS[:2])
def test_sequences_without_the_item_are_left_out(tester: HRLITester) -> None:
    tester.check({tester.name: torch.tensor([0, 1, 0, 5])})
    tester.check({tester.name: torch.tensor([0, 0])})


def test_an_empty_base_is_nan_beside_its_size() -> None:
    tester = RecoveryRateTester()
    data = {
        "rec.target_rank": torch.tensor([1, 2]),
        "rec.position_rank": torch.tensor([[1, 1, 1, 1], [90, 90, 0, 0]]),
    }
    result = tester.made().calculate_metric(tester.struct(data))
    assert math.isnan(result["recoveryrate@10"])
    assert result["recoverybase@10"] == 0


@pytest.mark.parametrize("alpha", [[1.0, 1.0], [0.3, 0.3], [0.0, 0.0], [0.2, 1.0]])
def test_all_four_on_a_trained_model_are_those_of_loops(
    trained: Session, alpha: list[float]
) -> None:
    """Scores, ratios and positions of a trained SASRec, one user at a time, in numpy."""
    topk = trained.config["topk"]
    with scale_residual(trained.model, alpha):
        trained.trainer.evaluate(trained.test_data, load_best_model=False)
    found = trained.trainer.evaluator
    sequences = []
    for interaction, _, _, target in trained.test_data:
        for items, length, item in zip(
            interaction["item_id_list"].tolist(), interaction["item_length"].tolist(), target
        ):
            sequences.append((items[:length], int(item)))
    expected = naive.metrics_by_loops(trained.model, sequences, topk, alpha)
    for metric in found.metric_class.values():
        if not isinstance(metric, SequenceMetric):
            continue
        for key, values in metric.per_sequence(found.evaluated).items():
            as_floats = [math.nan if value is None else value for value in expected[key]]
            np.testing.assert_allclose(values, as_floats, rtol=1e-9, atol=1e-12, err_msg=key)
    result = found.last_unrounded
    for key, values in expected.items():
        if key.startswith("mixingratio") and not key.endswith("_last"):
            lengths = [len(items) for items, _ in sequences]
            mean = np.average(np.array(values, dtype=float), weights=lengths)
            assert result[key] == pytest.approx(mean, abs=1e-12)
        else:
            assert result[key] == pytest.approx(naive.mean(values), abs=1e-12, nan_ok=True)
    if alpha == [1, 1]:
        assert result["recoverybase@10"] > 0
        assert result["recoveryrate@10"] == 0


CollectScores = Callable[..., dict[str, float]]


@pytest.fixture
def collect(session: Callable[..., Any]) -> CollectScores:
    """The result of HRLI and HRL2I for given scores, sequences and batch size."""

    def run(scores: torch.Tensor, sequences: list[list[int]], batch: int = 2) -> dict[str, float]:
        opened = session(metrics=["HRLI", "HRL2I"], topk=TOPK)
        collector = opened.trainer.eval_collector
        width = max(map(len, sequences))
        item_seq = torch.tensor([items + [0] * (width - len(items)) for items in sequences])
        length = torch.tensor([len(items) for items in sequences])
        with collector.observing(opened.model):
            for start in range(0, len(scores), batch):
                part = slice(start, start + batch)
                interaction = {
                    "user_id": torch.arange(len(scores))[part],
                    "item_id_list": item_seq[part],
                    "item_length": length[part],
                }
                rows = torch.arange(len(length[part]))
                collector.eval_batch_collect(scores[part], interaction, rows, rows + 1)
        return opened.trainer.evaluator.evaluate(collector.get_data_struct())

    return run


def test_random_scores_against_loops_in_any_batch_size(collect: CollectScores) -> None:
    random = np.random.default_rng(5)
    scores = random.integers(0, 12, (23, 31)).astype(np.float32)  # with many ties
    sequences = [random.integers(1, 31, 1 + random.integers(6)).tolist() for _ in scores]
    sequences[4] = [7, 9, 7]  # an item that repeats
    sequences[5] = [8, 8]
    results = [collect(torch.tensor(scores), sequences, batch) for batch in (1, 4, 23)]
    assert results[0] == results[1] == results[2]
    for k in TOPK:
        last = [naive.rank(row, items[-1]) <= k for row, items in zip(scores, sequences)]
        before = [
            naive.rank(row, items[-2]) <= k for row, items in zip(scores, sequences) if items[1:]
        ]
        assert results[0][f"hrli@{k}"] == round(np.mean(last), 4)
        assert results[0][f"hrl2i@{k}"] == round(np.mean(before), 4)


def test_all_ties_share_rank_one(collect: CollectScores) -> None:
    result = collect(torch.zeros(4, 31), [[1, 2]] * 4)
    assert set(result.values()) == {1.0}


def test_sequences_of_length_one_have_no_last_but_one(collect: CollectScores) -> None:
    result = collect(torch.randn(3, 31), [[4]] * 3)
    assert math.isnan(result["hrl2i@1"])
    assert not math.isnan(result["hrli@1"])
