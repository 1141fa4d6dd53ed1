"""Training sequences that are followed by the same item, found without a loop.

Reference:
    Qiu et al. "Contrastive Learning for Representation Degeneration Problem in Sequential
    Recommendation." WSDM 2022 (supervised augmentation).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch


class ItemSequences(NamedTuple):
    """Histories ``item_seq`` [B, L], padded with 0 at the end, and their lengths [B]."""

    item_seq: torch.Tensor
    item_seq_len: torch.Tensor


class SameTarget:
    """Draws, for sequences of a batch, other training sequences with the same target.

    The rows of the training data are sorted by target once, at the first draw; a draw is then two
    look-ups.

    Args:
        dataset: the training part: this package's or RecBole's sequential dataset.
        target: field of the target, such as ``item_id``.
        item_seq: field of the history, such as ``item_id_list``.
        item_seq_len: field of its length.
    """

    def __init__(self, dataset: Any, target: str, item_seq: str, item_seq_len: str) -> None:
        self._dataset = dataset
        self._target, self._item_seq, self._item_seq_len = target, item_seq, item_seq_len
        self._rows: torch.Tensor | None = None
        self._begin = torch.zeros(0)
        self._count = torch.zeros(0)

    def _sort(self) -> torch.Tensor:
        targets = self._dataset.inter_feat[self._target]
        self._count = torch.bincount(targets, minlength=self._dataset.num(self._target))
        self._begin = self._count.cumsum(0) - self._count
        return torch.argsort(targets, stable=True)

    def draw(
        self, target: torch.Tensor, item_seq: torch.Tensor, item_seq_len: torch.Tensor
    ) -> ItemSequences:
        """One other sequence with the same target for each sequence, all equally likely.

        Args:
            target: the item that follows each sequence, [B].
            item_seq: the sequences, padded with 0 at the end, [B, L].
            item_seq_len: their lengths, [B].

        Returns:
            ItemSequences: the drawn ones; where no other sequence has the same target, the sequence
            itself.
        """
        if self._rows is None:
            self._rows = self._sort()
        device = item_seq.device
        target, item_seq, item_seq_len = target.cpu(), item_seq.cpu(), item_seq_len.cpu()
        count = self._count[target]
        rank = _below(count)
        drawn, length = self._look_up(target, rank)
        # who drew itself draws again among the others: each of them had the same chance before
        width = max(drawn.shape[1], item_seq.shape[1])
        padded = torch.nn.functional.pad(item_seq, (0, width - item_seq.shape[1]))
        itself = ((drawn == padded).all(dim=1) & (count > 1)).nonzero().squeeze(1)
        others = count[itself]
        rank = (rank[itself] + 1 + _below(others - 1)) % others
        drawn[itself], length[itself] = self._look_up(target[itself], rank)
        return ItemSequences(drawn.to(device), length.to(device))

    def _look_up(self, target: torch.Tensor, rank: torch.Tensor) -> ItemSequences:
        assert self._rows is not None
        rows = self._dataset.inter_feat[self._rows[self._begin[target] + rank]]
        return ItemSequences(rows[self._item_seq], rows[self._item_seq_len])


def _below(bound: torch.Tensor) -> torch.Tensor:
    """A random whole number from 0 to ``bound - 1`` for each bound of at least 1."""
    drawn = torch.rand(len(bound), dtype=torch.float64) * bound
    return drawn.long().clamp(max=bound - 1)
