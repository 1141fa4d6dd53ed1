"""Evaluation by this package's Trainers: its metrics, ranks by counting."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from recbole.data.dataloader import FullSortEvalDataLoader
from recbole.trainer import Trainer
from tqdm import tqdm

from recbole_residual.evaluator import (
    CountingEvaluation,
    ResidualCollector,
    ResidualEvaluator,
    check_metrics,
    observing,
    register_metrics,
)
from recbole_residual.evaluator.registration import show_validation
from recbole_residual.trainer.shares import own_batches

if TYPE_CHECKING:
    from recbole.trainer import Trainer as _Parent
else:
    _Parent = object


class EvaluationMixin(_Parent):
    """Goes before one of RecBole's Trainer classes; changes none of them.

    The Trainer refuses metrics that its model cannot give, collects and observes during
    :meth:`evaluate` what they need, and writes those of each validation to TensorBoard as
    ``Valid/<key>``.
    """

    def __init__(self, config: Any, model: Any) -> None:
        register_metrics()
        check_metrics(config, model)
        super().__init__(config, model)
        self.eval_collector = ResidualCollector(config)
        self.evaluator = ResidualEvaluator(config)

    def _valid_epoch(self, *args: Any, **kwargs: Any) -> Any:
        score, result = super()._valid_epoch(*args, **kwargs)
        show_validation(self, result)
        return score, result

    @torch.no_grad()
    def evaluate(
        self,
        eval_data: Any,
        load_best_model: bool = True,
        model_file: str | None = None,
        show_progress: bool = False,
    ) -> Any:
        """RecBole's ``evaluate`` and its numbers, ranked by counting where that can be.

        Args:
            eval_data: a loader of validation or test data.
            load_best_model: load the weights of a checkpoint first.
            model_file: which one, by default that with the best validation score.
            show_progress: show a progress bar.

        Returns:
            The result by key; None without data.
        """
        if not eval_data:
            return None
        if load_best_model:
            self.load_weights(model_file)
        with observing(self):
            if self._evaluates_otherwise():
                return super().evaluate(eval_data, False, show_progress=show_progress)
            return self._evaluate_by_counting(eval_data, show_progress)

    def load_weights(self, path: str | None = None) -> None:
        """Load the weights of a checkpoint, by default those with the best validation score."""
        raise NotImplementedError

    def _evaluates_otherwise(self) -> bool:
        """RecBole has Trainers with an ``evaluate`` of their own, and several processes share one
        evaluation in a way of their own."""
        inherited: Any = super().evaluate
        own = (
            getattr(inherited, "__func__", inherited).__qualname__ != Trainer.evaluate.__qualname__
        )
        return own or not self.config["single_spec"]

    def _evaluate_by_counting(self, eval_data: Any, show_progress: bool) -> Any:
        self.model.eval()
        dataset = eval_data._dataset
        self.tot_item_num = dataset.item_num
        self.item_tensor = dataset.get_item_feature().to(self.device)
        full = isinstance(eval_data, FullSortEvalDataLoader)
        plain = self._full_sort_batch_eval if full else self._neg_sample_batch_eval
        evaluation = CountingEvaluation(self.model, self.eval_collector, plain)
        evaluation.collect(
            eval_data,
            tqdm(own_batches(eval_data), desc="Evaluate", disable=not show_progress, ncols=100),
        )
        self.eval_collector.model_collect(self.model)
        with evaluation.phases.of("metrics"):
            result = self.evaluator.evaluate(self.eval_collector.get_data_struct())
        self.logger.debug("Evaluation: %s.", evaluation.phases)
        self.wandblogger.log_eval_metrics(result, head="eval")
        return result
