"""Input sequences changed on purpose, to see what a model makes of their order and their end.

Every random draw comes from the seed, the number of the row and the position, so it depends on
neither the batch size nor the device.

Reference:
    Kozaki et al. "Residual Dominance as a Structural Account of Last-Item Reliance in Causal
    Self-Attention Recommenders", 2026 (order-perturbation probes).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import torch
from recbole.data.interaction import Interaction

from recbole_residual.errors import DataError

RANDOM_MODES = ("shuffle_prefix", "shuffle_all", "random_last")
"""Modes with something random in them."""

FIXED_MODES = ("original", "reverse", "drop_last")
"""Modes without; ``keep_last_1``, ``keep_last_2``, ... belong to them too."""

_KEEP_LAST = re.compile(r"keep_last_([1-9]\d*)")
_PERMUTATION, _ITEM = 1, 2


@dataclass(frozen=True)
class SequenceFields:
    """How the sequences of an interaction are named.

    Attributes:
        item_seq: field of the item ids, [R, L].
        item_seq_len: field of the lengths, [R].
        n_items: number of item ids, padding included.
    """

    item_seq: str
    item_seq_len: str
    n_items: int


def check_mode(mode: str) -> str:
    """Check the name of a perturbation.

    Raises:
        ValueError: if it is none of ``original``, ``shuffle_prefix``, ``shuffle_all``,
            ``reverse``, ``drop_last``, ``random_last``, ``keep_last_N``.
    """
    if mode not in RANDOM_MODES + FIXED_MODES and not _KEEP_LAST.fullmatch(mode):
        known = ", ".join(FIXED_MODES + RANDOM_MODES)
        raise DataError(f"unknown mode {mode!r}: one of {known}, keep_last_1, keep_last_2, ...")
    return mode


def perturb(
    interaction: Interaction,
    mode: str,
    fields: SequenceFields,
    *,
    seed: int = 0,
    first_row: int = 0,
) -> Interaction:
    """Change the sequences of an interaction; targets stay.

    - ``original``: nothing.
    - ``shuffle_prefix``: permute all items but the last.
    - ``shuffle_all``: permute all items.
    - ``reverse``: the last item first.
    - ``drop_last``: without the last item; a sequence of one item stays as it is.
    - ``random_last``: another item, drawn uniformly from the catalogue, in the place of the last.
    - ``keep_last_N``: the last N items only.

    Every other field with one value per position moves along, but for ``random_last``, which
    leaves them.

    Args:
        interaction: R sequences.
        mode: what to do.
        fields: names of the fields.
        seed: for what is random.
        first_row: number of the first of these rows among all rows of the data.

    Returns:
        A new interaction.

    Raises:
        ValueError: for an unknown mode, or if the catalogue has no other item to draw.

    Example:
        >>> fields = SequenceFields("item_id_list", "item_length", 10)
        >>> rows = {"item_id_list": torch.tensor([[4, 7, 9, 0]]), "item_length": torch.tensor([3])}
        >>> perturb(Interaction(rows), "reverse", fields)["item_id_list"].tolist()
        [[9, 7, 4, 0]]
        >>> perturb(Interaction(rows), "keep_last_2", fields)["item_id_list"].tolist()
        [[7, 9, 0, 0]]
    """
    check_mode(mode)
    columns = dict(interaction.interaction.items())
    item_seq, length = columns[fields.item_seq], columns[fields.item_seq_len]
    if mode == "random_last":
        others = _other_items(item_seq, length, fields.n_items, seed, first_row)
        columns[fields.item_seq] = item_seq.scatter(1, (length - 1).unsqueeze(1), others)
        return Interaction(columns)
    source, new_length = _moves(mode, length, item_seq.shape[1], seed, first_row)
    valid = torch.arange(item_seq.shape[1], device=item_seq.device) < new_length.unsqueeze(1)
    for name, values in columns.items():
        if values.dim() >= 2 and values.shape[:2] == item_seq.shape:
            trailing = (1,) * (values.dim() - 2)
            index = source.view(*source.shape, *trailing).expand_as(values)
            columns[name] = values.gather(1, index) * valid.view(*valid.shape, *trailing)
    columns[fields.item_seq_len] = new_length
    return Interaction(columns)


def _moves(
    mode: str, length: torch.Tensor, width: int, seed: int, first_row: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Where each position takes its item from, [R, width], and the new lengths, [R]."""
    order = torch.arange(width, device=length.device).expand(len(length), -1)
    keep_last = _KEEP_LAST.fullmatch(mode)
    if keep_last:
        kept = length.clamp(max=int(keep_last.group(1)))
        return (order + (length - kept).unsqueeze(1)).clamp(max=width - 1), kept
    if mode == "drop_last":
        return order, (length - 1).clamp(min=1)
    if mode == "reverse":
        return (length.unsqueeze(1) - 1 - order).clamp(min=0), length
    if mode in ("shuffle_prefix", "shuffle_all"):
        n_moving = length - 1 if mode == "shuffle_prefix" else length
        draws = _draws(_PERMUTATION, seed, first_row, len(length), width)
        # Equal draws keep their order; whatever does not move comes after all that does.
        keys = torch.from_numpy((draws >> np.uint64(2)).astype(np.int64)).to(length.device)
        stays = order >= n_moving.unsqueeze(1)
        return torch.argsort(torch.where(stays, 2**62 + order, keys), dim=1, stable=True), length
    return order, length


def _other_items(
    item_seq: torch.Tensor, length: torch.Tensor, n_items: int, seed: int, first_row: int
) -> torch.Tensor:
    """For each sequence an item that is not its last one, [R, 1]."""
    if n_items < 3:
        raise DataError("random_last needs a catalogue of at least two items.")
    draws = _draws(_ITEM, seed, first_row, len(length), 1)
    items = torch.from_numpy((draws % np.uint64(n_items - 2)).astype(np.int64)) + 1
    items = items.to(item_seq.device)
    last = item_seq.gather(1, (length - 1).unsqueeze(1))
    return items + (items >= last).long()


def _draws(purpose: int, seed: int, first_row: int, n_rows: int, width: int) -> np.ndarray:
    """64 random bits for each row and position, uint64 [n_rows, width]."""
    state = _mix(_mix(np.uint64(seed % 2**64).reshape(1)) + np.uint64(purpose))
    rows = _mix(state + np.arange(first_row, first_row + n_rows, dtype=np.uint64))
    return _mix(rows[:, None] + np.arange(width, dtype=np.uint64))


def _mix(state: np.ndarray) -> np.ndarray:
    """One output of splitmix64 for each state (Steele, Lea and Flood, OOPSLA 2014)."""
    state = state + np.uint64(0x9E3779B97F4A7C15)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))
