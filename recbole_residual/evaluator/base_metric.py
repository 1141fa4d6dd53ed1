"""What this package's metrics share: one value per evaluated sequence, then their mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from recbole.evaluator.base_metric import AbstractMetric
from recbole.evaluator.collector import DataStruct
from recbole.utils import EvaluatorType


def mean_of_defined(values: np.ndarray) -> float:
    """Mean over the entries that are not NaN; NaN if there is none.

    Example:
        >>> mean_of_defined(np.array([1.0, np.nan, 0.0]))
        0.5
        >>> mean_of_defined(np.array([]))
        nan
    """
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if len(defined) else float("nan")


class SequenceMetric(AbstractMetric):
    """Base of a RANKING metric that has one value per evaluated sequence.

    A sequence for which the metric is not defined has NaN and is left out of the mean. With no
    sequence left the result is NaN.

    Config keys:
        topk: the values of k.
        metric_decimal_place: to how many places RecBole's results are rounded.
    """

    metric_type = EvaluatorType.RANKING
    metric_need: list[str] = []

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.topk = config["topk"]

    @classmethod
    def result_keys(cls, topk: Sequence[int], model: Any = None) -> list[str]:
        """The keys that this metric will have in RecBole's result.

        Args:
            topk: the values of k.
            model: the model or its class, for metrics whose keys depend on it.
        """
        return [f"{cls.__name__.lower()}@{k}" for k in topk]

    def per_sequence(self, dataobject: DataStruct) -> dict[str, np.ndarray]:
        """One value per evaluated sequence, in the order of the evaluation.

        Args:
            dataobject: what the collector gathered.

        Returns:
            For each key of the result an array [n_sequences], NaN where it is not defined.
        """
        raise NotImplementedError

    def calculate_metric(self, dataobject: DataStruct) -> Mapping[str, float]:
        """RecBole's interface: the rounded result, by key."""
        return {
            key: round(mean_of_defined(values), self.decimal_place)
            for key, values in self.per_sequence(dataobject).items()
        }
