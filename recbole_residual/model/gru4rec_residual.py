"""GRU4RecResidual: GRU4Rec with an added skip from the item embedding to the output.

Reference:
    Tan et al. "Improved Recurrent Neural Networks for Session-based Recommendations." DLRS 2016.
    Kozaki et al. "Residual Dominance as a Structural Account of Last-Item Reliance in Causal
    Self-Attention Recommenders", 2026.
"""

from __future__ import annotations

from typing import Any

import torch
from recbole.model.sequential_recommender import GRU4Rec
from torch import nn

from recbole_residual.model.architecture.residuals import AddedSkip
from recbole_residual.model.base import ResidualMixin
from recbole_residual.model.registry import register_model


@register_model
class GRU4RecResidual(ResidualMixin, GRU4Rec):
    """RecBole's GRU4Rec with the skip that a transformer has and a GRU has not.

    Its output at every position is ``dense(GRU(x)) + alpha * x`` with ``x`` the item embedding, and
    with ``alpha = 0``, the default, it is RecBole's GRU4Rec, bit for bit. It has no attention: in
    the place of the three stages its decomposition knows one, ``gate``.

    Config keys:
        alpha: factor of the added skip at inference, a number.
        alpha_train: the same during training and early stopping.
        and those of RecBole's GRU4Rec.
    """

    mixing_stages = ("gate",)
    """What its mixing ratios are called, in the place of those of attention."""

    def __init__(self, config: Any, dataset: Any) -> None:
        super().__init__(config, dataset)
        self.skip = AddedSkip()
        self._skipped: torch.Tensor | None = None
        self.emb_dropout.register_forward_hook(self._keep_embedding)
        self.dense.register_forward_hook(self._add_embedding)
        self._init_residual(config)

    def _keep_embedding(self, module: nn.Module, args: Any, output: torch.Tensor) -> None:
        self._skipped = output

    def _add_embedding(self, module: nn.Module, args: Any, output: torch.Tensor) -> torch.Tensor:
        skipped, self._skipped = self._skipped, None
        assert skipped is not None
        return self.skip(output, skipped)
