"""SASRecResidual: SASRec whose attention residual can be scaled at inference.

Reference:
    Kang and McAuley. "Self-Attentive Sequential Recommendation." ICDM 2018.
    Kozaki et al. "Residual Dominance as a Structural Account of Last-Item Reliance in Causal
    Self-Attention Recommenders", 2026.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from recbole.model.sequential_recommender import SASRec
from torch.utils.hooks import RemovableHandle

from recbole_residual.model import controls
from recbole_residual.model.architecture.blocks import attention_blocks
from recbole_residual.model.base import ResidualMixin
from recbole_residual.model.ligr import apply_ligr
from recbole_residual.model.mass_attention import apply_attention_norm, norm_order
from recbole_residual.model.registry import register_model
from recbole_residual.model.sampled_loss import SAMPLED_LOSSES, ParentConfig, SampledLoss
from recbole_residual.model.switches import hook_uniform_attention

BLOCK = (*controls.NORM, "ligr")
"""Values of the config key ``block``."""


@register_model
class SASRecResidual(ResidualMixin, SASRec):
    """RecBole's SASRec with an inference-time residual factor ``alpha``.

    With ``alpha = 1`` and the controls at their first value its scores are those of RecBole's
    SASRec with the same weights, bit for bit.

    Config keys:
        alpha: factor of the residual at inference, a number or one per layer.
        alpha_train: the same during training and early stopping.
        residual: ``attention``, or ``attention+ffn``: ``alpha`` scales the residual around the
            feed-forward block as well.
        attention: ``learned``, or ``uniform``: at inference every position averages its valid
            prefix. Training and early stopping always learn the weights; SASRecUniform does not.
        position: ``learned``, ``none`` or ``rotary``, in training and at inference.
        norm: ``post`` or ``pre`` (see :class:`~recbole_residual.model.controls.PreNorm`), in
            training and at inference.
        block: ``ligr`` for gated residual blocks (see :mod:`~recbole_residual.model.ligr`);
            ``post`` and ``pre`` are those of ``norm``, which decides by default.
        attention_norm_p: 1 is softmax; more lets repeated evidence grow the output of attention
            (see :mod:`~recbole_residual.model.mass_attention`), in training and at inference.
        loss_type: ``CE``, ``BPR``, ``SSM`` or ``gBCE``
            (see :mod:`~recbole_residual.model.sampled_loss`).
        num_negatives, negative_sampling, gbce_t: of the last two.
        and those of RecBole's SASRec.
    """

    own_losses = SAMPLED_LOSSES
    """Values of ``loss_type`` beside RecBole's."""
    attention_choices: tuple[str, ...] = controls.ATTENTION
    """Values that :attr:`attention` takes."""
    attention_in_training = "learned"
    """The attention weights in training and early stopping, whatever :attr:`attention` says."""

    def __init__(self, config: Any, dataset: Any) -> None:
        super().__init__(ParentConfig(config), dataset)
        self.loss_type = config["loss_type"]
        if self.loss_type in SAMPLED_LOSSES:
            self.sampled_loss = SampledLoss(config, dataset, self.n_items, self.ITEM_ID)
        self._uniform: list[RemovableHandle] = []
        controls.apply_position(self, config["position"])
        norm = controls.check_choice("norm", config["norm"], controls.NORM)
        self.block = controls.check_choice("block", config["block"] or norm, BLOCK)
        if self.block == "ligr":
            apply_ligr(self)
        else:
            controls.apply_norm(self, self.block)
        order = config["attention_norm_p"]
        apply_attention_norm(self, 1 if order is None else order)
        residual = controls.check_choice("residual", config["residual"], controls.RESIDUAL)
        self.alpha_scales_feed_forward = residual == "attention+ffn"
        self._init_residual(config)
        self.attention = config["attention"]

    @property
    def attention_norm_p(self) -> float:
        """Order of the norm that divides the attention weights; 1 is softmax."""
        return norm_order(attention_blocks(self)[0])

    @property
    def attention(self) -> str:
        """``learned`` or ``uniform``: the weights of every attention block, at inference."""
        return "uniform" if self._uniform else "learned"

    @attention.setter
    def attention(self, value: str) -> None:
        value = controls.check_choice("attention", value, self.attention_choices)
        handles = hook_uniform_attention(self) if value == "uniform" else []
        for handle in self._uniform:
            handle.remove()
        self._uniform = handles

    @contextmanager
    def as_trained(self) -> Iterator[None]:
        at_inference = self.attention
        self.attention = self.attention_in_training
        try:
            with super().as_trained():
                yield
        finally:
            self.attention = at_inference
