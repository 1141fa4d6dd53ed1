"""BERT4RecResidual: BERT4Rec whose attention residual can be scaled at inference.

Reference:
    Sun et al. "BERT4Rec: Sequential Recommendation with Bidirectional Encoder Representations from
    Transformer." CIKM 2019.
"""

from __future__ import annotations

from typing import Any

import torch
from recbole.data.interaction import Interaction
from recbole.model.sequential_recommender import BERT4Rec

from recbole_residual.model.architecture.positions import last_valid_position
from recbole_residual.model.architecture.score import item_vectors
from recbole_residual.model.base import ResidualMixin
from recbole_residual.model.controls import check_choice
from recbole_residual.model.loss import linear_cross_entropy, pairwise_loss
from recbole_residual.model.objective import negative_list_field, target_list_field
from recbole_residual.model.registry import register_model

MASK_POSITION = ("after_last", "recbole")


@register_model
class BERT4RecResidual(ResidualMixin, BERT4Rec):
    """RecBole's BERT4Rec with an inference-time residual factor ``alpha``.

    It predicts at a [MASK] behind the last item, so a mixing ratio at its last position is that of
    [MASK] and does not speak of the last item.

    With ``loss_positions: last`` training is RecBole's: its rows, its ``mask_itemseq`` transform,
    its loss. With ``all`` a row is a user's sequence with its last training target, masked anew in
    every epoch without a loop; the loss is the mean over all masked positions (RecBole's leaves out
    a masked first position, and the oldest ones if more than ``mask_ratio * MAX_ITEM_LIST_LENGTH``
    are masked).

    Config keys:
        alpha: factor of the attention residual at inference, a number or one per layer.
        alpha_train: the same during training and early stopping.
        mask_position: ``after_last`` puts [MASK] right behind the last item and cuts nothing off a
            history of fewer than ``MAX_ITEM_LIST_LENGTH`` items (a longer one loses its oldest).
            ``recbole`` drops the oldest item of every history, as RecBole does, so that one of a
            single item becomes empty.
        mask_ratio: share of items that are masked.
        ft_ratio: share of sequences in which only the last item is masked.
        and those of RecBole's BERT4Rec.
    """

    def __init__(self, config: Any, dataset: Any) -> None:
        super().__init__(config, dataset)
        self.mask_position = check_choice("mask_position", config["mask_position"], MASK_POSITION)
        self.ft_ratio = config["ft_ratio"]
        self._init_residual(config)

    # Inference ---------------------------------------------------------------------------------

    def reconstruct_test_data(
        self, item_seq: torch.Tensor, item_seq_len: torch.Tensor
    ) -> torch.Tensor:
        """RecBole's window, without its loop: [MASK] behind the last item, the first column gone.

        Args:
            item_seq: item ids, padded with 0 at the end, [B, L].
            item_seq_len: number of items, [B].

        Returns:
            torch.Tensor: [B, L], [MASK] in column ``item_seq_len - 1``.
        """
        longer = torch.nn.functional.pad(item_seq, (0, 1))
        return longer.scatter(1, item_seq_len.unsqueeze(1), self.mask_token)[:, 1:]

    def _with_room(self, interaction: Any) -> Any:
        """Histories that leave room for [MASK] moved up by one: RecBole then drops a 0."""
        if self.mask_position == "recbole":
            return interaction
        item_seq, item_seq_len = interaction[self.ITEM_SEQ], interaction[self.ITEM_SEQ_LEN]
        if item_seq.shape[1] < self.max_seq_length:  # a batch that was trimmed
            item_seq = torch.nn.functional.pad(item_seq, (0, 1))
        has_room = item_seq_len < item_seq.shape[1]
        moved = item_seq.roll(1, dims=1)  # the last column is 0 where there is room
        columns = dict(interaction.interaction)
        columns[self.ITEM_SEQ] = torch.where(has_room.unsqueeze(1), moved, item_seq)
        columns[self.ITEM_SEQ_LEN] = item_seq_len + has_room
        return Interaction(columns)

    def predict(self, interaction: Any) -> torch.Tensor:
        return super().predict(self._with_room(interaction))

    def full_sort_predict(self, interaction: Any) -> torch.Tensor:
        return super().full_sort_predict(self._with_room(interaction))

    def all_positions(self, item_seq: torch.Tensor, item_seq_len: torch.Tensor) -> torch.Tensor:
        """The output representation at every position of ``item_seq`` as it is, [B, L, D]."""
        return self.forward(item_seq)

    # Training ----------------------------------------------------------------------------------

    def calculate_loss(self, interaction: Any) -> torch.Tensor:
        """RecBole's loss on RecBole's masked rows; the masked loss on whole sequences."""
        if target_list_field(self.ITEM_SEQ) in interaction:
            return self._masked_loss(interaction)
        return super().calculate_loss(interaction)

    def _masked_loss(self, interaction: Any) -> torch.Tensor:
        item_seq, targets = (
            interaction[self.ITEM_SEQ],
            interaction[target_list_field(self.ITEM_SEQ)],
        )
        too_long = interaction[self.ITEM_SEQ_LEN] >= self.max_seq_length
        whole = self._with_last_target(item_seq[:, :1], targets, too_long)
        maskable = whole > 0
        if self.loss_type == "BPR":
            drawn = interaction[negative_list_field(self.ITEM_SEQ, self.neg_prefix)]
            negatives = self._with_last_target(torch.zeros_like(drawn[:, :1]), drawn, too_long)
            # a first item was never a target: it has no negatives
            maskable &= negatives[..., 0] > 0
        chosen = mask_at_random(maskable, self.mask_ratio, self.ft_ratio)
        self.n_drawn_targets = chosen.sum()
        hidden = self.forward(whole.masked_fill(chosen, self.mask_token))
        # the output bias is one more dimension, in which every position is 1
        hidden = torch.nn.functional.pad(hidden[chosen], (0, 1), value=1.0)
        weight = item_vectors(self)
        weight = torch.cat([weight, self.output_bias.unsqueeze(1)], dim=1)
        if self.loss_type == "BPR":
            return pairwise_loss(hidden, weight, whole[chosen], negatives[chosen])
        return linear_cross_entropy(hidden, weight, whole[chosen], self.logits_chunk)

    def _with_last_target(
        self, first: torch.Tensor, following: torch.Tensor, too_long: torch.Tensor
    ) -> torch.Tensor:
        """The first column and all following ones; rows that are longer than the model's window
        lose the first, [B, 1, ...] and [B, L, ...] to [B, L + 1 or L, ...]."""
        whole = torch.cat([first, following], dim=1)
        if whole.shape[1] <= self.max_seq_length:
            return whole
        shape = (-1, *[1] * (whole.dim() - 1))
        return torch.where(too_long.view(shape), following, whole[:, :-1])


def mask_at_random(maskable: torch.Tensor, mask_ratio: float, ft_ratio: float) -> torch.Tensor:
    """Choose the positions that [MASK] takes, for all sequences at once.

    Args:
        maskable: positions that may be chosen, at least one in each row, bool [B, L].
        mask_ratio: probability with which each of them is chosen.
        ft_ratio: probability with which a sequence has its last one chosen and no other, as at
            inference. So has a sequence in which chance has chosen none.

    Returns:
        torch.Tensor: bool, at least one in each row, [B, L].
    """
    chosen = maskable & (torch.rand(maskable.shape, device=maskable.device) < mask_ratio)
    only_last = torch.rand(len(maskable), 1, device=maskable.device) < ft_ratio
    only_last |= ~chosen.any(dim=1, keepdim=True)
    last = torch.zeros_like(maskable).scatter_(1, last_valid_position(maskable).unsqueeze(1), True)
    return torch.where(only_last, last, chosen)
