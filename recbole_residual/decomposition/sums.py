"""Sums of mixing ratios over groups of positions, from which every mean is made."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from recbole_residual.decomposition.masks import positions_from_end
from recbole_residual.model.architecture.positions import last_valid_position
from recbole_residual.model.architecture.precision import widened


def all_and_last(mask: torch.Tensor) -> torch.Tensor:
    """The two groups that every evaluation reports: all valid positions, and the last ones.

    Args:
        mask: valid positions, [B, L].

    Returns:
        torch.Tensor: 1 where a position is in the group, float64, [B, L, 2].

    Example:
        >>> all_and_last(torch.tensor([[True, True, False]]))[0].T.tolist()
        [[1.0, 1.0, 0.0], [0.0, 1.0, 0.0]]
    """
    last = torch.zeros_like(mask).scatter_(1, last_valid_position(mask).unsqueeze(1), 1)
    return widened(torch.stack([mask, last & mask], dim=-1))


def counted_from_end(mask: torch.Tensor, offsets: Sequence[int]) -> torch.Tensor:
    """One group for each distance from the last valid position.

    Args:
        mask: valid positions, [B, L].
        offsets: the distances, 0 for the last position.

    Returns:
        torch.Tensor: 1 where a position is in the group, float64, [B, L, len(offsets)].
    """
    from_end = positions_from_end(mask)
    return widened(torch.stack([mask & (from_end == offset) for offset in offsets], dim=-1))


def ratio_sums(ratios: torch.Tensor, groups: torch.Tensor) -> torch.Tensor:
    """Sums of mixing ratios over groups of positions.

    Args:
        ratios: mixing ratios, [..., B, L].
        groups: 1 where a position is in a group, float64, [B, L, n_groups].

    Returns:
        torch.Tensor: float64, [..., n_groups].

    Example:
        >>> mask = torch.tensor([[True, True, False]])
        >>> ratio_sums(torch.tensor([[0.0, 0.5, 0.0]]), all_and_last(mask)).tolist()
        [0.5, 0.5]
    """
    return widened(ratios).flatten(-2) @ groups.flatten(0, 1)


def row_sums(ratios: torch.Tensor, groups: torch.Tensor) -> torch.Tensor:
    """The same sums for each row alone, float64, [..., B, n_groups].

    Example:
        >>> mask = torch.tensor([[True, True, False]])
        >>> row_sums(torch.tensor([[0.0, 0.5, 0.0]]), all_and_last(mask)).tolist()
        [[0.5, 0.5]]
    """
    return torch.matmul(widened(ratios).unsqueeze(-2), groups).squeeze(-2)
