"""Some rows of a pool evaluated in RecBole's way, so that their bits are those of its batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from recbole.data.interaction import Interaction

from recbole_residual.evaluator.candidates import Candidates
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
    if pool.candidates is not None:
        return pool.candidates.hide_others(scores, rows)
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
    if pool.candidates is not None:
        yield from _plain_sampled_scores(model, pool, pool.candidates, rows)
        return
    for part, batch, at in plain_batches(pool, rows, model.n_items):
        scores = model.full_sort_predict(batch).view(len(batch), -1)[at]
        yield part, mask_scores(scores, pool, part)


def _plain_sampled_scores(
    model: Any, pool: Pool, candidates: Candidates, rows: torch.Tensor
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Of a sampled evaluation, where a model predicts the score of one item for each row."""
    n_items, at_once = candidates.items.shape[1], candidates.n_predicted
    fewest = fewest_rows(rows.device)
    sizes = torch.tensor(pool.bounds, device=rows.device).diff()
    last = (sizes * n_items - 1) % at_once + 1
    small = last < fewest
    batch_of = torch.repeat_interleave(torch.arange(len(sizes), device=rows.device), sizes)
    for batch in torch.unique(batch_of[rows[small[batch_of[rows]]]]).tolist():
        part = rows[batch_of[rows] == batch]
        begin, end = pool.bounds[batch], pool.bounds[batch + 1]
        predicted = _predicted(model, candidates, torch.arange(begin, end, device=rows.device))
        yield part, _spread(predicted[part - begin], candidates.items[part], model.n_items)
    rest = rows[~small[batch_of[rows]]]
    step = max(1, min(_SCORES // model.n_items, at_once // n_items))
    copies = -(-fewest // n_items)
    for start in range(0, len(rest), step):
        part = rest[start : start + step]
        filled = torch.cat([part, part[:1].expand(max(0, copies - len(part)))])
        predicted = _predicted(model, candidates, filled)[: len(part)]
        yield part, _spread(predicted, candidates.items[part], model.n_items)


def _predicted(model: Any, candidates: Candidates, rows: torch.Tensor) -> torch.Tensor:
    """The model's scores of the candidates of some rows, as RecBole's Trainer asks, [R, C]."""
    interaction = candidates.of_rows(rows)
    starts = range(0, len(interaction), candidates.n_predicted)
    parts = [interaction[slice(start, start + candidates.n_predicted)] for start in starts]
    return torch.cat([model.predict(part).view(-1) for part in parts]).view(len(rows), -1)


def _spread(predicted: torch.Tensor, items: torch.Tensor, n_items: int) -> torch.Tensor:
    """RecBole's matrix: the scores of the candidates, -inf elsewhere, [R, n_items]."""
    scores = predicted.new_full((len(items), n_items), -torch.inf)
    row = torch.arange(len(items), device=items.device).unsqueeze(1).expand_as(items)
    scores[row.flatten(), items.flatten()] = predicted.flatten()
    return scores


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
