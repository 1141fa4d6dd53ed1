"""Every ablation of some sequences under one setting, and what attributions say of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from recbole.data.interaction import Interaction, cat_interactions
from tqdm import tqdm

from recbole_residual.evaluator.ranks import nan_rows, rank_of, refuse_rows
from recbole_residual.model.architecture.precision import moved, widened
from recbole_residual.probe.engine.attributions import Attributions
from recbole_residual.probe.engine.rows import iterate_rows
from recbole_residual.probe.engine.variant_scores import VariantScores
from recbole_residual.probe.engine.variant_states import shares_prefixes
from recbole_residual.probe.engine.variants import (
    Recent,
    Variants,
    has_ablation,
    replaced_in_order,
    unchanged,
    without_each,
)

SCORED = ("target", "last", "top")
"""Whose scores and ranks are followed: the target, the last input item, the first of the list."""

_POSITIONS = {"cpu": 2**13}
"""Changed positions computed at once: on a CPU few enough to stay in its cache."""
_POSITIONS_ELSEWHERE = 2**18


@dataclass(frozen=True)
class Sequences:
    """Sequences to take items from.

    Attributes:
        interaction: all of RecBole's fields, N rows.
        target: item ids, [N].
        others: for each of the latest positions another item, counted back from the last one,
            [N, T].
        n_all: how many sequences there are in the data.
    """

    interaction: Interaction
    target: torch.Tensor
    others: torch.Tensor
    n_all: int


def sample_sequences(
    model: Any, data: Any, n_sequences: int | None, n_recent: int, seed: int
) -> Sequences:
    """Draw sequences from a loader, and items to replace others with.

    Args:
        model: a RecBole sequential model.
        data: a RecBole loader for full ranking.
        n_sequences: how many at most; None for all.
        n_recent: T; no more than the longest sequence has.
        seed: of both draws.
    """
    batches = list(iterate_rows(data, "Sequences", show_progress=False))
    interaction = cat_interactions([batch.interaction for batch in batches])
    target = torch.cat([batch.target for batch in batches])
    generator, n_all = np.random.default_rng(seed), len(target)
    if n_sequences is not None and n_sequences < n_all:
        rows = torch.from_numpy(np.sort(generator.permutation(n_all)[:n_sequences]))
        interaction, target = interaction[rows], target[rows]
    lengths = interaction[model.ITEM_SEQ_LEN]
    width = min(n_recent, int(lengths.max()))
    at = lengths.unsqueeze(1) - 1 - torch.arange(width)
    items = interaction[model.ITEM_SEQ].gather(1, at.clamp(min=0))
    drawn = torch.from_numpy(generator.integers(1, model.n_items - 1, items.shape))
    others = drawn + (drawn >= items).long()  # any item but the one that stands there
    return Sequences(interaction, target, others, n_all)


@dataclass
class Ablated:
    """What was found of N sequences and their T latest items, counted back from the last one.

    NaN stands where there is no such item, or where it cannot be taken out.

    Attributes:
        scale: standard deviation of a sequence's scores over the catalogue, [N].
        ranks: of the items of ``SCORED`` before, [N, 3].
        score_fall: by ablation, how far their scores fall, [N, T, 3].
        new_ranks: by ablation, their ranks after, [N, T, 3].
        log_probability_fall: by ablation, of the target, [N, T].
        explained_fall: by ablation, of the explained item's score, [N, T].
        attributions: by name, [N, T].
        deletion, insertion: by name, the explained score's fall (rise) in units of ``scale`` after
            0, 1, ..., T items were replaced (put back), [N, T + 1].
    """

    scale: list[np.ndarray] = field(default_factory=list)
    ranks: list[np.ndarray] = field(default_factory=list)
    score_fall: dict[str, list[np.ndarray]] = field(default_factory=dict)
    new_ranks: dict[str, list[np.ndarray]] = field(default_factory=dict)
    log_probability_fall: dict[str, list[np.ndarray]] = field(default_factory=dict)
    explained_fall: dict[str, list[np.ndarray]] = field(default_factory=dict)
    attributions: dict[str, list[np.ndarray]] = field(default_factory=dict)
    deletion: dict[str, list[np.ndarray]] = field(default_factory=dict)
    insertion: dict[str, list[np.ndarray]] = field(default_factory=dict)


@dataclass(frozen=True)
class _Scored:
    """Scores [.., 3] and ranks [.., 3] of ``SCORED``, log-probability of the target [..]."""

    scores: torch.Tensor
    ranks: torch.Tensor
    log_probability: torch.Tensor


class AblationRun:
    """Runs the ablations of some sequences, under the factors in force.

    Args:
        model: a RecBole sequential model, in eval mode.
        sequences: the sequences.
        ablations: which.
        explained: whose score attributions explain, one of ``SCORED``.
        seed: of the random order.

    Attributes:
        found: the outcome.
        n_forwards: forwards for each sequence, a backward pass counted as two.
        notes: which attributions are missing, and why.
    """

    def __init__(
        self,
        model: Any,
        sequences: Sequences,
        ablations: Sequence[str],
        explained: str,
        seed: int,
    ) -> None:
        self._model, self._sequences, self._ablations = model, sequences, ablations
        self._column, self._seed = SCORED.index(explained), seed
        self._n_recent = sequences.others.shape[1]
        self.found = Ablated()
        self.n_forwards = 0
        self.notes: list[str] = []

    def run(self, explain: bool, show_progress: bool) -> None:
        """Run all sequences; what is found stands in their order by length.

        Args:
            explain: ask attributions too.
            show_progress: show a progress bar.
        """
        attributions = Attributions(self._model, self._n_recent) if explain else None
        n_rows = len(self._sequences.target)
        noise = np.random.default_rng(self._seed).random((n_rows, self._n_recent))
        with tqdm(total=n_rows, desc="Faithfulness", disable=not show_progress) as bar:
            for rows in self._chunks():
                self._run_chunk(rows, attributions, torch.from_numpy(noise[rows.numpy()]))
                bar.update(len(rows))
        if attributions is not None:
            self.notes += attributions.notes

    def _chunks(self) -> Iterator[torch.Tensor]:
        """Rows of nearly the same length, a bounded number of changed positions at a time."""
        limit = _POSITIONS.get(torch.device(self._model.device).type, _POSITIONS_ELSEWHERE)
        order = torch.argsort(self._sequences.interaction[self._model.ITEM_SEQ_LEN], stable=True)
        return iter(order.split(max(1, limit // (self._n_recent + 1) ** 2)))

    @torch.no_grad()
    def _run_chunk(
        self, rows: torch.Tensor, attributions: Attributions | None, noise: torch.Tensor
    ) -> None:
        model, device = self._model, self._model.device
        interaction = self._sequences.interaction[rows].to(device)
        if shares_prefixes(model):
            width = int(self._sequences.interaction[model.ITEM_SEQ_LEN][rows].max())
            interaction[model.ITEM_SEQ] = interaction[model.ITEM_SEQ][:, :width]
        item_seq, lengths = interaction[model.ITEM_SEQ], interaction[model.ITEM_SEQ_LEN]
        recent = Recent.of(item_seq, lengths, self._sequences.others[rows].to(device))
        scorer = VariantScores(model, interaction, recent)
        target = self._sequences.target[rows].to(device)
        last = item_seq.gather(1, lengths.unsqueeze(1) - 1).squeeze(1)
        items, scale = self._items(scorer, recent, target, last)
        before = self._score(scorer, unchanged(recent), items)
        self.found.scale.append(scale.cpu().numpy())
        self.found.ranks.append(before.ranks[:, 0].cpu().numpy())
        n_forwards = 1
        for ablation in self._ablations:
            after = self._score(scorer, without_each(recent, ablation), items)
            self._keep(ablation, before, after, has_ablation(recent, ablation))
            n_forwards += self._n_recent
        if attributions is not None:
            explained = items[:, self._column]
            orders = self._explain(
                attributions, interaction, explained, recent, moved(noise, device)
            )
            n_forwards += attributions.n_forwards
            for name, values in orders.items():
                self._curves(name, values, scorer, recent, explained, scale)
                n_forwards += 2 * (self._n_recent + 1)
        self.n_forwards = max(self.n_forwards, n_forwards)

    def _items(
        self, scorer: VariantScores, recent: Recent, target: torch.Tensor, last: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The items of ``SCORED``, [B, 3], and the spread of each sequence's scores, [B]."""
        top, scale = torch.empty_like(target), []
        for rows, scores in scorer.catalogue(unchanged(recent)):
            refuse_rows(nan_rows(scores[:, 0]))
            top[rows] = scores[:, 0].argmax(dim=1)
            scale.append(widened(scores[:, 0, 1:]).std(dim=1))
        return torch.stack([target, last, top], dim=1), torch.cat(scale)

    def _score(self, scorer: VariantScores, variants: Variants, items: torch.Tensor) -> _Scored:
        found = []
        for rows, scores in scorer.catalogue(variants):
            n_rows, n_versions, n_items = scores.shape
            asked = items[rows].unsqueeze(1).expand(-1, n_versions, -1)
            own = scores.gather(2, asked)
            ranks = rank_of(scores.view(-1, n_items), asked.reshape(-1, asked.shape[2]))
            total = scores[..., 1:].logsumexp(dim=2)
            found.append((own, ranks.view(n_rows, n_versions, -1), own[..., 0] - total))
        return _Scored(*(torch.cat(tensors) for tensors in zip(*found)))

    def _keep(
        self, ablation: str, before: _Scored, after: _Scored, taken_out: torch.Tensor
    ) -> None:
        def kept(values: torch.Tensor) -> np.ndarray:
            mask = taken_out if values.dim() == 2 else taken_out.unsqueeze(2)
            return widened(values).masked_fill(~mask, float("nan")).cpu().numpy()

        fall = before.scores - after.scores
        for table, values in (
            (self.found.score_fall, fall),
            (self.found.new_ranks, after.ranks),
            (self.found.log_probability_fall, before.log_probability - after.log_probability),
            (self.found.explained_fall, fall[:, :, self._column]),
        ):
            table.setdefault(ablation, []).append(kept(values))

    def _explain(
        self,
        attributions: Attributions,
        interaction: Interaction,
        explained: torch.Tensor,
        recent: Recent,
        noise: torch.Tensor,
    ) -> dict[str, torch.Tensor]:
        """What attributions, recency and chance say of the latest items, [B, T] each."""
        offset = torch.arange(self._n_recent, device=recent.items.device)
        no_item = offset >= recent.lengths.unsqueeze(1)
        values = attributions.of(interaction, explained)
        values["recency"] = -widened(offset).expand(len(explained), -1)
        values["random"] = noise
        values = {
            name: widened(found).masked_fill(no_item, float("nan"))
            for name, found in values.items()
        }
        for name, found in values.items():
            self.found.attributions.setdefault(name, []).append(found.cpu().numpy())
        return values

    def _curves(
        self,
        name: str,
        values: torch.Tensor,
        scorer: VariantScores,
        recent: Recent,
        explained: torch.Tensor,
        scale: torch.Tensor,
    ) -> None:
        order = values.nan_to_num(nan=-torch.inf).argsort(dim=1, descending=True, stable=True)
        for table, insert in ((self.found.deletion, False), (self.found.insertion, True)):
            scores = widened(scorer.of_item(replaced_in_order(recent, order, insert), explained))
            change = scores - scores[:, :1] if insert else scores[:, :1] - scores
            table.setdefault(name, []).append((change / scale.unsqueeze(1)).cpu().numpy())
