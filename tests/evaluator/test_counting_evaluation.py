"""Evaluation by counting against RecBole's own Trainer, on the same loader and the same model."""

from __future__ import annotations

import logging
from typing import Any, Callable

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from recbole.data.dataloader import FullSortEvalDataLoader
from recbole.evaluator import Collector, Evaluator

from recbole_residual.evaluator import ResidualCollector
from recbole_residual.evaluator.collector import BatchedStruct
from recbole_residual.evaluator.item_product import NotCountableError, item_product
from recbole_residual.model.residual import scale_residual
from recbole_residual.probe import sweep_alpha
from recbole_residual.trainer.trainer import get_trainer

Sessions = Callable[..., Any]

TOPK_METRICS = ["Recall", "MRR", "NDCG", "Hit", "Precision", "MAP"]
LISTS = ["ItemCoverage", "AveragePopularity", "ShannonEntropy", "GiniIndex", "TailPercentage"]
OURS = ["HRLI", "HRL2I", "MixingRatio", "RecoveryRate"]
MODELS = ["SASRec", "GRU4Rec", "BERT4Rec", "CORE", "NARM", "SASRecF", "RepeatNet", "STAMP"]


class HidesSome(FullSortEvalDataLoader):
    """Leaves three items out of every row's ranking, once the target itself."""

    def collate_fn(self, index: Any) -> Any:
        interaction, _, positive_u, positive_i = super().collate_fn(index)
        rows = positive_u.repeat_interleave(3)
        items = (interaction["item_length"].repeat_interleave(3) * 5 + torch.arange(len(rows))) % 30
        items[0] = positive_i[0]
        return interaction, (rows, items + (items == 0).long()), positive_u, positive_i


def counted(opened: Any, data: Any = None) -> dict[str, float]:
    """By this package's Trainer."""
    trainer = get_trainer(opened.config["MODEL_TYPE"], type(opened.model))(
        opened.config, opened.model
    )
    trainer.eval_collector.data_collect(opened.train_data)
    return dict(trainer.evaluate(opened.test_data if data is None else data, False))


class _ListsToo(Collector):
    """RecBole's Collector, but that it does not call ``cpu`` on what is no tensor."""

    def get_data_struct(self) -> Any:
        struct = BatchedStruct()
        struct._data_dict = dict(self.data_struct._data_dict)
        return struct.take()


def recboles(opened: Any, data: Any = None) -> dict[str, float]:
    """By RecBole's own Trainer, Collector and Evaluator."""
    opened.trainer.eval_collector = _ListsToo(opened.config)
    opened.trainer.evaluator = Evaluator(opened.config)
    opened.trainer.eval_collector.data_collect(opened.train_data)
    return dict(opened.trainer.evaluate(opened.test_data if data is None else data, False))


def in_recboles_way(opened: Any, data: Any = None) -> dict[str, float]:
    """By RecBole's Trainer with this package's collector, batch by batch."""
    opened.trainer.eval_collector = ResidualCollector(opened.config)
    opened.trainer.eval_collector.data_collect(opened.train_data)
    return dict(opened.trainer.evaluate(opened.test_data if data is None else data, False))


@pytest.mark.parametrize("model", MODELS)
def test_recboles_metrics_are_recboles(session: Sessions, model: str) -> None:
    opened = session(model, metrics=[*TOPK_METRICS, "GAUC", *LISTS], metric_decimal_place=15)
    assert counted(opened) == recboles(opened)


@settings(
    deadline=None, max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    size=st.sampled_from([1, 3, 16, 4096]),
    seed=st.integers(0, 99),
    hides=st.booleans(),
    twins=st.booleans(),
    alpha=st.sampled_from([0.0, 0.3, 1.0]),
)
def test_random_models_batches_ties_and_hidden_items(
    session: Sessions, size: int, seed: int, hides: bool, twins: bool, alpha: float
) -> None:
    opened = session(
        metrics=[*TOPK_METRICS, "GAUC", *LISTS],
        metric_decimal_place=15,
        eval_batch_size=size,
        seed=seed,
    )
    with_twins(opened.model, twins)
    data = HidesSome(opened.config, opened.test_data._dataset, None) if hides else None
    with scale_residual(opened.model, alpha):
        assert counted(opened, data) == recboles(opened, data)


