"""A SASRec under many settings in one pass over the data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from recbole.data.interaction import Interaction

from recbole_residual.decomposition.stages import ATTENTION_STAGES
from recbole_residual.evaluator.counting import Ranker
from recbole_residual.evaluator.earlier_ranking import position_scores
from recbole_residual.evaluator.ranks import rank_of, refuse_nan
from recbole_residual.evaluator.recovery_rate import OFFSETS
from recbole_residual.model.architecture.layers import model_layers
from recbole_residual.model.architecture.window import ModelInput
from recbole_residual.probe.engine.counts import RANKED, Counts, Evaluation
from recbole_residual.probe.engine.encoder import SweepEncoder
from recbole_residual.probe.engine.rows import Pool, Rows, pooled
from recbole_residual.probe.engine.setting import ScalableResiduals, Setting, applied
from recbole_residual.probe.engine.setting_tree import SettingTree

_POOL_ROWS = 8192
_POSITIONS = {"cpu": 1600}
"""Positions that go through the network at once: on a CPU few enough to stay in its cache."""
_POSITIONS_ELSEWHERE = 2**16
_PLAIN_SCORES = 2**24
"""Scores held at once where rows are evaluated by the model itself."""
_ROWS_PER_THREAD, _COLUMNS = 8, 16
"""On a CPU, from this many rows per thread and positions per row on the bits do not change."""


class SasrecPass:
    """One pass of a SASRec over the data for all settings.

    Args:
        model: a model for which ``is_plain_sasrec`` holds, in eval mode.
        settings: different settings.
        topk: the values of k.
    """

    def __init__(self, model: Any, settings: Sequence[Setting], topk: Sequence[int]) -> None:
        self._model = model
        self._settings = list(settings)
        unscaled = ScalableResiduals.of(model).unscaled
        # The recoverable base is fixed at alpha = 1, also where that is not asked for.
        self._all = self._settings + [unscaled] * (unscaled not in self._settings)
        self._base = self._all.index(unscaled)
        self._encoder = SweepEncoder(model, SettingTree.of(self._all), self._base, len(OFFSETS) - 1)
        self._ranker = Ranker(model.item_embedding.weight)
        self._layers = [layer.label for layer in model_layers(model)]
        self._tally = Counts(len(self._settings), topk, ATTENTION_STAGES)
        self._paths = torch.tensor(self._encoder.tree.paths[: len(self._settings)])
        self._n_plain = 0

    def run(self, rows: Iterator[Rows]) -> Evaluation:
        """Evaluate all rows."""
        for pool in pooled(rows, self._model, _POOL_ROWS):
            ranks, position_ranks = self.rank(pool)
            self._tally.add_ranks(ranks[: len(self._settings)], position_ranks)
        return Evaluation(self._tally, [], self._n_plain)

    def rank(self, pool: Pool) -> tuple[torch.Tensor, torch.Tensor]:
        """Ranks of some rows; their mixing ratios go into the counts.

        Returns:
            The ranks of the items of ``RANKED``, [S, R, 3], and those of the target at L, L-1,
            L-2, L-3 under the unchanged model, 0 where there is no such position, [R, 4].
        """
        given = ModelInput.of(pool.item_seq, pool.item_seq_len)
        items = torch.stack([pool.target, given.item_before_end(0), given.item_before_end(1)], 1)
        n_rows, n_back = len(items), len(OFFSETS) - 1
        ranks = items.new_empty(len(self._all), n_rows, len(RANKED))
        position_ranks = items.new_empty(n_rows, len(OFFSETS))
        unsure = torch.zeros(len(self._all), n_rows, dtype=torch.bool, device=items.device)
        unsure_read = torch.zeros(n_rows, dtype=torch.bool, device=items.device)
        for chunk in self._chunks(pool.item_seq_len):
            length = pool.item_seq_len[chunk]
            encoded = self._encoder.encode(pool.item_seq[chunk, : int(length.max())], length)
            wanted = items[chunk]
            counted = self._ranker.count(
                encoded.hidden.flatten(0, 1), wanted.repeat(len(self._all), 1)
            )
            ranks[:, chunk] = counted.ranks.view(len(self._all), len(chunk), -1)
            unsure[:, chunk] = counted.uncertain.view(len(self._all), -1)
            read = self._ranker.count(encoded.read.flatten(0, 1), wanted[:, :1].repeat(n_back, 1))
            position_ranks[chunk, 1:] = read.ranks.view(n_back, -1).t()
            unsure_read[chunk] = read.uncertain.view(n_back, -1).any(dim=0)
            self._add_ratios(encoded.ratio_sums, length)
        self._settle(pool, items, ranks, unsure)
        self._settle_read(pool, position_ranks, unsure_read)
        position_ranks[:, 0] = ranks[self._base, :, 0]
        reached = pool.item_seq_len.unsqueeze(1) > torch.tensor(OFFSETS, device=items.device)
        return ranks, position_ranks * reached

    def _chunks(self, item_seq_len: torch.Tensor) -> Iterator[torch.Tensor]:
        """Rows of nearly the same length, a bounded number of positions at a time."""
        limit = _POSITIONS.get(item_seq_len.device.type, _POSITIONS_ELSEWHERE)
        order = torch.sort(item_seq_len, stable=True).indices
        lengths = item_seq_len[order].cpu().numpy()
        start = 0
        while start < len(lengths):
            tail = lengths[start : start + limit]
            n_positions = tail * np.arange(1, len(tail) + 1)
            end = start + max(1, int(np.searchsorted(n_positions, limit, side="right")))
            yield order[start:end]
            start = end

    def _add_ratios(self, sums: list[torch.Tensor], item_seq_len: torch.Tensor) -> None:
        paths = self._paths.to(item_seq_len.device)
        by_layer = [of_nodes[paths[:, layer]] for layer, of_nodes in enumerate(sums)]
        self._tally.add_ratios(
            self._layers,
            torch.stack(by_layer, dim=1),
            torch.stack([item_seq_len.sum(), torch.full_like(item_seq_len[0], len(item_seq_len))]),
        )

    def _parts(self, pool: Pool, rows: torch.Tensor) -> Iterator[tuple[torch.Tensor, Interaction]]:
        """Some rows, a bounded number at a time, and the batch that evaluates them.

        The last bits of a forward depend on the batch where it is small: then other kernels work.
        A batch is filled up with copies of a row, and kept so wide, that it computes like those.
        """
        rows = rows[torch.argsort(pool.item_seq_len[rows], stable=True)]
        unit = 1 if rows.device.type != "cpu" else _ROWS_PER_THREAD * torch.get_num_threads()
        step = max(1, _PLAIN_SCORES // (self._model.n_items * len(OFFSETS)) // unit) * unit
        for start in range(0, len(rows), step):
            part = rows[start : start + step]
            filled = torch.cat([part, part[:1].expand(-len(part) % unit)])
            item_seq_len = pool.item_seq_len[filled]
            width = -(-int(item_seq_len.max()) // _COLUMNS) * _COLUMNS
            batch = {
                self._model.ITEM_SEQ: pool.item_seq[filled, :width],
                self._model.ITEM_SEQ_LEN: item_seq_len,
            }
            yield part, Interaction(batch)

    def _settle(
        self, pool: Pool, items: torch.Tensor, ranks: torch.Tensor, unsure: torch.Tensor
    ) -> None:
        """Where rounding decides, the model's own scores do."""
        for setting, of_setting, at in zip(self._all, ranks, unsure):
            rows = at.nonzero().squeeze(1)
            self._n_plain += len(rows)
            with applied(self._model, setting):
                for part, batch in self._parts(pool, rows):
                    scores = self._model.full_sort_predict(batch)[: len(part)]
                    refuse_nan(scores)
                    of_setting[part] = rank_of(scores, items[part])

    def _settle_read(self, pool: Pool, position_ranks: torch.Tensor, unsure: torch.Tensor) -> None:
        offsets = OFFSETS[1:]
        with applied(self._model, self._all[self._base]):
            for part, batch in self._parts(pool, unsure.nonzero().squeeze(1)):
                read = position_scores(self._model, batch, offsets)[:, : len(part)]
                for offset, scores in zip(offsets, read):
                    refuse_nan(scores)
                    position_ranks[part, offset] = rank_of(scores, pool.target[part])
