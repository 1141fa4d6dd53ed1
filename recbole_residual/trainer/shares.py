"""The part of the data that is one process's, where several train together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from recbole.data.dataloader import FullSortEvalDataLoader

from recbole_residual import processes
from recbole_residual.evaluator.rounding import fewest_rows


def own_rows(batch: Any, number: int, count: int) -> Any:
    """Every ``count``-th row of a training batch: none is in two parts, none in no part.

    Rows that stand side by side are about equally long, so every process has as much to do.

    Args:
        batch: an Interaction.
        number: of the process.
        count: of processes.
    """
    return batch[slice(number, None, count)]


def cut_batches(n_rows: int, step: int, count: int, fewest: int) -> list[range]:
    """The batches of an evaluation loader, cut where one process's share ends.

    The last bits of a score depend on how many rows are computed together only where they are few,
    so no batch is cut into parts of fewer rows than that.

    Args:
        n_rows: of the loader.
        step: rows of its batches.
        count: of processes.
        fewest: rows of a part.

    Example:
        >>> cut_batches(10, 8, 2, 3)
        [range(0, 5), range(5, 8), range(8, 10)]
    """
    parts = []
    ends = [n_rows * number // count for number in range(1, count)]
    for begin in range(0, n_rows, step):
        stop = min(begin + step, n_rows)
        for end in ends:
            if end - begin >= fewest and stop - end >= fewest:
                parts.append(range(begin, end))
                begin = end
        parts.append(range(begin, stop))
    return parts


def own_parts(parts: list[range], number: int, count: int) -> list[range]:
    """Neighbouring parts for each process, about equally many rows.

    Example:
        >>> own_parts([range(0, 5), range(5, 8), range(8, 10)], 1, 2)
        [range(5, 8), range(8, 10)]
    """
    n_rows = parts[-1].stop if parts else 0
    middle = [(part.start + part.stop) * count // (2 * n_rows) for part in parts]
    return [part for part, owner in zip(parts, middle) if owner == number]


def own_batches(eval_data: Any) -> Iterable[Any]:
    """The batches of an evaluation that this process does; all of them if it is alone.

    Those of all processes, in the order of the processes, are the whole evaluation in its order.

    Args:
        eval_data: a loader of RecBole or of this package.
    """
    number, count = processes.number(), processes.count()
    if count == 1:
        return eval_data
    if isinstance(eval_data, FullSortEvalDataLoader) and eval_data.is_sequential:
        parts = cut_batches(
            len(eval_data._dataset),
            eval_data.step,
            count,
            fewest_rows(torch.device(eval_data.config["device"])),
        )
        rows: Any = range(len(eval_data._dataset))
        return torch.utils.data.DataLoader(
            rows,
            batch_sampler=[list(part) for part in own_parts(parts, number, count)],
            collate_fn=eval_data.collate_fn,
            num_workers=eval_data.num_workers,
        )
    return _drawn_by_all(eval_data, number, count)


def _drawn_by_all(eval_data: Any, number: int, count: int) -> Iterator[Any]:
    """Batches that hold what is drawn at random: everybody draws all of them, so that they are
    those of one process, and evaluates its own."""
    for place, batch in enumerate(eval_data):
        if place * count // len(eval_data) == number:
            yield batch
