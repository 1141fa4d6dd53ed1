"""DuoRec, which RecBole does not have, and DuoRecResidual.

Reference:
    Qiu et al. "Contrastive Learning for Representation Degeneration Problem in Sequential
    Recommendation." WSDM 2022.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from recbole.model.sequential_recommender import SASRec

from recbole_residual.model.architecture.positions import last_valid_position
from recbole_residual.model.contrast_sampler import ItemSequences, SameTarget
from recbole_residual.model.controls import check_choice
from recbole_residual.model.fast_forward import Packing, can_run_fast, packed_positions
from recbole_residual.model.objective import target_list_field
from recbole_residual.model.registry import register_model
from recbole_residual.model.sasrec_residual import SASRecResidual

CONTRAST = ("us", "un", "su")
SIM = ("dot", "cos")


def info_nce(first: torch.Tensor, second: torch.Tensor, tau: float, sim: str) -> torch.Tensor:
    """InfoNCE over a batch of pairs.

    Row i of ``first`` and row i of ``second`` are each other's positive; the other 2B - 2 vectors
    of the batch are negatives of both.

    Args:
        first: one vector of each pair, [B, D].
        second: the other one, [B, D].
        tau: temperature.
        sim: ``dot`` or ``cos``.

    Returns:
        torch.Tensor: scalar, the mean over the 2B vectors.

    Example:
        >>> pair = torch.eye(2)
        >>> round(info_nce(pair, pair, 1.0, "dot").item(), 4)  # -log(e / (e + 1 + 1))
        0.5514
    """
    both = torch.cat([first, second])
    if sim == "cos":
        both = F.normalize(both, dim=-1)
    logits = torch.matmul(both, both.t()) / tau
    logits = logits.masked_fill(
        torch.eye(len(both), dtype=torch.bool, device=both.device), -torch.inf
    )
    positive = torch.arange(len(both), device=both.device).roll(len(first))
    return F.cross_entropy(logits, positive)


@register_model
class DuoRec(SASRec):
    r"""RecBole's SASRec with two contrastive losses.

    .. math::
        L = L_{rec} + \lambda\, \mathrm{NCE}(h, h') + \lambda_{sem}\, \mathrm{NCE}(h, h_s)

    with h and h' the representations of a sequence under two draws of dropout and h_s that of
    another sequence with the same target, drawn at random (the sequence itself if there is none).

    Config keys:
        lmd: weight of the unsupervised contrast.
        lmd_sem: weight of the supervised contrast.
        contrast: ``us`` for both, ``un`` for the unsupervised, ``su`` for the supervised one only.
        tau: temperature.
        sim: ``dot`` or ``cos``.
        and those of RecBole's SASRec.
    """

    def __init__(self, config: Any, dataset: Any) -> None:
        super().__init__(config, dataset)
        contrast = check_choice("contrast", config["contrast"], CONTRAST)
        self.lmd = 0.0 if contrast == "su" else config["lmd"]
        self.lmd_sem = 0.0 if contrast == "un" else config["lmd_sem"]
        self.tau = config["tau"]
        self.sim = check_choice("sim", config["sim"], SIM)
        self._same_target = SameTarget(
            dataset, target=self.POS_ITEM_ID, item_seq=self.ITEM_SEQ, item_seq_len=self.ITEM_SEQ_LEN
        )

    def calculate_loss(self, interaction: Any) -> torch.Tensor:
        """The recommendation loss plus both contrasts, [1]."""
        loss = super().calculate_loss(interaction)
        if self.lmd == 0 and self.lmd_sem == 0:
            return loss
        item_seq, item_seq_len = interaction[self.ITEM_SEQ], interaction[self.ITEM_SEQ_LEN]
        anchor = ItemSequences(item_seq, item_seq_len)
        views = [anchor]
        if self.lmd != 0:
            views.append(anchor)
        if self.lmd_sem != 0:
            target = self._last_target(interaction)
            views.append(self._same_target.draw(target, item_seq, item_seq_len))
        represented, *others = self._represent(views)
        weights = [weight for weight in (self.lmd, self.lmd_sem) if weight != 0]
        for weight, other in zip(weights, others):
            loss = loss + weight * info_nce(represented, other, self.tau, self.sim)
        return loss

    def _last_target(self, interaction: Any) -> torch.Tensor:
        """The item that follows each sequence, [B]."""
        field = target_list_field(self.ITEM_SEQ)
        if field not in interaction:
            return interaction[self.POS_ITEM_ID]
        last = last_valid_position(interaction[self.ITEM_SEQ] > 0)
        return interaction[field].gather(1, last.unsqueeze(1)).squeeze(1)

    def _represent(self, views: list[ItemSequences]) -> list[torch.Tensor]:
        """Representations at the last position of several batches of B sequences, each [B, D], from
        one forward with a dropout of its own for each."""
        width = max(item_seq.shape[1] for item_seq, _ in views)
        item_seq = torch.cat([F.pad(seq, (0, width - seq.shape[1])) for seq, _ in views])
        item_seq_len = torch.cat([length for _, length in views])
        if can_run_fast(self):
            hidden = packed_positions(self, item_seq, Packing(item_seq))
            last = hidden[item_seq_len.cumsum(0) - 1]
        else:
            last = self.forward(item_seq, item_seq_len)
        return list(last.chunk(len(views)))


@register_model
class DuoRecResidual(DuoRec, SASRecResidual):
    """DuoRec with the inference-time residual factor ``alpha`` and the controls of SASRecResidual.

    With ``lmd = lmd_sem = 0`` it is SASRecResidual, its training included.

    With ``loss_positions: all`` the recommendation loss is that of SASRecResidual at every
    position, and each sequence of the batch enters the contrasts once, with its last position; the
    supervised contrast draws from all training sequences that end before the same item.

    Config keys:
        those of :class:`DuoRec` and of :class:`SASRecResidual`.
    """
