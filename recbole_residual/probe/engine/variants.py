"""Sequences changed at a few of their latest positions, and the ways to change them."""

from __future__ import annotations

from dataclasses import dataclass

import torch

ABLATIONS = ("delete", "mask", "replace")
"""How an item is taken out: the rest moves up; its key is hidden from every query; another item of
the catalogue stands in its place."""


@dataclass(frozen=True)
class Recent:
    """The latest positions of some sequences, apart from what comes before them.

    Position t of the window is position ``prefix_len + t`` of the sequence.

    Attributes:
        item_seq: the whole sequences, padded with 0 at the end, [B, L].
        prefix_len: number of items before the window, [B].
        items: items in the window, aligned at its beginning, [B, T].
        lengths: number of items in the window, at least 1, [B].
        others: for each of them another item, to put in its place, [B, T].
    """

    item_seq: torch.Tensor
    prefix_len: torch.Tensor
    items: torch.Tensor
    lengths: torch.Tensor
    others: torch.Tensor

    @classmethod
    def of(cls, item_seq: torch.Tensor, item_seq_len: torch.Tensor, others: torch.Tensor) -> Recent:
        """The windows of the last T positions.

        Args:
            item_seq: [B, L].
            item_seq_len: [B].
            others: another item for each position, counted back from the last one, [B, T].
        """
        n_recent = others.shape[1]
        prefix_len = (item_seq_len - n_recent).clamp(min=0)
        lengths = item_seq_len - prefix_len
        place = torch.arange(n_recent, device=item_seq.device)
        at = (prefix_len.unsqueeze(1) + place).clamp(max=item_seq.shape[1] - 1)
        valid = place < lengths.unsqueeze(1)
        offset = (lengths.unsqueeze(1) - 1 - place).clamp(min=0)
        return cls(
            item_seq=item_seq,
            prefix_len=prefix_len,
            items=item_seq.gather(1, at) * valid,
            lengths=lengths,
            others=others.gather(1, offset) * valid,
        )

    @property
    def offsets(self) -> torch.Tensor:
        """Distance of each place of the window from the last item, negative behind it, [B, T]."""
        place = torch.arange(self.items.shape[1], device=self.items.device)
        return self.lengths.unsqueeze(1) - 1 - place


@dataclass(frozen=True)
class Variants:
    """V versions of the window of each of B sequences.

    Attributes:
        items: items, aligned at the beginning, [B, V, T].
        lengths: how many of them there are, at least 1, [B, V].
        hidden: places whose key no query sees, [B, V, T]; None for none.
        source: place in the window that each item comes from, [B, V, T]; None if each stays.
    """

    items: torch.Tensor
    lengths: torch.Tensor
    hidden: torch.Tensor | None = None
    source: torch.Tensor | None = None


def unchanged(recent: Recent) -> Variants:
    """One version: the window as it is."""
    return Variants(recent.items.unsqueeze(1), recent.lengths.unsqueeze(1))


def without_each(recent: Recent, ablation: str) -> Variants:
    """One version per place, counted back from the last item, without the item there.

    Where a sequence has no such item, or would have none left, the version is the window as it is
    and :func:`has_ablation` says so.

    Args:
        recent: the windows.
        ablation: one of :data:`ABLATIONS`.

    Returns:
        Variants: version v is without the item at L - v, [B, T, T].
    """
    n_recent = recent.items.shape[1]
    offset = torch.arange(n_recent, device=recent.items.device)
    taken = recent.offsets.unsqueeze(1) == offset.view(1, -1, 1)  # [B, V, T]
    taken &= has_ablation(recent, ablation).unsqueeze(2)
    items = recent.items.unsqueeze(1).expand(-1, n_recent, -1)
    lengths = recent.lengths.unsqueeze(1).expand(-1, n_recent)
    if ablation == "mask":
        return Variants(items, lengths, taken)
    if ablation == "replace":
        return Variants(torch.where(taken, recent.others.unsqueeze(1), items), lengths)
    behind = taken.long().cumsum(dim=2)  # 1 from the item that is taken out on
    place = torch.arange(n_recent, device=items.device)
    source = (place + behind).clamp(max=n_recent - 1)
    lengths = lengths - taken.any(dim=2).long()
    moved = items.gather(2, source) * (place < lengths.unsqueeze(2))
    return Variants(moved, lengths, source=source)


def has_ablation(recent: Recent, ablation: str) -> torch.Tensor:
    """Which items can be taken out, counted back from the last one, [B, T].

    The only item of a sequence can be replaced, but neither deleted nor hidden.
    """
    n_recent = recent.items.shape[1]
    offset = torch.arange(n_recent, device=recent.items.device)
    has_item = offset < recent.lengths.unsqueeze(1)
    if ablation == "replace":
        return has_item
    return has_item & (recent.prefix_len + recent.lengths > 1).unsqueeze(1)


def replaced_in_order(recent: Recent, order: torch.Tensor, insert: bool) -> Variants:
    """Versions in which more and more items are replaced, or put back.

    Args:
        recent: the windows.
        order: offsets from the last item, the first to be replaced first, [B, T].
        insert: start with all of them replaced, and put the first back first.

    Returns:
        Variants: version v has v items replaced (or put back), v = 0, ..., T, [B, T + 1, T].
    """
    n_recent = recent.items.shape[1]
    turn = torch.empty_like(order)  # by offset, when it is its turn
    turn.scatter_(1, order, torch.arange(n_recent, device=order.device).expand_as(order))
    of_place = turn.gather(1, recent.offsets.clamp(min=0)).unsqueeze(1)  # [B, 1, T]
    version = torch.arange(n_recent + 1, device=order.device).view(1, -1, 1)
    out = (of_place >= version) if insert else (of_place < version)
    items = torch.where(out, recent.others.unsqueeze(1), recent.items.unsqueeze(1))
    return Variants(items, recent.lengths.unsqueeze(1).expand(-1, n_recent + 1))
