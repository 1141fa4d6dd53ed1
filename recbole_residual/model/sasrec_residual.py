"""SASRecResidual: SASRec whose attention residual can be scaled at inference.

Reference:
    Kang and McAuley. "Self-Attentive Sequential Recommendation." ICDM 2018.
    Kozaki et al. "Residual Dominance as a Structural Account of Last-Item Reliance in Causal
    Self-Attention Recommenders", 2026.
"""

from __future__ import annotations

from typing import Any

from recbole.model.sequential_recommender import SASRec

from recbole_residual.model.base import ResidualMixin
from recbole_residual.model.registry import register_model


@register_model
class SASRecResidual(ResidualMixin, SASRec):
    """RecBole's SASRec with an inference-time residual factor ``alpha``.

    With ``alpha = 1`` its scores are those of RecBole's SASRec with the same weights, bit for bit.

    Config keys:
        alpha: factor of the attention residual at inference, a number or one per layer.
        alpha_train: the same during training and early stopping.
        and those of RecBole's SASRec.
    """

    def __init__(self, config: Any, dataset: Any) -> None:
        super().__init__(config, dataset)
        self._init_residual(config)
