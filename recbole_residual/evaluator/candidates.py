"""Ranks among the few items that a sampled evaluation draws for each sequence.

RecBole repeats a sequence once for every sampled item and runs the network on all copies. Here the
network sees the sequence once, and its state meets the vectors of the sampled items alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from recbole.data.interaction import Interaction, cat_interactions

from recbole_residual.evaluator.counting import CountedRanks, Lists, Ranker, ranks_between
from recbole_residual.evaluator.item_product import NotCountableError


@dataclass(frozen=True)
class Candidates:
    """The items that are ranked for each sequence, the target first.

    Attributes:
        items: item ids, one may stand twice in a row, [N, C].
        counted: where each item of a row stands first, [N, C].
        interaction: RecBole's rows, a sequence C times with one of its items each, [N * C].
        n_predicted: most rows that RecBole's Trainer gives to a model's ``predict`` at once.
    """

    items: torch.Tensor
    counted: torch.Tensor
    interaction: Interaction
    n_predicted: int

    @classmethod
    def of(cls, batches: list[Any], config: Any) -> Candidates:
        """Those of batches of RecBole's ``NegSampleEvalDataLoader`` of a sequential model.

        Raises:
            NotCountableError: if a user has several sequences, whose samples RecBole ranks in one
                row, or the number of samples differs.
        """
        first = batches[0]
        n_items = len(first[0]) // len(first[3])
        for interaction, row, positive_u, _ in batches:
            rows = torch.arange(len(positive_u))
            if not (
                len(interaction) == n_items * len(rows)
                and torch.equal(positive_u.cpu(), rows)
                and torch.equal(row.cpu(), rows.repeat_interleave(n_items))
            ):
                raise NotCountableError("a user has several sequences")
        parts = [batch[0] for batch in batches]
        joined = (parts[0] if len(parts) == 1 else cat_interactions(parts)).to(config["device"])
        items = joined[config["ITEM_ID_FIELD"]].view(-1, n_items)
        ordered, order = torch.sort(items, dim=1, stable=True)
        again = torch.zeros_like(items, dtype=torch.bool)
        again[:, 1:] = ordered[:, 1:] == ordered[:, :-1]
        counted = torch.empty_like(again).scatter_(1, order, ~again)
        return cls(items, counted, joined, config["eval_batch_size"])

    def sequences(self) -> Interaction:
        """Every sequence once, N rows."""
        return self.interaction[slice(0, None, self.items.shape[1])]

    def of_rows(self, rows: torch.Tensor, first: int | None = None) -> Interaction:
        """RecBole's rows of some sequences, with all candidates of each or the ``first``."""
        n_items = self.items.shape[1]
        within = torch.arange(n_items, device=rows.device)[:first]
        return self.interaction[(rows.unsqueeze(1) * n_items + within).flatten()]

    def hide_others(self, scores: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        """Take what is not ranked out of the scores of some sequences, in place.

        Args:
            scores: [..., R, n_items].
            rows: which sequences, [R].
        """
        others = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device)
        others.scatter_(1, self.items[rows], False)
        return scores.masked_fill_(others, -torch.inf)


def count_among(
    ranker: Ranker,
    states: torch.Tensor,
    asked: torch.Tensor,
    candidates: Candidates,
    rows: torch.Tensor,
) -> CountedRanks:
    """Rank each row's target among its candidates.

    Args:
        ranker: knows the item vectors and how far rounding reaches.
        states: [R, D].
        asked: whether the row's rank is wanted, [R].
        candidates: of all rows.
        rows: which of them, [R].
    """
    scores, counted = ranker.scores(states, candidates.items[rows]), candidates.counted[rows]
    size = ranker.size(states)
    margin, own = (ranker.margin * size).unsqueeze(1), scores[:, :1]
    surely = ((scores > own + margin) & counted).sum(dim=1)
    possibly = ((scores > own - margin) & counted).sum(dim=1)
    # The target itself is within its own margin. Of a state that is not finite nothing is known.
    possibly = torch.where(torch.isfinite(size), possibly - 1, scores.shape[1])
    surely, possibly, asked = (part.unsqueeze(1) for part in (surely, possibly, asked))
    return ranks_between(surely, possibly, asked, ranker.largest)


def top_among(
    ranker: Ranker, states: torch.Tensor, k: int, candidates: Candidates, rows: torch.Tensor
) -> Lists:
    """The k candidates with the highest scores; a row with fewer is uncertain.

    Args:
        ranker, states, candidates, rows: as for :func:`count_among`.
        k: length of the lists.
    """
    items = candidates.items[rows]
    scores = ranker.scores(states, items).masked_fill_(~candidates.counted[rows], -torch.inf)
    missing = max(0, k + 1 - scores.shape[1])
    scores = torch.nn.functional.pad(scores, (0, missing), value=-torch.inf)
    best, at = scores.topk(k + 1, dim=1)
    margin = (ranker.margin * ranker.size(states)).unsqueeze(1)
    # A gap between two that are not there is no number.
    certain = (best[:, :-1] - best[:, 1:] > margin).all(dim=1)
    listed = torch.nn.functional.pad(items, (0, missing)).gather(1, at[:, :k])
    return Lists(listed, ~certain)
