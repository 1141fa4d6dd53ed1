"""Rows of several loader batches together, sorted by length and trimmed for the model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from recbole.data.interaction import Interaction, cat_interactions

from recbole_residual.evaluator.candidates import Candidates
from recbole_residual.evaluator.counting import LeftOut

POOL_ROWS = 8192
"""Rows among which like lengths can meet."""

_POSITIONS = {"cpu": 4096}
"""Positions that go through a model at once: on a CPU few enough to stay in its cache."""
_POSITIONS_ELSEWHERE = 2**17


@dataclass(frozen=True)
class Pool:
    """Sequences and their targets in the loader's order, on the model's device.

    Attributes:
        interaction: the sequences, N rows.
        item_seq_len: their lengths, [N].
        target: item ids, [N].
        left_out: items that are not ranked, or None.
        bounds: where the loader's batches begin, and the end.
        batches: the loader's batches.
        candidates: what is ranked where that is not the whole catalogue.
    """

    interaction: Interaction
    item_seq_len: torch.Tensor
    target: torch.Tensor
    left_out: LeftOut | None
    bounds: list[int]
    batches: list[Any]
    candidates: Candidates | None = None

    def __len__(self) -> int:
        return len(self.target)

    @classmethod
    def of(cls, batches: list[Any], item_seq_len: str, device: Any) -> Pool:
        """Batches of RecBole's ``FullSortEvalDataLoader`` of a sequential model."""
        sizes = [len(batch[0]) for batch in batches]
        bounds = [0, *np.cumsum(sizes).tolist()]
        interaction = batches[0][0] if len(batches) == 1 else cat_interactions(_firsts(batches))
        interaction = interaction.to(device)
        left_out = None
        if any(batch[1] is not None for batch in batches):
            pairs = [(batch[1], first) for batch, first in zip(batches, bounds) if batch[1]]
            row = torch.cat([torch.as_tensor(rows) + first for (rows, _), first in pairs])
            item = torch.cat([torch.as_tensor(items) for (_, items), _ in pairs])
            order = torch.argsort(row, stable=True)
            left_out = LeftOut(row[order].to(device), item[order].to(device))
        return cls(
            interaction=interaction,
            item_seq_len=interaction[item_seq_len],
            target=torch.cat([batch[3] for batch in batches]).to(device),
            left_out=left_out,
            bounds=bounds,
            batches=batches,
        )

    @classmethod
    def of_sampled(cls, batches: list[Any], config: Any) -> Pool:
        """Batches of RecBole's ``NegSampleEvalDataLoader`` of a sequential model.

        Raises:
            NotCountableError: as for :meth:`Candidates.of`.
        """
        candidates = Candidates.of(batches, config)
        interaction = candidates.sequences()
        return cls(
            interaction=interaction,
            item_seq_len=interaction[config["ITEM_LIST_LENGTH_FIELD"]],
            target=candidates.items[:, 0],
            left_out=None,
            bounds=[0, *np.cumsum([len(batch[3]) for batch in batches]).tolist()],
            batches=batches,
            candidates=candidates,
        )


def _firsts(batches: list[Any]) -> list[Interaction]:
    return [batch[0] for batch in batches]


def pooled(batches: Iterable[Any], n_rows: int = POOL_ROWS) -> Iterator[list[Any]]:
    """Put loader batches together until they hold ``n_rows`` rows.

    Example:
        >>> [len(group) for group in pooled([("abc",), ("de",), ("f",)], n_rows=4)]
        [2, 1]
    """
    group: list[Any] = []
    for batch in batches:
        group.append(batch)
        if sum(len(one[0]) for one in group) >= n_rows:
            yield group
            group = []
    if group:
        yield group


def chunks_by_length(item_seq_len: torch.Tensor, n_positions: int = 0) -> Iterator[torch.Tensor]:
    """Rows of nearly the same length, shortest first, a bounded number of positions at a time.

    Args:
        item_seq_len: lengths, [N].
        n_positions: most positions of a chunk, padded to its longest row; by default as many as
            suit the device.
    """
    device = item_seq_len.device
    limit = n_positions or _POSITIONS.get(device.type, _POSITIONS_ELSEWHERE)
    order = torch.sort(item_seq_len, stable=True).indices
    for part in cuts(item_seq_len[order].cpu().numpy(), limit):
        yield order[part]


def cuts(lengths: np.ndarray, limit: int) -> Iterator[slice]:
    """Neighbouring rows whose positions, padded to the last and longest of them, are bounded.

    Args:
        lengths: in ascending order, [N].
        limit: most positions of a part; one row is always taken.

    Example:
        >>> list(cuts(np.array([1, 2, 2, 5]), 4))
        [slice(0, 2, None), slice(2, 3, None), slice(3, 4, None)]
    """
    start = 0
    while start < len(lengths):
        tail = lengths[start : start + limit]
        n_padded = tail * np.arange(1, len(tail) + 1)
        end = start + max(1, int(np.searchsorted(n_padded, limit, side="right")))
        yield slice(start, end)
        start = end


def trimmed(interaction: Interaction, width: int, full_width: int) -> Interaction:
    """The first columns of every field that has one column per position.

    Args:
        interaction: padded at the end.
        width: how many columns to keep.
        full_width: how many there are.
    """
    if width >= full_width:
        return interaction
    return Interaction(
        {
            name: value[:, :width] if value.dim() > 1 and value.shape[1] == full_width else value
            for name, value in interaction.interaction.items()
        }
    )
