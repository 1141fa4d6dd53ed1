"""A SASRec under many settings in one pass over the data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

from recbole_residual.decomposition.stages import ATTENTION_STAGES
from recbole_residual.evaluator.counting import Ranker
from recbole_residual.evaluator.recovery_rate import OFFSETS
from recbole_residual.evaluator.rounding import fewest_rows, relative_margin
from recbole_residual.evaluator.row_pool import cuts
from recbole_residual.model.architecture.layers import model_layers
from recbole_residual.model.architecture.score import item_vectors
from recbole_residual.model.architecture.window import ModelInput
from recbole_residual.probe.engine.counts import RANKED, Counts
from recbole_residual.probe.engine.encoder import SweepEncoder
from recbole_residual.probe.engine.outcome import Evaluation
from recbole_residual.probe.engine.plain_ranks import PlainRanks
from recbole_residual.probe.engine.rows import Pool, Rows, pooled
from recbole_residual.probe.engine.sequence_figures import SequenceFigures
from recbole_residual.probe.engine.setting import ScalableResiduals, Setting
from recbole_residual.probe.engine.setting_tree import SettingTree

_POOL_ROWS = 8192
_POSITIONS = {"cpu": 1600}
"""Positions that go through the network at once: on a CPU few enough to stay in its cache."""
_POSITIONS_ELSEWHERE = 2**16


class SasrecPass:
    """One pass of a SASRec over the data for all settings.

    Ranks up to the largest k are those of the model's own scores. The pass computes the same
    numbers in another order, so its scores are rounded otherwise; where another item's score is
    nearer to that of a ranked one than the margin, the row goes through the model itself. The
    margin follows from the arithmetic (width, depth, precision in force), and is widened to what
    some rows of the data show, scored in both ways.

    Args:
        model: a model for which ``is_plain_sasrec`` holds, in eval mode.
        settings: different settings.
        topk: the values of k; ranks above the largest are only known to be above it.
    """

    def __init__(self, model: Any, settings: Sequence[Setting], topk: Sequence[int]) -> None:
        self._model = model
        self._settings = list(settings)
        unscaled = ScalableResiduals.of(model).unscaled
        # The recoverable base is fixed at alpha = 1, also where that is not asked for.
        self._all = self._settings + [unscaled] * (unscaled not in self._settings)
        self._base = self._all.index(unscaled)
        self._encoder = SweepEncoder(model, SettingTree.of(self._all), self._base, len(OFFSETS) - 1)
        self._items = item_vectors(model)
        self._largest = max(topk)
        self._ranker: Ranker | None = None
        self._layers = [layer.label for layer in model_layers(model)]
        self._counts = Counts(len(self._settings), topk, ATTENTION_STAGES)
        self._sequences = SequenceFigures(topk, ATTENTION_STAGES)
        self._paths = torch.tensor(self._encoder.tree.paths[: len(self._settings)])
        self._n_plain = 0

    def run(self, rows: Iterator[Rows]) -> Evaluation:
        """Evaluate all rows."""
        for pool in pooled(rows, self._model, _POOL_ROWS):
            ranks, position_ranks = self.rank(pool)
            self._counts.add_ranks(ranks[: len(self._settings)], position_ranks)
            self._sequences.add_ranks(ranks[: len(self._settings)], position_ranks)
        return Evaluation.of(self._counts, [], self._n_plain, self._sequences)

    def rank(self, pool: Pool) -> tuple[torch.Tensor, torch.Tensor]:
        """Ranks of some rows; their mixing ratios go into the counts.

        Returns:
            The ranks of ``RANKED``, [S, R, 4], and those of the target at L, L-1, L-2, L-3 under
            the unchanged model, 0 where there is no such position, [R, 4].
        """
        plain = PlainRanks(self._model, pool, self._largest)
        if self._ranker is None:
            self._ranker = Ranker(self._items, None, self._margin(plain, pool), self._largest)
        window = ModelInput.of(pool.item_seq, pool.item_seq_len)
        items = torch.stack([pool.target, window.item_before_end(0), window.item_before_end(1)], 1)
        n_rows, n_back, n_all = len(items), len(OFFSETS) - 1, len(self._all)
        ranks = items.new_empty(n_all, n_rows, len(RANKED))
        position_ranks = items.new_empty(n_rows, len(OFFSETS))
        unsure = torch.zeros(n_all, n_rows, dtype=torch.bool, device=items.device)
        unsure_read = torch.zeros(n_rows, dtype=torch.bool, device=items.device)
        shape = (len(self._settings), len(self._layers), len(ATTENTION_STAGES), n_rows, 2)
        ratios = torch.empty(shape, device=items.device)
        for chunk, length in _chunks(plain.lengths, items.device):
            item_seq_len, ranked = pool.item_seq_len[chunk], items[chunk]
            encoded = self._encoder.encode(pool.item_seq[chunk, :length], item_seq_len)
            counted = self._ranker.count(encoded.hidden.flatten(0, 1), ranked.repeat(n_all, 1))
            ranks[:, chunk, :3] = counted.ranks.view(n_all, len(chunk), -1)
            unsure[:, chunk] = counted.uncertain.view(n_all, -1)
            read = self._ranker.count(encoded.read.flatten(0, 1), ranked[:, :1].repeat(n_back, 1))
            position_ranks[chunk, 1:] = read.ranks.view(n_back, -1).t()
            unsure_read[chunk] = read.uncertain.view(n_back, -1).any(dim=0)
            self._add_ratios(encoded.ratio_sums, item_seq_len)
            ratios[:, :, :, chunk] = self._by_setting(encoded.row_sums).transpose(0, 1).float()
        self._sequences.add_ratios(self._layers, ratios, pool.item_seq_len)
        ranks[:, :, 3] = ranks[:, :, 0]
        self._n_plain += plain.settle(self._all, items, ranks, unsure)
        plain.settle_positions(self._all[self._base], position_ranks, unsure_read)
        position_ranks[:, 0] = ranks[self._base, :, 0]
        has_position = pool.item_seq_len.unsqueeze(1) > torch.tensor(OFFSETS, device=items.device)
        return ranks, position_ranks * has_position

    def _margin(self, plain: PlainRanks, pool: Pool) -> float:
        """See the class; measured under the unchanged model and the setting that is furthest."""
        order = np.argsort(plain.lengths, kind="stable")
        n_rows = min(len(order), fewest_rows(pool.target.device))
        rows = order[np.unique(np.linspace(0, len(order) - 1, n_rows).round().astype(int))]
        chunk = torch.from_numpy(rows).to(pool.target.device)
        length = int(plain.lengths[rows].max())
        encoded = self._encoder.encode(pool.item_seq[chunk, :length], pool.item_seq_len[chunk])
        factors = [(*setting.alpha, *setting.feed_forward) for setting in self._all]
        distances = [sum(abs(a - b) for a, b in zip(f, factors[self._base])) for f in factors]
        margins = [relative_margin(self._model)]
        for index in {self._base, int(np.argmax(distances))}:
            states = encoded.hidden[index]
            size = Ranker(self._items).size(states)
            scores = states @ self._items.t()
            margins.append(plain.measured_margin(self._all[index], rows, scores, size))
        return max(margins)

    def _add_ratios(self, sums: list[torch.Tensor], item_seq_len: torch.Tensor) -> None:
        n_last = torch.full_like(item_seq_len[0], len(item_seq_len))
        self._counts.add_ratios(
            self._layers,
            self._by_setting(sums).transpose(0, 1),
            torch.stack([item_seq_len.sum(), n_last]),
        )

    def _by_setting(self, sums: list[torch.Tensor]) -> torch.Tensor:
        """What the nodes of the tree have, for each setting that passes them, [layer, S, ...]."""
        paths = self._paths.to(sums[0].device)
        return torch.stack([of_nodes[paths[:, layer]] for layer, of_nodes in enumerate(sums)])


def _chunks(lengths: np.ndarray, device: torch.device) -> Iterator[tuple[torch.Tensor, int]]:
    """Rows of nearly the same length and the longest of these, a bounded number of positions at a
    time."""
    limit = _POSITIONS.get(device.type, _POSITIONS_ELSEWHERE)
    order = np.argsort(lengths, kind="stable")
    for part in cuts(lengths[order], limit):
        rows = order[part]
        yield torch.from_numpy(rows).to(device), int(lengths[rows[-1]])
