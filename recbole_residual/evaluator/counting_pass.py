"""One pass over evaluation data that ranks by counting and gives the metrics all they need."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from recbole.evaluator.collector import Collector

from recbole_residual.evaluator.candidates import count_among, top_among
from recbole_residual.evaluator.counting import CountedRanks, LeftOut, Lists, Ranker
from recbole_residual.evaluator.item_product import ItemProduct, NotCountableError
from recbole_residual.evaluator.observation import Observation, SequenceRatios
from recbole_residual.evaluator.phases import Phases
from recbole_residual.evaluator.plain_rows import plain_position_scores, plain_scores
from recbole_residual.evaluator.ranks import rank_of, refuse_nan
from recbole_residual.evaluator.recovery_rate import OFFSETS
from recbole_residual.evaluator.row_pool import Pool
from recbole_residual.evaluator.state_reader import StateReader
from recbole_residual.evaluator.wanted import Wanted
from recbole_residual.model.residual import is_unscaled, unscaled


class CountingPass:
    """Ranks the rows of pools of one evaluation.

    Rows are sorted by length and trimmed; the model's states are multiplied with its items block by
    block, and higher scores counted. Where another item's score is nearer to that of a ranked one
    than rounding allows, the row goes through the model in RecBole's way, and RecBole's collector
    decides (:mod:`~recbole_residual.evaluator.plain_rows`).

    Args:
        model: in eval mode.
        config: the configuration.
        wanted: what the metrics need.
        observation: watches the model's forwards, or None where nobody needs what it sees.
    """

    def __init__(
        self, model: Any, config: Any, wanted: Wanted, observation: Observation | None
    ) -> None:
        self._model, self._config, self._wanted = model, config, wanted
        self._observation = observation
        self._reader = StateReader(model, config, wanted, observation)
        self._checked = False
        self._ranker: tuple[ItemProduct, Ranker] | None = None
        self.phases = Phases()
        self.n_plain = 0

    def run(self, pool: Pool) -> dict[str, torch.Tensor]:
        """Everything wanted of the rows of a pool, by the collector's names, in their order.

        Raises:
            NotCountableError: if they cannot be ranked so.
        """
        limited = pool.left_out is not None or pool.candidates is not None
        if limited and self._wanted.n_back:
            raise NotCountableError("input items may be masked")
        if not self._checked:
            with self.phases.of("check"):
                self._reader.check(pool)
            self._checked = True
        values: dict[str, torch.Tensor] = {}
        items = pool.target.new_zeros(len(pool), 1 + len(self._wanted.n_back))
        items[:, 0] = pool.target
        n_positions = pool.item_seq_len.clone()
        with self.phases.of("forward"):
            read = self._reader.read(pool, items, n_positions)
        counted = self._count(pool, read.product, items)
        self._own_values(values, counted)
        unsure = counted.first.uncertain | counted.uncertain_hits(self._wanted.ks)
        if self._wanted.lists:
            lists = self._lists(pool, read.product)
            values["rec.items"] = lists[0]
            unsure = unsure | lists[1]
        self._recbole_values(values, pool, counted.ranks[:, 0])
        self._settle(values, pool, items, unsure)
        if self._wanted.positions:
            self._position_values(values, pool, read.positions, n_positions)
        if self._wanted.ratios:
            self._ratio_values(values, read.ratios)
        return values

    # Counting ------------------------------------------------------------------------------------

    def _groups(
        self, parts: list[tuple[torch.Tensor, ItemProduct]], n_reads: int = 1
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor, Ranker]]:
        """Rows, their states [n_reads, R, D] and a ranker, as many rows at once as share items."""
        group: list[tuple[torch.Tensor, ItemProduct]] = []
        for part in parts:
            if group and not _share_items(group[-1][1], part[1]):
                yield self._joined(group, n_reads)
                group = []
            group.append(part)
        if group:
            yield self._joined(group, n_reads)

    def _joined(
        self, group: list[tuple[torch.Tensor, ItemProduct]], n_reads: int
    ) -> tuple[torch.Tensor, torch.Tensor, Ranker]:
        product = group[0][1]
        if self._ranker is None or not _share_items(self._ranker[0], product):
            largest = None if self._wanted.mean_rank else self._wanted.largest
            ranker = Ranker(product.items, product.bias, self._reader.margin, largest, self.phases)
            self._ranker = (product, ranker)
        states = [part.states.view(n_reads, len(rows), -1) for rows, part in group]
        return torch.cat([rows for rows, _ in group]), torch.cat(states, dim=1), self._ranker[1]

    def _count(
        self, pool: Pool, parts: list[tuple[torch.Tensor, ItemProduct]], items: torch.Tensor
    ) -> CountedRanks:
        ranks, lowest = torch.empty_like(items), torch.empty_like(items)
        for rows, states, ranker in self._groups(parts):
            counted = self._ranked(ranker, states[0], items[rows], pool, rows)
            ranks[rows], lowest[rows] = counted.ranks, counted.lowest
        return CountedRanks(ranks, lowest)

    def _lists(
        self, pool: Pool, parts: list[tuple[torch.Tensor, ItemProduct]]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        listed = pool.target.new_empty(len(pool), self._wanted.largest)
        uncertain = torch.empty(len(pool), dtype=torch.bool, device=listed.device)
        for rows, states, ranker in self._groups(parts):
            lists = self._listed(ranker, states[0], pool, rows)
            listed[rows], uncertain[rows] = lists.items, lists.uncertain
        return listed, uncertain

    def _ranked(
        self,
        ranker: Ranker,
        states: torch.Tensor,
        items: torch.Tensor,
        pool: Pool,
        rows: torch.Tensor,
    ) -> CountedRanks:
        if pool.candidates is None:
            return ranker.count(states, items, self._left_out(pool, rows))
        return count_among(ranker, states, items[:, 0] > 0, pool.candidates, rows)

    def _listed(
        self, ranker: Ranker, states: torch.Tensor, pool: Pool, rows: torch.Tensor
    ) -> Lists:
        k = self._wanted.largest
        if pool.candidates is None:
            return ranker.top(states, k, self._left_out(pool, rows))
        return top_among(ranker, states, k, pool.candidates, rows)

    def _left_out(self, pool: Pool, rows: torch.Tensor) -> LeftOut | None:
        return None if pool.left_out is None else pool.left_out.of_selected(rows, len(pool))

    # By the collector's names --------------------------------------------------------------------

    def _own_values(self, values: dict[str, torch.Tensor], counted: CountedRanks) -> None:
        for column, name in enumerate(self._wanted.n_back, start=1):
            values[name] = counted.ranks[:, column]
        if self._wanted.positions:
            values["rec.target_rank"] = counted.ranks[:, 0].clone()

    def _recbole_values(
        self, values: dict[str, torch.Tensor], pool: Pool, ranks: torch.Tensor
    ) -> None:
        """Of rows in which no other score is near the target's."""
        if self._wanted.topk:
            place = torch.arange(1, self._wanted.largest + 1, device=ranks.device)
            hits = (ranks.unsqueeze(1) == place).int()
            values["rec.topk"] = torch.cat([hits, torch.ones_like(hits[:, :1])], dim=1)
        if self._wanted.mean_rank:
            n_ranked = torch.full_like(ranks, self._model.n_items - 1)
            if pool.candidates is not None:
                n_ranked = pool.candidates.counted.sum(dim=1)
            elif pool.left_out is not None:
                pairs = torch.stack([pool.left_out.row, pool.left_out.item])
                row, item = torch.unique(pairs, dim=1)
                n_ranked -= torch.bincount(row[item > 0], minlength=len(ranks))
            columns = [ranks.float(), n_ranked.float(), torch.ones_like(ranks).float()]
            values["rec.meanrank"] = torch.stack(columns, dim=1)

    def _settle(
        self,
        values: dict[str, torch.Tensor],
        pool: Pool,
        items: torch.Tensor,
        unsure: torch.Tensor,
    ) -> None:
        """Where rounding decides, RecBole's collector does, on the model's own scores."""
        rows = unsure.nonzero().squeeze(1)
        self.n_plain += len(rows)
        with self.phases.of("plain"), self._reader.paused():
            for part, scores in plain_scores(self._model, pool, rows):
                collector = Collector(self._config)
                collector.device = scores.device
                at = torch.arange(len(part), device=part.device)
                collector.eval_batch_collect(scores, pool.interaction[part], at, pool.target[part])
                for name, value in collector.data_struct._data_dict.items():
                    values[name][part] = value.to(values[name].dtype)
                if not self._wanted.ours:
                    continue
                refuse_nan(scores)
                ranks = rank_of(scores, items[part])
                for column, name in enumerate(self._wanted.n_back, start=1):
                    values[name][part] = ranks[:, column]
                if self._wanted.positions:
                    values["rec.target_rank"][part] = ranks[:, 0]

    def _position_values(
        self,
        values: dict[str, torch.Tensor],
        pool: Pool,
        parts: list[tuple[torch.Tensor, ItemProduct]],
        n_positions: torch.Tensor,
    ) -> None:
        reached = n_positions.unsqueeze(1) > torch.tensor(OFFSETS, device=n_positions.device)
        # At alpha = 1 the target has just been ranked at the last position.
        known = is_unscaled(self._model)
        ranks = pool.target.new_zeros(len(pool), len(OFFSETS))
        unsure = torch.zeros(len(pool), dtype=torch.bool, device=ranks.device)
        for rows, states, ranker in self._groups(parts, len(OFFSETS)):
            for column in range(int(known), len(OFFSETS)):
                target = pool.target[rows] * reached[rows, column]
                counted = self._ranked(ranker, states[column], target.unsqueeze(1), pool, rows)
                ranks[rows, column] = counted.ranks[:, 0]
                unsure[rows] |= counted.uncertain_hits(self._wanted.ks)
        with self.phases.of("plain"), self._reader.paused(), unscaled(self._model):
            rows = unsure.nonzero().squeeze(1)
            for part, read in plain_position_scores(self._model, pool, rows, OFFSETS):
                for column, scores in enumerate(read):
                    refuse_nan(scores)
                    ranks[part, column] = rank_of(scores, pool.target[part])
        if known:
            ranks[:, 0] = values["rec.target_rank"]
        values["rec.position_rank"] = ranks * reached

    def _ratio_values(
        self, values: dict[str, torch.Tensor], parts: list[tuple[torch.Tensor, SequenceRatios]]
    ) -> None:
        back = torch.argsort(torch.cat([rows for rows, _ in parts]))
        for name, of in (
            ("rec.mixing_ratio", lambda ratios: ratios.mean),
            ("rec.mixing_ratio_last", lambda ratios: ratios.last),
            ("rec.mixing_positions", lambda ratios: ratios.n_positions),
        ):
            values[name] = torch.cat([of(ratios) for _, ratios in parts])[back]


def _share_items(one: ItemProduct, other: ItemProduct) -> bool:
    """Whether two products, both still held, have the same items and the same bias."""

    def same(left: torch.Tensor | None, right: torch.Tensor | None) -> bool:
        if left is None or right is None:
            return left is right
        return (left.data_ptr(), left.shape, left.stride()) == (
            right.data_ptr(),
            right.shape,
            right.stride(),
        )

    return same(one.items, other.items) and same(one.bias, other.bias)
