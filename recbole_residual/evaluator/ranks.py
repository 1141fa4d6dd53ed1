"""Ranks by counting: 1 + the number of items with a strictly higher score."""

from __future__ import annotations

import torch

from recbole_residual.errors import NaNScoreError

_ELEMENTS_AT_ONCE = 2**20  # a comparison of this size stays in the processor's cache


def nan_rows(scores: torch.Tensor) -> torch.Tensor:
    """Rows in which an item (padding, id 0, is not one) has a score that is NaN, [..., B].

    Args:
        scores: [..., B, n_items].
    """
    # The maximum of a row with a NaN is NaN: one pass, and no mask of the size of the scores.
    return scores[..., 1:].amax(dim=-1).isnan()


def refuse_nan(scores: torch.Tensor) -> None:
    """Raise if an item has a score that is NaN.

    Args:
        scores: [B, n_items].

    Raises:
        NaNScoreError: with the number of rows that have one.
    """
    refuse_rows(nan_rows(scores))


def refuse_rows(broken: torch.Tensor) -> None:
    """Raise if there are rows of :func:`nan_rows`; waits once for an accelerator.

    Args:
        broken: of one way to score the rows, or of several, [B] or [..., B].

    Raises:
        NaNScoreError: with the number of rows, the most there are in one way.
    """
    n_rows = int(broken.sum(dim=-1).max())
    if n_rows:
        raise NaNScoreError(n_rows)


def rank_of(scores: torch.Tensor, items: torch.Tensor) -> torch.Tensor:
    """Rank of given items in each row's ranking.

    Ties share the best rank: an item's rank is 1 + the number of strictly higher scores. Padding
    (id 0) is never ranked, neither counted nor given a rank.

    Args:
        scores: [B, n_items], free of NaN.
        items: item ids, [B] or [B, M]; 0 stands for no item.

    Returns:
        torch.Tensor: ranks of the shape of ``items``, int64, 0 where there is no item.

    Example:
        >>> scores = torch.tensor([[9.0, 0.1, 0.5, 0.5], [9.0, 0.1, 0.2, 0.3]])
        >>> rank_of(scores, torch.tensor([1, 3]))
        tensor([3, 1])
        >>> rank_of(scores, torch.tensor([[2, 0], [1, 2]]))
        tensor([[1, 0],
                [3, 2]])
    """
    columns = items.view(len(items), -1)
    own = scores.gather(1, columns)
    ranks = torch.empty_like(columns)
    n_rows = max(1, _ELEMENTS_AT_ONCE // scores.shape[1])
    # Written as float32, the comparison sums many times faster than as bool, and it counts
    # exactly up to 2**24 items.
    higher = torch.empty(
        (min(n_rows, len(scores)), scores.shape[1] - 1), dtype=torch.float32, device=scores.device
    )
    for start in range(0, len(scores), n_rows):
        block = scores[start : start + n_rows, 1:]
        for column in range(columns.shape[1]):
            threshold = own[start : start + n_rows, column, None]
            count = torch.gt(block, threshold, out=higher[: len(block)]).sum(dim=1)
            ranks[start : start + n_rows, column] = count.long() + 1
    return ranks.masked_fill_(columns == 0, 0).view_as(items)


def listed_rank(scores: torch.Tensor, target: torch.Tensor, largest: int) -> torch.Tensor:
    """Place of the target in RecBole's list, from which Hit, NDCG and MRR are made.

    Where no other item has the target's score this is :func:`rank_of`. Of items with equal scores
    RecBole's ``torch.topk`` puts any first; so that a figure is that of RecBole's Trainer, what it
    puts first is first here too.

    Args:
        scores: [B, n_items]; the score of padding is overwritten with -inf.
        target: item ids, [B].
        largest: the largest k, the length of RecBole's list.

    Returns:
        torch.Tensor: from 1; above ``largest`` where the target is not in the list, int64, [B].
    """
    scores[:, 0] = -torch.inf
    listed = scores.topk(largest, dim=1).indices == target.unsqueeze(1)
    place = torch.where(listed.any(dim=1), listed.int().argmax(dim=1) + 1, largest + 1)
    return torch.maximum(rank_of(scores, target), place)
