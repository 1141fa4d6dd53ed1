"""HRLI and HRL2I: how often a model's own ranking holds an item that it has just been given.

Reference:
    Kozaki et al. "Residual Dominance as a Structural Account of Last-Item Reliance in Causal
    Self-Attention Recommenders", 2026 (last-item metrics).
"""

from __future__ import annotations

import numpy as np
from recbole.evaluator.collector import DataStruct

from recbole_residual.evaluator import base_metric


def hits(ranks: np.ndarray, k: int) -> np.ndarray:
    """1.0 where the rank is at most k, 0.0 where it is above, NaN where there is none (rank 0).

    Example:
        >>> hits(np.array([1, 7, 0]), 5)
        array([ 1.,  0., nan])
    """
    return np.where(ranks > 0, (ranks <= k).astype(float), np.nan)


class HRLI(base_metric.SequenceMetric):
    r"""HRLI@k, hit rate of the last item: the share of evaluated sequences whose last input item
    is in the top k of the model's ranking of the whole catalogue, history not masked.

    .. math::
        \mathrm{HRLI@}k = \frac{1}{|S|} \sum_{s \in S} [\operatorname{rank}_s(s_L) \le k]

    A rank is 1 + the number of items with a strictly higher score. Smaller is better: a model
    that leans less on the last item. Sequences without a last input item (BERT4Rec's window can
    cut it off) are left out; if all are, the result is NaN.

    Example:
        >>> import torch
        >>> data = DataStruct()
        >>> data.set("rec.last_rank", torch.tensor([1, 12, 0, 4]))
        >>> HRLI({"topk": [1, 10], "metric_decimal_place": 4}).calculate_metric(data)
        {'hrli@1': 0.3333, 'hrli@10': 0.6667}
    """

    smaller = True
    metric_need = ["rec.last_rank"]

    def per_sequence(self, dataobject: DataStruct) -> dict[str, np.ndarray]:
        """1 where the item is in the top k, else 0; NaN for a sequence without such an item."""
        ranks = dataobject.get(self.metric_need[0]).numpy()
        return {key: hits(ranks, k) for key, k in zip(self.result_keys(self.topk), self.topk)}


class HRL2I(HRLI):
    r"""HRL2I@k: the same as :class:`HRLI` for the last but one input item.

    Sequences with fewer than two input items are left out. Smaller is better.

    Example:
        >>> import torch
        >>> data = DataStruct()
        >>> data.set("rec.last_but_one_rank", torch.tensor([0, 2]))
        >>> HRL2I({"topk": [1, 10], "metric_decimal_place": 4}).calculate_metric(data)
        {'hrl2i@1': 0.0, 'hrl2i@10': 1.0}
    """

    metric_need = ["rec.last_but_one_rank"]
