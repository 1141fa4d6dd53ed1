"""Ranks from states: counts of higher scores, without keeping the scores."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from recbole_residual.evaluator.phases import Phases
from recbole_residual.model.architecture.precision import widest_float

_ROWS, _ITEMS = 256, 2048
"""Block of scores that a CPU keeps in its cache."""
_GATHERED = 2**18
"""Numbers of item vectors that are gathered at once."""
_HEADS = (256, 1024)
"""Items that are counted first: most rows have enough higher ones among them."""
_SCORES_ELSEWHERE = 2**26
"""Scores held at once on another device."""

FLOAT32_MARGIN = 5e-5
"""A margin for float32 where nothing is known of the model; see ``evaluator.rounding``."""


@dataclass(frozen=True)
class CountedRanks:
    """Ranks of some items under some states.

    Attributes:
        ranks: 1 + the number of items with a surely higher score; 0 where no item was asked for,
            [N, M].
        lowest: the rank if every score that is so near that rounding decides were higher. Above
            the largest rank that is wanted it is ``ranks``, [N, M].
    """

    ranks: torch.Tensor
    lowest: torch.Tensor

    @property
    def uncertain(self) -> torch.Tensor:
        """Rows with a rank that rounding decides about, [N]."""
        return (self.lowest != self.ranks).any(dim=1)

    @property
    def first(self) -> CountedRanks:
        """Those of the first item of each row, [N, 1]."""
        return CountedRanks(self.ranks[:, :1], self.lowest[:, :1])

    def uncertain_hits(self, topk: Sequence[int]) -> torch.Tensor:
        """Rows with an item of which rounding decides whether it is among the first k, [N].

        Args:
            topk: every k.
        """
        ends = torch.tensor(topk, device=self.ranks.device).view(-1, 1, 1)
        return ((self.ranks <= ends) & (self.lowest > ends)).any(dim=0).any(dim=1)


@dataclass(frozen=True)
class Lists:
    """The items with the highest scores.

    Attributes:
        items: item ids, best first, [N, k].
        uncertain: rows in which rounding decides about an item or about the order, [N].
    """

    items: torch.Tensor
    uncertain: torch.Tensor


@dataclass(frozen=True)
class LeftOut:
    """Items that are not ranked in some rows.

    Attributes:
        row: rows, in ascending order, [H].
        item: item ids, [H].
    """

    row: torch.Tensor
    item: torch.Tensor

    def of_rows(self, start: int, stop: int) -> LeftOut:
        """Those of the rows from ``start`` to ``stop``, which are then counted from 0."""
        bounds = torch.tensor([start, stop], device=self.row.device)
        begin, end = torch.searchsorted(self.row, bounds).tolist()
        return LeftOut(self.row[begin:end] - start, self.item[begin:end])

    def of_selected(self, rows: torch.Tensor, n_rows: int) -> LeftOut:
        """Those of some rows, different ones, in their order."""
        place = torch.full((n_rows,), -1, device=self.row.device)
        place[rows] = torch.arange(len(rows), device=self.row.device)
        row = place[self.row]
        row, item = row[row >= 0], self.item[row >= 0]
        order = torch.argsort(row, stable=True)
        return LeftOut(row[order], item[order])

    def of_items(self, items: torch.Tensor, n_items: int) -> LeftOut:
        """Those of some items, different ones, which are then counted from 1.

        Args:
            items: item ids.
            n_items: number of items, padding counted.
        """
        place = torch.zeros(n_items, dtype=torch.int64, device=items.device)
        place[items] = torch.arange(1, len(items) + 1, device=items.device)
        item = place[self.item]
        return LeftOut(self.row[item > 0], item[item > 0])


def ranks_between(
    surely: torch.Tensor, possibly: torch.Tensor, asked: torch.Tensor, largest: int | None
) -> CountedRanks:
    """Ranks from numbers of higher scores.

    Args:
        surely: how many other items score higher whatever rounding does, [N, M].
        possibly: how many may, [N, M].
        asked: where a rank is wanted, [N, M].
        largest: see :class:`Ranker`.
    """
    ranks = torch.where(asked, surely + 1, 0)
    lowest = torch.where(asked, possibly + 1, 0)
    if largest is not None:
        lowest = torch.where(ranks > largest, ranks, lowest)
    return CountedRanks(ranks, lowest)


class Ranker:
    """Counts, for given states, the items of the catalogue that score higher.

    Args:
        items: item embeddings, row 0 is padding, [n_items, D].
        bias: of every item, [n_items].
        margin: how far apart two scores must be for their order to be taken as certain, as a share
            of the norm of the state times the largest norm of an item.
        largest: ranks above this one are only known to be above it; None wants all of them.
        phases: clocks for the scores and for the ranks.
    """

    def __init__(
        self,
        items: torch.Tensor,
        bias: torch.Tensor | None = None,
        margin: float = FLOAT32_MARGIN,
        largest: int | None = None,
        phases: Phases | None = None,
    ) -> None:
        self._all, self._all_bias = items, bias
        self._items, self._bias = items[1:], None if bias is None else bias[1:]
        self.margin, self.largest = margin, largest
        self._phases = phases or Phases()
        self._norm = torch.linalg.vector_norm(self._items, dim=1).max()
        self._bias_size = items.new_zeros(()) if bias is None else bias.abs().max()
        n_items = len(self._items)
        if items.device.type == "cpu":
            self._rows, self._width = _ROWS, min(_ITEMS, n_items)
        else:
            self._rows = max(1, min(4096, _SCORES_ELSEWHERE // n_items))
            self._width = min(n_items, _SCORES_ELSEWHERE // self._rows)
        self._scores = items.new_empty(0)
        self._higher = items.new_empty(0, dtype=torch.float32)

    def size(self, states: torch.Tensor) -> torch.Tensor:
        """An upper bound of the scores of each row, [N]."""
        return torch.linalg.vector_norm(states, dim=1) * self._norm + self._bias_size

    def count(
        self, states: torch.Tensor, items: torch.Tensor, left_out: LeftOut | None = None
    ) -> CountedRanks:
        """Rank items under states; padding is never counted.

        A state that is not finite makes its row uncertain.

        Args:
            states: [N, D].
            items: item ids, 0 for none, [N, M].
            left_out: what is not ranked.
        """
        size = self.size(states)
        margin = (self.margin * size).unsqueeze(1)
        own = self._own(states, items, left_out)
        asked = items > 0
        surely, possibly = self._higher_than(states, own + margin, own - margin, left_out, asked)
        # The item itself is within its own margin. Of a state that is not finite nothing is known.
        finite = torch.isfinite(size).unsqueeze(1)
        possibly = torch.where(finite, possibly - 1, len(self._items))
        return ranks_between(surely, possibly, asked, self.largest)

    def top(self, states: torch.Tensor, k: int, left_out: LeftOut | None = None) -> Lists:
        """The k items with the highest scores.

        Args:
            states: [N, D].
            k: at most the number of items, padding not counted.
            left_out: what is not ranked.
        """
        n_kept = min(k + 1, len(self._items))
        found, values = [], []
        for _, tiles in self._blocks(states, left_out):
            best = best_items = None
            for begin, scores in tiles:
                top, at = scores.topk(min(n_kept, scores.shape[1]), dim=1)
                at += begin + 1
                if best is not None and best_items is not None:
                    top, at = torch.cat([best, top], dim=1), torch.cat([best_items, at], dim=1)
                    top, chosen = top.topk(min(n_kept, top.shape[1]), dim=1)
                    at = at.gather(1, chosen)
                best, best_items = top, at
            assert best is not None
            assert best_items is not None
            values.append(best)
            found.append(best_items[:, :k])
        best = torch.cat(values)
        margin = (self.margin * self.size(states)).unsqueeze(1)
        # Both scores may be wrong by half of it; a gap between two that are left out is no number.
        certain = (best[:, :-1] - best[:, 1:] > margin).all(dim=1)
        return Lists(torch.cat(found), ~certain)

    def scores(self, states: torch.Tensor, items: torch.Tensor) -> torch.Tensor:
        """Scores of some items under each state, [N, M].

        Args:
            states: [N, D].
            items: item ids, [N, M].
        """
        own = torch.empty(items.shape, dtype=states.dtype, device=states.device)
        n_rows = max(1, _GATHERED // (items.shape[1] * states.shape[1]))
        for start in range(0, len(states), n_rows):
            part = slice(start, start + n_rows)
            embedding = torch.nn.functional.embedding(items[part], self._all)
            own[part] = torch.bmm(embedding, states[part].unsqueeze(2)).squeeze(2)
        if self._all_bias is not None:
            own += self._all_bias[items]
        return own

    def _own(
        self, states: torch.Tensor, items: torch.Tensor, left_out: LeftOut | None
    ) -> torch.Tensor:
        own = self.scores(states, items)
        if left_out is not None:
            n_items = len(self._all)
            row = torch.arange(len(items), device=items.device).unsqueeze(1)
            hidden = torch.isin(row * n_items + items, left_out.row * n_items + left_out.item)
            own.masked_fill_(hidden, -torch.inf)
        return own

    def _higher_than(
        self,
        states: torch.Tensor,
        upper: torch.Tensor,
        lower: torch.Tensor,
        left_out: LeftOut | None,
        asked: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """How many items score above each threshold, [N, M] for both; where ``largest`` score above
        the upper one, at least so many.

        Most rows have enough of them among the items that score high on average, and need not see
        the others.
        """
        thresholds = torch.stack([upper, lower], dim=2)
        counts = torch.zeros(thresholds.shape, dtype=torch.int64, device=states.device)
        if self.largest is None:
            rows = asked.any(dim=1).nonzero().squeeze(1)
            counts[rows] = self._count_rows(states, thresholds, left_out, rows)
            return counts[..., 0], counts[..., 1]
        for head in self._heads(states):
            rows = (asked & (counts[..., 0] < self.largest)).any(dim=1).nonzero().squeeze(1)
            counts[rows] = self._count_rows(states, thresholds, left_out, rows, head)
        for column, own in enumerate(asked.unbind(1)):
            rows = (own & (counts[:, column, 0] < self.largest)).nonzero().squeeze(1)
            of_column = thresholds[:, column : column + 1]
            counts[rows, column] = self._count_rows(states, of_column, left_out, rows).squeeze(1)
        return counts[..., 0], counts[..., 1]

    def _heads(self, states: torch.Tensor) -> list[torch.Tensor]:
        """Items with the highest average score, some, then more."""
        sizes = [size for size in _HEADS if size < len(self._items)]
        if not sizes:
            return []
        average = torch.mv(self._items, states.mean(dim=0))
        if self._bias is not None:
            average += self._bias
        order = average.topk(sizes[-1]).indices + 1
        return [order[:size] for size in sizes]

    def _count_rows(
        self,
        states: torch.Tensor,
        thresholds: torch.Tensor,
        left_out: LeftOut | None,
        rows: torch.Tensor,
        head: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """How many items, of the whole catalogue or of ``head``, score above each threshold of some
        rows, [R, M, 2]."""
        if left_out is not None and len(rows) < len(states):
            left_out = left_out.of_selected(rows, len(states))
        ranker = self
        if head is not None:
            items = torch.nn.functional.pad(head, (1, 0))  # padding comes first
            bias = None if self._all_bias is None else self._all_bias[items]
            ranker = Ranker(self._all[items], bias, phases=self._phases)
            left_out = None if left_out is None else left_out.of_items(head, len(self._all))
        counts = ranker._count_items(states[rows], thresholds[rows].flatten(1), left_out)
        return counts.view(len(rows), thresholds.shape[1], 2)

    def _count_items(
        self, states: torch.Tensor, thresholds: torch.Tensor, left_out: LeftOut | None
    ) -> torch.Tensor:
        """How many of the items score above each threshold, [N, M]."""
        counts = torch.zeros(
            thresholds.shape, dtype=widest_float(states.device), device=states.device
        )
        if self._higher.shape[0] == 0:
            # Written as float32, the comparison sums many times faster than as bool, and it counts
            # exactly up to 2**24 items.
            self._higher = torch.empty(
                self._rows, self._width, dtype=torch.float32, device=states.device
            )
        for part, tiles in self._blocks(states, left_out):
            for _, scores in tiles:
                higher = self._higher[: scores.shape[0], : scores.shape[1]]
                for column in range(thresholds.shape[1]):
                    threshold = thresholds[part, column, None]
                    counts[part, column] += torch.gt(scores, threshold, out=higher).sum(dim=1)
        return counts.long()

    def _blocks(
        self, states: torch.Tensor, left_out: LeftOut | None
    ) -> Iterator[tuple[slice, Iterator[tuple[int, torch.Tensor]]]]:
        """Rows, and for each block of rows its scores, some items at a time."""
        if self._scores.shape[0] == 0:
            self._scores = self._items.new_empty(self._rows, self._width)
        for start in range(0, len(states), self._rows):
            part = slice(start, min(start + self._rows, len(states)))
            hidden = None if left_out is None else left_out.of_rows(part.start, part.stop)
            yield part, self._tiles(states[part], hidden)

    def _tiles(
        self, states: torch.Tensor, left_out: LeftOut | None
    ) -> Iterator[tuple[int, torch.Tensor]]:
        begins = range(0, len(self._items), self._width)
        if left_out is not None:
            order = torch.argsort(left_out.item)
            hidden_row, hidden_item = left_out.row[order], left_out.item[order] - 1
            bounds = torch.tensor([*begins, len(self._items)], device=hidden_item.device)
            cuts = torch.searchsorted(hidden_item, bounds).tolist()
        for number, begin in enumerate(begins):
            items = self._items[begin : begin + self._width]
            scores = self._scores[: len(states), : len(items)]
            start = time.perf_counter()
            torch.mm(states, items.t(), out=scores)
            if self._bias is not None:
                scores += self._bias[begin : begin + len(items)]
            if left_out is not None:
                hidden = slice(cuts[number], cuts[number + 1])
                scores[hidden_row[hidden], hidden_item[hidden] - begin] = -torch.inf
            self._phases.add("scores", time.perf_counter() - start)
            start = time.perf_counter()
            yield begin, scores
            self._phases.add("ranks", time.perf_counter() - start)
