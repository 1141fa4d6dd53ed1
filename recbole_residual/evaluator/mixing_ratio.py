"""MixingRatio: how much a position takes from others, next to what it keeps of itself.

Reference:
    Kobayashi et al. "Incorporating Residual and Normalization Layers into Analysis of Masked
    Language Models." EMNLP 2021 (norm-based mixing ratio).
    Kozaki et al. "Residual Dominance as a Structural Account of Last-Item Reliance in Causal
    Self-Attention Recommenders", 2026.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from recbole.evaluator.collector import DataStruct

from recbole_residual.decomposition.stages import stages_of
from recbole_residual.evaluator import base_metric


def _keys(stages: Sequence[str]) -> list[str]:
    return [f"mixingratio_{stage}{at}" for at in ("", "_last") for stage in stages]


class MixingRatio(base_metric.SequenceMetric):
    r"""The mixing ratio of the attention block, by stage, under the alpha in force.

    .. math::
        r_i = \frac{\lVert m_i \rVert}{\lVert m_i \rVert + \lVert p_i \rVert}

    with m what position i takes from the others and p what it keeps of itself. Keys:
    ``mixingratio_attn``, ``mixingratio_res`` and ``mixingratio_ln`` are means over all valid
    positions of all sequences and over layers; the same with ``_last`` over last positions and
    layers. Greater is better: a position aggregates others instead of keeping itself.

    GRU4RecResidual has one stage of its own in their place: ``mixingratio_gate``. A model that
    names other stages in ``mixing_stages`` has those.

    For BERT4Rec the last position holds [MASK]; its ratio does not speak of the last item.

    Example:
        >>> import torch
        >>> data = DataStruct()
        >>> data.set("rec.mixing_stages", ("attn", "res", "ln"))
        >>> data.set("rec.mixing_ratio", torch.tensor([[0.8, 0.3, 0.3], [0.5, 0.0, 0.0]]))
        >>> data.set("rec.mixing_ratio_last", torch.tensor([[0.9, 0.4, 0.4], [0.7, 0.2, 0.2]]))
        >>> data.set("rec.mixing_positions", torch.tensor([2, 1]))
        >>> result = MixingRatio({"topk": [1], "metric_decimal_place": 3}).calculate_metric(data)
        >>> result["mixingratio_attn"], result["mixingratio_res_last"]
        (0.7, 0.3)
    """

    metric_need = [
        "rec.mixing_stages",
        "rec.mixing_ratio",
        "rec.mixing_ratio_last",
        "rec.mixing_positions",
    ]

    @classmethod
    def result_keys(cls, topk: Sequence[int], model: Any = None) -> list[str]:
        """Two keys per stage, whatever k."""
        return _keys(stages_of(model))

    def per_sequence(self, dataobject: DataStruct) -> dict[str, np.ndarray]:
        """Mean over a sequence's positions and layers, and the last position's over layers."""
        columns = np.concatenate(
            [
                dataobject.get(name).numpy()
                for name in ("rec.mixing_ratio", "rec.mixing_ratio_last")
            ],
            axis=1,
        )
        return dict(zip(_keys(dataobject.get("rec.mixing_stages")), columns.T))

    def calculate_metric(self, dataobject: DataStruct) -> Mapping[str, float]:
        """Means over positions: a long sequence weighs more than a short one, except at last."""
        positions = dataobject.get("rec.mixing_positions").numpy()
        result = {}
        for key, values in self.per_sequence(dataobject).items():
            weights = np.ones_like(positions) if key.endswith("_last") else positions
            total = weights.sum()
            mean = float((values * weights).sum() / total) if total else float("nan")
            result[key] = round(mean, self.decimal_place)
        return result
