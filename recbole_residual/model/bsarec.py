"""BSARec, which RecBole does not have, and BSARecResidual.

Reference:
    Shin et al. "An Attentive Inductive Bias for Sequential Recommendation beyond the
    Self-Attention." AAAI 2024.
"""

from __future__ import annotations

from typing import Any

import torch
from recbole.model.sequential_recommender import SASRec
from torch import nn

from recbole_residual.errors import ModelError
from recbole_residual.model.base import ResidualMixin
from recbole_residual.model.registry import register_model


class FrequencyLayer(nn.Module):
    r"""The inductive bias of BSARec: high frequencies of a sequence, rescaled.

    .. math::
        \mathrm{LN}(x + \mathrm{dropout}(\mathrm{LFC}[x] + \beta^2\, \mathrm{HFC}[x]))

    LFC keeps the c lowest components of the Fourier transform along the sequence, HFC is the rest.

    Args:
        hidden_size: D.
        n_components: c; of the components of a real signal all but the first come in pairs, so an
            even c keeps as many as c + 1.
        dropout_prob: dropout of the branch.
        layer_norm_eps: eps of the LayerNorm.
    """

    def __init__(
        self, hidden_size: int, n_components: int, dropout_prob: float, layer_norm_eps: float
    ) -> None:
        super().__init__()
        self.n_kept = n_components // 2 + 1
        self.beta = nn.Parameter(torch.randn(1, 1, hidden_size))
        self.out_dropout = nn.Dropout(dropout_prob)
        self.LayerNorm = nn.LayerNorm(hidden_size, eps=layer_norm_eps)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[B, L, D] -> [B, L, D]; every position depends on every other one."""
        spectrum = torch.fft.rfft(x, dim=1, norm="ortho")
        spectrum[:, self.n_kept :] = 0
        low = torch.fft.irfft(spectrum, n=x.shape[1], dim=1, norm="ortho")
        rescaled = low + self.beta**2 * (x - low)
        return self.LayerNorm(x + self.out_dropout(rescaled))


class _Mixture:
    """Forward hook on an attention block: its output and the frequency layer's, mixed."""

    def __init__(self, frequency: FrequencyLayer, weight: float) -> None:
        self.frequency = frequency
        self.weight = weight

    def __call__(
        self, block: nn.Module, args: tuple[torch.Tensor, ...], output: torch.Tensor
    ) -> torch.Tensor:
        return self.weight * self.frequency(args[0]) + (1 - self.weight) * output


@register_model
class BSARec(SASRec):
    r"""RecBole's SASRec with a frequency layer beside each attention block.

    .. math::
        w\, \mathrm{Frequency}(x) + (1 - w)\, \mathrm{Attention}(x)

    goes into the feed-forward block. The frequency layer reads the whole window, later items and
    padding included, as in the paper: the model is not causal, so it can only be trained on one
    target per row.

    Config keys:
        frequency_weight: w, share of the frequency layer, from 0 to 1.
        frequency_components: c, number of low frequencies.
        and those of RecBole's SASRec.
    """

    def __init__(self, config: Any, dataset: Any) -> None:
        super().__init__(config, dataset)
        weight = config["frequency_weight"]
        if not 0 <= weight <= 1:
            raise ModelError(f"frequency_weight = {weight!r} is not usable: it is from 0 to 1.")
        for layer in self.trm_encoder.layer:
            layer.frequency = FrequencyLayer(
                self.hidden_size,
                config["frequency_components"],
                self.hidden_dropout_prob,
                self.layer_norm_eps,
            )
            layer.multi_head_attention.register_forward_hook(_Mixture(layer.frequency, weight))


@register_model
class BSARecResidual(ResidualMixin, BSARec):
    """BSARec with an inference-time residual factor ``alpha``.

    ``alpha`` scales the residual of the attention block, and mixing ratios speak of that block
    alone. What the frequency layer adds, with a residual of its own, is a term of its own: it is
    in neither the preserving nor the mixing part.

    Config keys:
        alpha: factor of the attention residual at inference, a number or one per layer.
        alpha_train: the same during training and early stopping.
        and those of :class:`BSARec`.
    """

    can_train_at_all_positions = False

    def __init__(self, config: Any, dataset: Any) -> None:
        super().__init__(config, dataset)
        self._init_residual(config)
