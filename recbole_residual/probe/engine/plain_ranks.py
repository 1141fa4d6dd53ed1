"""Rows in which rounding decides: ranked by the model's own scores."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from recbole.data.interaction import Interaction

from recbole_residual.evaluator import rounding
from recbole_residual.evaluator.earlier_ranking import position_scores
from recbole_residual.evaluator.ranks import listed_rank, nan_rows, rank_of, refuse_rows
from recbole_residual.evaluator.recovery_rate import OFFSETS
from recbole_residual.probe.engine.rows import Pool
from recbole_residual.probe.engine.setting import Setting, applied

_SCORES = 2**24
"""Scores held at once."""
_COLUMNS = 16
"""A forward is this wide, or a multiple of it: then its bits are those of the whole window."""


class PlainRanks:
    """Ranks of single rows of a pool by ``model.full_sort_predict``.

    The last bits of a forward depend on the batch where it is small: then other kernels work. A
    batch is filled up with copies of a row, and kept so wide, that it computes like large ones.

    Args:
        model: a SASRec, in eval mode.
        pool: the rows.
        largest: the largest k; places in RecBole's list matter up to this one.

    Attributes:
        lengths: of the rows, on the host, [R].
    """

    def __init__(self, model: Any, pool: Pool, largest: int) -> None:
        self._model, self._pool, self._largest = model, pool, largest
        self._device = pool.target.device
        self.lengths: np.ndarray = pool.item_seq_len.cpu().numpy()

    def settle(
        self,
        settings: Sequence[Setting],
        items: torch.Tensor,
        ranks: torch.Tensor,
        unsure: torch.Tensor,
    ) -> int:
        """Put the ranks of ``RANKED`` where they are uncertain.

        Args:
            settings: S of them.
            items: what is ranked: target and the last two input items, [R, 3].
            ranks: changed in place, [S, R, 4].
            unsure: where, [S, R].

        Returns:
            How many pairs of a row and a setting.

        Raises:
            NaNScoreError: if a score is NaN.
        """
        broken = []
        where = unsure.cpu().numpy()
        for setting, of_setting, rows in zip(settings, ranks, where):
            for at, batch in self._batches(np.flatnonzero(rows), 1):
                scores = self._scores(setting, batch)[: len(at)]
                broken.append(nan_rows(scores))
                of_setting[at, :3] = rank_of(scores, items[at])
                of_setting[at, 3] = listed_rank(scores, items[at, 0], self._largest)
        if broken:
            refuse_rows(torch.cat(broken))
        return int(where.sum())

    def settle_positions(
        self, unscaled: Setting, position_ranks: torch.Tensor, unsure: torch.Tensor
    ) -> None:
        """The same for ranks of the target read at L-1, L-2 and L-3.

        Args:
            unscaled: the unchanged model.
            position_ranks: changed in place, [R, 4].
            unsure: where, [R].
        """
        offsets, broken = OFFSETS[1:], []
        with applied(self._model, unscaled):
            rows = np.flatnonzero(unsure.cpu().numpy())
            for at, batch in self._batches(rows, len(offsets)):
                read = position_scores(self._model, batch, offsets)[:, : len(at)]
                broken.append(nan_rows(read).any(dim=0))
                for offset, scores in zip(offsets, read):
                    position_ranks[at, offset] = rank_of(scores, self._pool.target[at])
        if broken:
            refuse_rows(torch.cat(broken))

    def measured_margin(
        self, setting: Setting, rows: np.ndarray, scores: torch.Tensor, size: torch.Tensor
    ) -> float:
        """How far the model's own scores are from others of the same rows, with a factor for rows
        that were not looked at; infinite if one is not finite.

        Args:
            setting: of both.
            rows: numbers of rows, [N].
            scores: of these rows, [N, n_items].
            size: an upper bound of each row's scores, [N].
        """
        margin = 0.0
        place = torch.empty(len(self.lengths), dtype=torch.int64)
        place[torch.from_numpy(rows)] = torch.arange(len(rows))
        for at, batch in self._batches(rows, 1):
            own = self._scores(setting, batch)[: len(at), 1:]
            others = place[at.cpu()].to(self._device)
            apart = rounding.measured_margin(own, scores[others, 1:], size[others])
            margin = max(margin, apart if math.isfinite(apart) else math.inf)
        return margin

    def _scores(self, setting: Setting, batch: Interaction) -> torch.Tensor:
        with applied(self._model, setting):
            return self._model.full_sort_predict(batch)

    def _batches(
        self, rows: np.ndarray, n_reads: int
    ) -> Iterator[tuple[torch.Tensor, Interaction]]:
        """Some rows and the batch that evaluates them, a bounded number of scores at a time."""
        rows = rows[np.argsort(self.lengths[rows], kind="stable")]
        unit = rounding.fewest_rows(self._device)
        step = max(1, _SCORES // (self._model.n_items * n_reads) // unit) * unit
        for start in range(0, len(rows), step):
            chosen = rows[start : start + step]
            filled = np.concatenate([chosen, np.repeat(chosen[:1], -len(chosen) % unit)])
            width = -(-int(self.lengths[chosen].max()) // _COLUMNS) * _COLUMNS
            at = torch.from_numpy(filled).to(self._device)
            yield (
                at[: len(chosen)],
                Interaction(
                    {
                        self._model.ITEM_SEQ: self._pool.item_seq[at, :width],
                        self._model.ITEM_SEQ_LEN: self._pool.item_seq_len[at],
                    }
                ),
            )
