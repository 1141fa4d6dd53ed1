"""The average map of the most recent positions: the heatmap of the papers."""

from __future__ import annotations

import pandas as pd
import torch

from recbole_residual.decomposition.masks import recent_positions
from recbole_residual.decomposition.result import Decomposition
from recbole_residual.errors import ModelError
from recbole_residual.model.architecture.precision import widened

RECENT = 15
"""Number of positions in the heatmaps of the papers."""


class RecentMap:
    """Streaming average of contribution and attention maps over the most recent positions.

    Sequences are aligned at the right, the last position at the end; a short one counts only where
    it has positions. Memory does not depend on how much has been seen, and the order of batches and
    merges matters to rounding only.

    Args:
        recent: number of positions, K.
    """

    def __init__(self, recent: int = RECENT) -> None:
        self.recent = recent
        self.layers: tuple[str, ...] = ()
        self.last_position: str | None = None
        self._count = torch.zeros(recent, recent, dtype=torch.float64)
        self._contributions = torch.zeros(0)
        self._attention = torch.zeros(0)

    def update(self, decomposition: Decomposition) -> None:
        """Add the maps of one batch, those of all positions or of at least ``recent`` ones.

        Raises:
            ValueError: if it holds no maps or too few positions, or other layers than before.
        """
        contributions, attention = decomposition.contributions, decomposition.attention
        map_mask = decomposition.map_mask
        if contributions is None or attention is None or map_mask is None:
            raise ModelError("There are no maps in this decomposition: ask for maps=True.")
        if map_mask.shape[1] < min(self.recent, decomposition.mask.shape[1]):
            raise ModelError(
                f"The maps hold {map_mask.shape[1]} recent positions, {self.recent} are "
                f"needed: ask for recent={self.recent}."
            )
        positions = recent_positions(map_mask, self.recent)
        valid = positions.valid[:, :, None] & positions.valid[:, None, :]
        rows = torch.arange(len(valid), device=valid.device)[:, None, None]
        where = (slice(None), rows, positions.index[:, :, None], positions.index[:, None, :])
        self._add(
            decomposition.layers,
            decomposition.last_position,
            widened(valid.sum(dim=0)),
            widened(contributions[where] * valid).sum(dim=1),
            widened(attention[where] * valid).sum(dim=1),
        )

    def merge(self, other: RecentMap) -> None:
        """Add everything that ``other`` has seen.

        Raises:
            ValueError: if it has other layers or another number of positions.
        """
        if other.recent != self.recent:
            raise ModelError(f"A map of {other.recent} positions cannot join {self.recent}.")
        if other.last_position is not None:
            self._add(
                other.layers,
                other.last_position,
                other._count,
                other._contributions,
                other._attention,
            )

    def _add(
        self,
        layers: tuple[str, ...],
        last_position: str,
        count: torch.Tensor,
        contributions: torch.Tensor,
        attention: torch.Tensor,
    ) -> None:
        if self.last_position is None:
            self.layers, self.last_position = layers, last_position
            self._count = torch.zeros_like(count)
            self._contributions = torch.zeros_like(contributions)
            self._attention = torch.zeros_like(attention)
        elif (layers, last_position) != (self.layers, self.last_position):
            raise ModelError(f"Maps of layers {layers} cannot be added to those of {self.layers}.")
        self._count += count
        self._contributions += contributions
        self._attention += attention

    @property
    def count(self) -> torch.Tensor:
        """Number of sequences that have both positions, [K, K]."""
        return self._count.long()

    @property
    def contributions(self) -> torch.Tensor:
        """Average contribution, row takes from column, last position last, NaN where no sequence
        has both positions, [layer, K, K]."""
        return self._contributions / self._count

    @property
    def attention(self) -> torch.Tensor:
        """Average attention over sequences and heads, laid out in the same way, [layer, K, K]."""
        return self._attention / self._count

    def to_frame(self) -> pd.DataFrame:
        """A tidy table: layer, query and key (positions before the last one: 0, 1, ...),
        contribution, attention, count, last_position."""
        rows = []
        maps = zip(self.layers, self.contributions.tolist(), self.attention.tolist())
        counts = self.count.tolist()
        for layer, contributions, attention in maps:
            for row in range(self.recent):
                for column in range(self.recent):
                    rows.append(
                        {
                            "layer": layer,
                            "query": self.recent - 1 - row,
                            "key": self.recent - 1 - column,
                            "contribution": contributions[row][column],
                            "attention": attention[row][column],
                            "count": counts[row][column],
                            "last_position": self.last_position,
                        }
                    )
        return pd.DataFrame(rows)
