"""RecoveryRate: targets that the last position misses, an earlier one finds, and alpha recovers.

Reference:
    Kozaki et al. "Residual Dominance as a Structural Account of Last-Item Reliance in Causal
    Self-Attention Recommenders", 2026 (recovery).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from recbole.evaluator.collector import DataStruct

from recbole_residual.evaluator import base_metric

OFFSETS = (0, 1, 2, 3)
"""Positions whose ranking is read, counted back from the last: the columns of
``rec.position_rank``."""


class RecoveryRate(base_metric.SequenceMetric):
    r"""RecoveryRate@k: the share of the recoverable base that is a hit under the alpha in force.

    With hit_o = the target is in the top k of the ranking read at position L - o at alpha = 1, the
    recoverable base holds the sequences with not hit_0 and (hit_1 or hit_2 or hit_3); a sequence
    of length o or less has no hit_o. The rate at alpha = 1 is 0 by definition. Greater is better.

    ``recoverybase@k`` is the size of the base. An empty base has the rate NaN beside its size 0.

    Example:
        >>> import torch
        >>> data = DataStruct()
        >>> data.set("rec.position_rank", torch.tensor([[9, 1, 0, 0], [8, 7, 7, 2], [1, 1, 1, 1]]))
        >>> data.set("rec.target_rank", torch.tensor([3, 6, 1]))
        >>> RecoveryRate({"topk": [5], "metric_decimal_place": 4}).calculate_metric(data)
        {'recoveryrate@5': 0.5, 'recoverybase@5': 2}
    """

    metric_need = ["rec.target_rank", "rec.position_rank"]

    @classmethod
    def result_keys(cls, topk: Sequence[int], model: Any = None) -> list[str]:
        """The rate and the size of its base for every k."""
        return [f"{name}@{k}" for name in ("recoveryrate", "recoverybase") for k in topk]

    def per_sequence(self, dataobject: DataStruct) -> dict[str, np.ndarray]:
        """1 for a sequence of the base that is recovered, 0 for one that is not, NaN outside."""
        target_rank = dataobject.get("rec.target_rank").numpy()
        position_rank = dataobject.get("rec.position_rank").numpy()
        values = {}
        for k in self.topk:
            hit = (position_rank > 0) & (position_rank <= k)
            base = ~hit[:, 0] & hit[:, 1:].any(axis=1)
            values[f"recoveryrate@{k}"] = np.where(base, (target_rank <= k).astype(float), np.nan)
        return values

    def calculate_metric(self, dataobject: DataStruct) -> Mapping[str, float]:
        """The rates, then the sizes of their bases."""
        rates = self.per_sequence(dataobject)
        result = dict(super().calculate_metric(dataobject))
        for k, values in zip(self.topk, rates.values()):
            result[f"recoverybase@{k}"] = int((~np.isnan(values)).sum())
        return result
