"""Some rows of a pool evaluated in RecBole's way, so that their bits are those of its batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from recbole.data.interaction import Interaction

from recbole_residual.evaluator.earlier_ranking import position_scores
from recbole_residual.evaluator.rounding import fewest_rows
from recbole_residual.evaluator.row_pool import Pool

_SCORES = 2**22
"""Most scores held at once, unless the fewest rows of a batch have more."""


def plain_batches(
    pool: Pool, rows: torch.Tensor, n_items: int
) -> Iterator[tuple[torch.Tensor, Interaction, torch.Tensor]]:
    """Batches that compute like those of the loader.

    The last bits of a forward depend on the batch where it is small: then other kernels work. So a
    row of a small batch of the loader goes with its whole batch; others are put together, filled
    up with copies of one of them, in the full width of the loader.

    Args:
        pool: the rows.
        rows: which of them, in ascending order, [R].
        n_items: number of columns of the scores.

    Yields:
        Some of the rows, a batch, and where in the batch these rows are.
    """
    fewest = fewest_rows(rows.device)
    bounds = torch.tensor(pool.bounds, device=rows.device)
    batch_of = torch.searchsorted(bounds, rows, right=True) - 1
    small = (bounds[batch_of + 1] - bounds[batch_of]) < fewest
    for batch in torch.unique(batch_of[small]).tolist():
        part = rows[batch_of == batch]
        begin, end = pool.bounds[batch], pool.bounds[batch + 1]
        yield part, pool.interaction[slice(begin, end)], part - begin
    rest = rows[~small]
    step = max(fewest, _SCORES // n_items // fewest * fewest)
    for start in range(0, len(rest), step):
        part = rest[start : start + step]
        filled = torch.cat([part, part[:1].expand(max(0, fewest - len(part)))])
        at = torch.arange(len(part), device=rows.device)
        yield part, pool.interaction[filled], at


def mask_scores(scores: torch.Tensor, pool: Pool, rows: torch.Tensor) -> torch.Tensor:
    """Take what is not ranked out of the scores of some rows, padding included, in place."""
    scores[..., 0] = -torch.inf
    if pool.left_out is not None:
        hidden = pool.left_out.of_selected(rows, len(pool))
        scores[..., hidden.row, hidden.item] = -torch.inf
    return scores


def plain_scores(
    model: Any, pool: Pool, rows: torch.Tensor
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Scores of some rows as RecBole's Trainer has them, a bounded number at a time.

    Yields:
        Some of the rows, and their scores, -inf where an item is not ranked, [R, n_items].
    """
    for part, batch, at in plain_batches(pool, rows, model.n_items):
        scores = model.full_sort_predict(batch).view(len(batch), -1)[at]
        yield part, mask_scores(scores, pool, part)


def plain_position_scores(
    model: Any, pool: Pool, rows: torch.Tensor, offsets: Sequence[int]
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """The same at positions counted back from the last, [len(offsets), R, n_items].

    Args:
        model, pool, rows: as for :func:`plain_scores`.
        offsets: positions.
    """
    for part, batch, at in plain_batches(pool, rows, model.n_items * len(offsets)):
        yield part, mask_scores(position_scores(model, batch, offsets)[:, at], pool, part)
