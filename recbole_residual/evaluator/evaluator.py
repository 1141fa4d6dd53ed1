"""RecBole's Evaluator that also remembers what it has evaluated."""

from __future__ import annotations

import copy
from logging import getLogger
from typing import Any

import torch
from recbole.evaluator.base_metric import AbstractMetric
from recbole.evaluator.collector import DataStruct
from recbole.evaluator.evaluator import Evaluator

_UNROUNDED_PLACES = 15  # as many as a double holds of a share; numpy rounds to no more than that

_LEFT_OUT = {"hrli": "rec.last_rank", "hrl2i": "rec.last_but_one_rank"}


class ResidualEvaluator(Evaluator):
    """RecBole's Evaluator with unrounded results and a count of what was left out.

    Its results are those of RecBole's Evaluator, to the last place.
    """

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self._struct: DataStruct | None = None
        self._told: dict[str, int] = {}

    @property
    def evaluated(self) -> DataStruct:
        """What the last evaluation collected.

        Raises:
            RuntimeError: if there was none.
        """
        if self._struct is None:
            raise RuntimeError("nothing has been evaluated yet: call evaluate first.")
        return self._struct

    def evaluate(self, dataobject: DataStruct) -> dict[str, float]:
        """RecBole's result, rounded to ``metric_decimal_place``.

        Args:
            dataobject: what the collector gathered.
        """
        self._struct = dataobject
        result = super().evaluate(dataobject)
        for metric, count in self.left_out().items():
            if count and self._told.get(metric) != count:
                getLogger().info(
                    "%s: %d sequences have no such input item and are left out.", metric, count
                )
                self._told[metric] = count
        return result

    @property
    def last_unrounded(self) -> dict[str, float]:
        """The result of the last evaluation, to 15 decimal places.

        Raises:
            RuntimeError: if there was none.
        """
        result: dict[str, float] = {}
        for metric in self.metric_class.values():
            result.update(unrounded_metric(metric).calculate_metric(self.evaluated))
        return {key: float(value) for key, value in result.items()}

    def left_out(self) -> dict[str, int]:
        """How many sequences of the last evaluation HRLI and HRL2I leave out.

        They lack the item: too short, or cut off by BERT4Rec's window.

        Raises:
            RuntimeError: if there was no evaluation.
        """
        return {
            metric: int(torch.count_nonzero(self.evaluated.get(name) == 0))
            for metric, name in _LEFT_OUT.items()
            if metric in self.metrics
        }


def unrounded_metric(metric: AbstractMetric) -> AbstractMetric:
    """A copy of a metric that rounds to 15 decimal places."""
    metric = copy.copy(metric)
    metric.decimal_place = _UNROUNDED_PLACES
    return metric
