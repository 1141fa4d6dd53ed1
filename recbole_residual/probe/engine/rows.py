"""Sequences to ask questions about, out of RecBole's evaluation loaders."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from recbole.data.dataloader import FullSortEvalDataLoader
from recbole.data.interaction import Interaction
from tqdm import tqdm

from recbole_residual.errors import HistoryMaskedError, ProbeDataError


@dataclass(frozen=True)
class Rows:
    """Some sequences and their targets, in the loader's order.

    Attributes:
        interaction: the sequences, R rows.
        target: item ids, [R].
        first: number of the first of them among all rows of the data.
    """

    interaction: Interaction
    target: torch.Tensor
    first: int


def iterate_rows(data: Any, title: str, show_progress: bool) -> Iterator[Rows]:
    """The sequences of a loader, batch by batch.

    Args:
        data: a RecBole ``FullSortEvalDataLoader`` of a sequential model.
        title: what the progress bar is called.
        show_progress: whether there is one.

    Raises:
        ProbeDataError: if the loader ranks sampled items only, or holds nothing.
        HistoryMaskedError: if it takes items of the input out of the ranking.
    """
    if not isinstance(data, FullSortEvalDataLoader) or not data.is_sequential:
        raise ProbeDataError(
            f"probes rank the whole catalogue for sequences, and {type(data).__name__} does not "
            "do that: use the validation or test data of a sequential model with "
            "eval_args: {mode: full}."
        )
    first = 0
    for interaction, history, _, target in tqdm(data, desc=title, disable=not show_progress):
        if history is not None:
            raise HistoryMaskedError(len(interaction))
        yield Rows(interaction, target, first)
        first += len(interaction)
    if not first:
        raise ProbeDataError("there is no sequence in the data.")


@dataclass(frozen=True)
class Pool:
    """Rows of several batches together, only what SASRec reads, on the model's device.

    Attributes:
        item_seq: item ids, padded with 0 at the end, [R, L].
        item_seq_len: lengths, [R].
        target: item ids, [R].
    """

    item_seq: torch.Tensor
    item_seq_len: torch.Tensor
    target: torch.Tensor


def pooled(batches: Iterable[Rows], model: Any, n_rows: int) -> Iterator[Pool]:
    """Put batches together until they hold ``n_rows`` rows, so that equal lengths can meet."""
    kept: list[Pool] = []
    device = model.item_embedding.weight.device

    def joined() -> Pool:
        return Pool(
            *(
                torch.cat([getattr(batch, name) for batch in kept]).to(device)
                for name in ("item_seq", "item_seq_len", "target")
            )
        )

    for rows in batches:
        kept.append(
            Pool(
                rows.interaction[model.ITEM_SEQ], rows.interaction[model.ITEM_SEQ_LEN], rows.target
            )
        )
        if sum(len(batch.target) for batch in kept) >= n_rows:
            yield joined()
            kept = []
    if kept:
        yield joined()
