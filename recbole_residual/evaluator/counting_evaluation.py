"""An evaluation that ranks by counting where it can, and in RecBole's way where it cannot."""

from __future__ import annotations

from collections.abc import Iterable
from logging import getLogger
from typing import Any, Callable

import torch
from recbole.data.dataloader import FullSortEvalDataLoader, NegSampleEvalDataLoader
from recbole.utils import EvaluatorType, ModelType

from recbole_residual.evaluator.collector import ResidualCollector
from recbole_residual.evaluator.counting_pass import CountingPass
from recbole_residual.evaluator.item_product import NotCountableError
from recbole_residual.evaluator.phases import Phases
from recbole_residual.evaluator.row_pool import Pool, pooled

BatchEvaluation = Callable[[Any], tuple]
"""RecBole's way: from a batch of the loader to what its collector is given."""


class CountingEvaluation:
    """Collects what the metrics need from evaluation data.

    Args:
        model: in eval mode.
        collector: the collector, observing the model.
        plain: evaluates a batch in RecBole's way.
    """

    def __init__(self, model: Any, collector: ResidualCollector, plain: BatchEvaluation) -> None:
        self._model, self._collector, self._plain = model, collector, plain
        self._config = collector.config
        self.phases = Phases()

    @torch.no_grad()
    def collect(self, data: Any, batches: Iterable[Any]) -> None:
        """Evaluate all batches.

        Args:
            data: the loader.
            batches: its batches.
        """
        reason = self._reason_for_plain(data)
        if reason:
            self._collect_plainly(batches, reason)
            return
        counting = CountingPass(
            self._model, self._config, self._collector.wanted, self._collector.observation
        )
        groups = pooled(batches)
        for group in groups:
            try:
                pool = self._pool(data, group)
                self._collector.collect_rows(counting.run(pool), pool)
            except NotCountableError as error:
                self._forget()
                self._collect_plainly(group, str(error) or "its scores are no product")
                for rest in groups:
                    self._collect_plainly(rest)
                break
        self.phases = counting.phases
        getLogger().debug(
            "Evaluation: ranked by counting, %d rows in RecBole's way.", counting.n_plain
        )

    def _pool(self, data: Any, batches: list[Any]) -> Pool:
        if isinstance(data, NegSampleEvalDataLoader):
            return Pool.of_sampled(batches, self._config)
        return Pool.of(batches, self._config["ITEM_LIST_LENGTH_FIELD"], self._config["device"])

    def _reason_for_plain(self, data: Any) -> str | None:
        if self._config["MODEL_TYPE"] != ModelType.SEQUENTIAL:
            return "it is no ranking for sequences"
        if not isinstance(data, (FullSortEvalDataLoader, NegSampleEvalDataLoader)):
            return "its loader is another one than RecBole's"
        if self._config["eval_type"] != EvaluatorType.RANKING:
            return "its metrics are no ranking metrics"
        return None

    def _forget(self) -> None:
        if self._collector.observation is not None:
            self._collector.observation.forget()

    def _collect_plainly(self, batches: Iterable[Any], reason: str | None = None) -> None:
        if reason:
            getLogger().debug("Evaluation: in RecBole's way, because %s.", reason)
        with self.phases.of("RecBole"):
            for batch in batches:
                interaction, scores, positive_u, positive_i = self._plain(batch)
                self._collector.eval_batch_collect(scores, interaction, positive_u, positive_i)
