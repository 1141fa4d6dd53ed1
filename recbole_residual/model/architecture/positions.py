"""The last valid position of a sequence, and the positions that a ranking is read from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from recbole.model.sequential_recommender import (
    CORE,
    FOSSIL,
    HGN,
    KSR,
    NARM,
    SRGNN,
    STAMP,
    RepeatNet,
    SASRecCPR,
)

from recbole_residual.compat import replaced

POOLS_ITS_POSITIONS = (CORE, SASRecCPR)
"""Models whose ranking comes from no single position. Both are causal, so what position L - o
knows is what the model makes of the input without its last o items."""

GATHERS_ON_THE_WAY = (FOSSIL, HGN, KSR, NARM, RepeatNet, SRGNN, STAMP)
"""Models that call ``gather_indexes`` and go on with the whole sequence after it."""


def last_valid_position(mask: torch.Tensor) -> torch.Tensor:
    """Index of the last valid position of each row, 0 where a row has none.

    Args:
        mask: valid positions, [B, L].

    Returns:
        torch.Tensor: int64, [B].

    Example:
        >>> last_valid_position(torch.tensor([[True, True, False], [False, True, True]])).tolist()
        [1, 2]
    """
    return (torch.arange(mask.shape[1], device=mask.device) * mask).amax(dim=1)


@contextmanager
def picking_positions(model: Any, offsets: Sequence[int]) -> Iterator[list[bool]]:
    """Inside, ``gather_indexes`` picks one position per offset, stacked along the batch.

    RecBole's attention models pick the representation of the last position with
    ``self.gather_indexes(output, item_seq_len - 1)`` and score it against the items.

    Args:
        model: a RecBole sequential model.
        offsets: distances from the position that the model asks for; a position before the first
            stands for the first.

    Yields:
        list[bool]: one entry for every call of ``gather_indexes`` so far.
    """
    pick = model.gather_indexes
    calls: list[bool] = []

    def pick_all(output: torch.Tensor, gather_index: torch.Tensor) -> torch.Tensor:
        calls.append(True)
        return torch.cat([pick(output, (gather_index - o).clamp(min=0)) for o in offsets])

    with replaced(model, "gather_indexes", pick_all):
        yield calls
