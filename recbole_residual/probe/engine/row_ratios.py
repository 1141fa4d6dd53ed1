"""Mixing ratios of every sequence, by layer, stage and group of positions."""

from __future__ import annotations

from typing import Callable

import numpy as np
import torch

from recbole_residual.decomposition.result import Decomposition
from recbole_residual.decomposition.sums import row_sums
from recbole_residual.probe.engine.sequence_figures import Column


class RowRatios:
    """Sums of mixing ratios of each sequence, from which every mean is made.

    Args:
        groups_of: the groups of positions under a mask of valid positions, as of
            :func:`~recbole_residual.decomposition.sums.counted_from_end`.
    """

    def __init__(self, groups_of: Callable[[torch.Tensor], torch.Tensor]) -> None:
        self._groups_of = groups_of
        self._layers: tuple[str, ...] = ()
        self._stages: tuple[str, ...] = ()
        self._sums: list[torch.Tensor] = []
        self._counts: list[torch.Tensor] = []
        self._whole: tuple[np.ndarray, np.ndarray] | None = None

    def add(self, forward: Decomposition) -> None:
        """Add one batch; what is kept stays on its device, so that nothing waits for it."""
        groups = self._groups_of(forward.mask)
        self._layers, self._stages = forward.layers, forward.stages
        self._sums.append(row_sums(forward.ratios, groups))
        self._counts.append(groups.sum(dim=1))

    def column(self, layer: str, stage: str, group: int) -> Column:
        """What sequences add to a mean.

        Args:
            layer: its label, or "all" for the mean over all layers.
            stage: name of the stage.
            group: number of the group of positions.
        """
        if self._whole is None:
            by_row, n_positions = torch.cat(self._sums, dim=2), torch.cat(self._counts)
            self._whole = by_row.cpu().numpy(), n_positions.T.contiguous().cpu().numpy()
        sums, counts = self._whole
        of_stage = sums[:, self._stages.index(stage), :, group]
        if layer == "all":
            return of_stage.mean(axis=0), counts[group]
        return of_stage[self._layers.index(layer)], counts[group]