def with_twins(model: Any, twins: bool = True) -> None:
    """Every item twice in the catalogue: i and i + 15 have one embedding."""
    if twins:
        with torch.no_grad():
            model.item_embedding.weight[16:31] = model.item_embedding.weight[1:16]


@pytest.mark.parametrize("model", ["SASRec", "BERT4Rec", "CORE", "FEARec"])
@pytest.mark.parametrize("alpha", [0.2, 1.0])
def test_our_metrics_are_those_of_the_plain_way(
    session: Sessions, model: str, alpha: float
) -> None:
    opened = session(model, metrics=["NDCG", *OURS], metric_decimal_place=15)
    with scale_residual(opened.model, alpha):
        found, expected = counted(opened), in_recboles_way(opened)
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        tolerance = 1e-6 if key.startswith("mixing") else 0
        assert found[key] == pytest.approx(value, abs=tolerance, rel=0, nan_ok=True), key


def test_the_sweep_breaks_exact_ties_as_the_trainer_does(session: Sessions) -> None:
    for model in ("SASRec", "FEARec"):
        opened = session(model, metrics=["Hit", "NDCG", "MRR"], metric_decimal_place=12)
        with_twins(opened.model)
        row = sweep_alpha(opened.model, opened.test_data, [1.0], topk=(1, 5)).frame.iloc[0]
        for key, value in recboles(opened).items():
            assert row[key] == pytest.approx(value, abs=1e-11), (model, key)


def test_what_cannot_be_counted_says_so_at_debug_level(
    session: Sessions, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    counted(session("RepeatNet"))
    assert "in RecBole's way, because" in caplog.text
    caplog.clear()
    counted(session("SASRec"))
    assert "in RecBole's way, because" not in caplog.text
    for phase in ("forward", "scores", "ranks", "metrics"):
        assert f"{phase} 0." in caplog.text


def test_a_model_whose_rows_depend_on_the_width_is_not_trimmed(session: Sessions) -> None:
    opened = session(metrics=["Hit", "NDCG"], metric_decimal_place=15)

    def reads_the_width(module: Any, args: Any, output: torch.Tensor) -> torch.Tensor:
        return output * (1 + args[0].shape[1])

    opened.model.LayerNorm.register_forward_hook(reads_the_width)
    assert counted(opened) == recboles(opened)


def test_a_model_without_full_sort_predict_gets_the_ratios_of_its_own_rows(
    session: Sessions,
) -> None:
    opened = session(metrics=["MixingRatio", "HRLI"], metric_decimal_place=6)
    expected = counted(opened)

    class Repeats(type(opened.model)):  # type: ignore[misc]
        def full_sort_predict(self, interaction: Any) -> Any:
            raise NotImplementedError

    opened.model.__class__ = Repeats
    found = counted(opened)
    for key, value in expected.items():
        assert found[key] == pytest.approx(value, abs=2e-6), key


def test_only_products_with_items_are_caught() -> None:
    items, states = torch.randn(7, 3), torch.randn(4, 3)
    assert item_product(lambda: states @ items.t(), 7).items.shape == (7, 3)
    biased = item_product(lambda: torch.matmul(states, items.t()) + torch.ones(7), 7)
    assert biased.bias is not None
    for other in (
        lambda: (states @ items.t()).softmax(-1),
        lambda: states @ items.t() + states @ items.t(),
        lambda: torch.relu(states @ items.t()),
        lambda: states,
        lambda: (states @ items.t()) * states.sum(),
    ):
        with pytest.raises(NotCountableError):
            item_product(other, 7)
