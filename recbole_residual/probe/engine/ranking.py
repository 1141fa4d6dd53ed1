"""Ranks from representations: counts of higher scores, without keeping the scores."""

from __future__ import annotations

from dataclasses import dataclass

import torch

MARGIN = 5e-7
"""How far apart two scores must be for their order to be taken as certain, as a share of the norm
of the representation times the largest norm of an item."""

_SCORES_AT_ONCE = {"cpu": 2**20}
"""Scores held at once: on a CPU as many as stay in its cache."""
_SCORES_AT_ONCE_ELSEWHERE = 2**26


@dataclass(frozen=True)
class CountedRanks:
    """Ranks of some items under some representations.

    Attributes:
        ranks: 1 + the number of items with a higher score; 0 where no item was asked for, [N, M].
        uncertain: rows in which another item's score is so near to that of an item asked for that
            rounding decides between them, [N].
    """

    ranks: torch.Tensor
    uncertain: torch.Tensor


class Ranker:
    """Counts, for given representations, the items of the catalogue that score higher.

    Args:
        item_weight: item embeddings, row 0 is padding, [n_items, D].
    """

    def __init__(self, item_weight: torch.Tensor) -> None:
        self._items = item_weight[1:]
        self._largest = torch.linalg.vector_norm(self._items, dim=1).max()
        limit = _SCORES_AT_ONCE.get(item_weight.device.type, _SCORES_AT_ONCE_ELSEWHERE)
        self._rows = max(1, limit // len(self._items))
        self._scores = item_weight.new_empty(0)
        self._higher = item_weight.new_empty(0, dtype=torch.float32)

    def _buffers(self, n_rows: int) -> tuple[torch.Tensor, torch.Tensor]:
        if len(self._scores) < n_rows:
            self._scores = self._items.new_empty(n_rows, len(self._items))
            # Written as float32, the comparison sums many times faster than as bool, and it counts
            # exactly up to 2**24 items.
            self._higher = torch.empty_like(self._scores, dtype=torch.float32)
        return self._scores[:n_rows], self._higher[:n_rows]

    def count(self, hidden: torch.Tensor, items: torch.Tensor) -> CountedRanks:
        """Rank items under representations; padding is never counted.

        A representation that is not finite makes its row uncertain.

        Args:
            hidden: representations, [N, D].
            items: item ids, 0 for none, [N, M].
        """
        size = torch.linalg.vector_norm(hidden, dim=1) * self._largest
        margin = (MARGIN * size).unsqueeze(1)
        uncertain = ~torch.isfinite(size)
        ranks = torch.zeros_like(items)
        for start in range(0, len(hidden), self._rows):
            part = slice(start, start + self._rows)
            wanted = items[part]
            scores, higher = self._buffers(len(wanted))
            torch.mm(hidden[part], self._items.t(), out=scores)
            own = scores.gather(1, (wanted - 1).clamp(min=0))
            above, reached = own + margin[part], own - margin[part]
            for column in range(items.shape[1]):
                asked = wanted[:, column] > 0
                surely = torch.gt(scores, above[:, column, None], out=higher).sum(dim=1)
                possibly = torch.gt(scores, reached[:, column, None], out=higher).sum(dim=1)
                ranks[part, column] = torch.where(asked, surely.long() + 1, 0)
                # The item itself is within its own margin.
                uncertain[part] |= asked & (possibly != surely + 1)
        return CountedRanks(ranks, uncertain)
