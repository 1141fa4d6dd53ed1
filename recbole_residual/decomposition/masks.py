"""Valid positions, counted from the last one."""

from __future__ import annotations

from dataclasses import dataclass

import torch


def positions_from_end(mask: torch.Tensor) -> torch.Tensor:
    """Distance of each valid position from the last valid one (0 for that one itself).

    Args:
        mask: valid positions, [B, L].

    Returns:
        torch.Tensor: int64, meaningless at padding, [B, L].

    Example:
        >>> positions_from_end(torch.tensor([[True, True, True, False]])).tolist()
        [[2, 1, 0, 0]]
    """
    return mask.sum(dim=1, keepdim=True) - mask.cumsum(dim=1)


@dataclass(frozen=True)
class RecentPositions:
    """The most recent valid positions of each row, aligned at the right.

    Attributes:
        index: where they are in the row, 0 where there is none, [B, K].
        valid: whether there is one, [B, K].
    """

    index: torch.Tensor
    valid: torch.Tensor


def recent_positions(mask: torch.Tensor, recent: int) -> RecentPositions:
    """Find the most recent valid positions.

    Args:
        mask: valid positions, [B, L].
        recent: how many, K.

    Example:
        >>> recent = recent_positions(torch.tensor([[True, True, False], [True, True, True]]), 3)
        >>> recent.index.tolist()
        [[0, 0, 1], [0, 1, 2]]
        >>> recent.valid.tolist()
        [[False, True, True], [True, True, True]]
    """
    numbered = torch.arange(mask.shape[1], device=mask.device).expand_as(mask)
    latest = numbered.masked_fill(~mask, -1).topk(min(recent, mask.shape[1])).values.flip(-1)
    latest = torch.nn.functional.pad(latest, (recent - latest.shape[1], 0), value=-1)
    return RecentPositions(latest.clamp_min(0), latest >= 0)
