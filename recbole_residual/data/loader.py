"""Loaders: training on whole sequences, and evaluation without the items already seen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from recbole.data.dataloader import AbstractDataLoader, FullSortEvalDataLoader, TrainDataLoader
from recbole.data.interaction import Interaction

from recbole_residual.config.keys import choices
from recbole_residual.data.dataset import SequenceDataset
from recbole_residual.data.negatives import Negatives, wants_negatives
from recbole_residual.data.windows import Windows
from recbole_residual.errors import DataError
from recbole_residual.model.objective import negative_list_field, target_list_field
from recbole_residual.model.ratings import has_ratings, wanted_rating_field

BATCHES_PER_POOL = 8
"""Batches whose sequences are sorted by length together; more means less padding, less chance."""


class AllPositionsDataLoader(AbstractDataLoader):
    """Batches of whole sequences with a target at every position.

    A batch holds ``item_id_list`` [B, L], ``item_length`` [B], ``target_item_id_list`` [B, L] (0
    where there is no target), the user ids [B], with BPR ``neg_item_id_list`` [B, L, S], and for a
    model that reads ratings those of the items, ``rating_list`` [B, L], if the dataset has them; L
    is the longest sequence of the batch. Sequences of about the same length share a batch. The same
    ``seed`` gives the same batches whatever ``worker`` is: :attr:`generator` decides an epoch's
    order and its seed, and a batch's negatives come from that seed and the batch's place.

    Config keys:
        train_batch_size: sequences in a batch.
        long_sequences: ``window`` cuts a sequence longer than ``MAX_ITEM_LIST_LENGTH`` into
            windows, at other places in every epoch; ``latest`` keeps the latest window.
        train_neg_sample_args: negatives of BPR, ``uniform`` or ``popularity``.

    Args:
        config: the configuration.
        dataset: the training part.
        sampler: not used; negatives are drawn for all positions at once.
        shuffle: whether every epoch has its own order.
    """

    def __init__(
        self, config: Any, dataset: SequenceDataset, sampler: Any, shuffle: bool = False
    ) -> None:
        known = choices("long_sequences")
        long_sequences = config["long_sequences"] or known[0]
        if long_sequences not in known:
            raise DataError(
                f"long_sequences = {long_sequences!r} is not usable: it is `window` or `latest`."
            )
        sequences = dataset.sequences
        self._windows = Windows(
            dataset.inter_feat.positions.numpy(), sequences.max_length, long_sequences
        )
        self._starts, self._lengths = self._windows.cut(np.zeros_like(self._windows.room))
        self.sample_size = len(self._windows)
        self._item_seq_field = dataset.iid_field + config["LIST_SUFFIX"]
        self._negatives = Negatives(config, dataset) if wants_negatives(config) else None
        rating = wanted_rating_field(config, config.model_class)
        self._rating_field = rating if has_ratings(dataset, rating) else None
        self._epoch_seed = int(config["seed"])
        super().__init__(config, dataset, sampler, shuffle=False)
        self.shuffle = shuffle
        self._order = torch.arange(self.sample_size)

    def _init_batch_size_and_step(self) -> None:
        self.step = self.config["train_batch_size"]
        self.set_batch_size(self.step)

    def __iter__(self) -> Any:
        if self.shuffle:
            room = torch.from_numpy(self._windows.room) + 1
            shift = torch.rand(len(room), generator=self.generator, dtype=torch.float64) * room
            self._starts, self._lengths = self._windows.cut(shift.long().numpy())
            self._order = self._epoch_order()
        if self._negatives is not None:
            # drawn here, where there is one process, and copied with the loader to every worker
            self._epoch_seed = int(torch.randint(2**62, (), generator=self.generator))
        return super().__iter__()

    def _epoch_order(self) -> torch.Tensor:
        """Windows in the order of this epoch: shuffled, then like lengths side by side.

        torch cuts it into batches of ``step``; whole batches change places, the last one, which
        may be smaller, stays last.
        """
        order = torch.randperm(self.sample_size, generator=self.generator)
        lengths = self._lengths[order]
        pool = torch.arange(self.sample_size) // (self.step * BATCHES_PER_POOL)
        # one stable sort for all pools
        order = order[torch.argsort(pool * (int(lengths.max()) + 1) - lengths, stable=True)]
        whole = self.sample_size // self.step
        batches = torch.randperm(whole, generator=self.generator)
        head = order[: whole * self.step].view(whole, self.step)[batches].flatten()
        return torch.cat([head, order[whole * self.step :]])

    def collate_fn(self, index: list[int]) -> Interaction:
        rows = self._order[torch.tensor(index)]
        start, length = self._starts[rows], self._lengths[rows]
        width = int(length.max())
        dataset = self._dataset
        sequences = dataset.sequences
        targets = sequences.span(dataset.iid_field, start + 1, length, width)
        batch = {
            dataset.uid_field: sequences.at(dataset.uid_field, start),
            self._item_seq_field: sequences.span(dataset.iid_field, start, length, width),
            dataset.item_list_length_field: length,
            target_list_field(self._item_seq_field): targets,
        }
        if self._rating_field is not None:
            ratings = sequences.span(self._rating_field, start, length, width)
            batch[self._rating_field + self.config["LIST_SUFFIX"]] = ratings
        if self._negatives is not None:
            field = negative_list_field(self._item_seq_field, self.config["NEG_PREFIX"])
            generator = torch.Generator().manual_seed((self._epoch_seed + index[0]) % 2**63)
            batch[field] = self._negatives.draw(targets, generator)
        return Interaction(batch)


class OneProcessDrawsDataLoader(TrainDataLoader):
    """RecBole's training samples for ``worker`` above 0, with RecBole's numbers for ``worker: 0``.

    The workers cut the rows out; what is random, negatives and transformed sequences, is drawn in
    the process that trains, one batch after the other.
    """

    def collate_fn(self, index: list[int]) -> Interaction:
        return self._dataset[np.array(index)]

    def __iter__(self) -> Iterator[Interaction]:
        for rows in super().__iter__():
            yield self._neg_sampling(self.transform(self._dataset, rows))


class UnseenItemsEvalDataLoader(FullSortEvalDataLoader):
    """RecBole's full ranking with the items of each row's whole history left out of it.

    A target that is in the history is left out too and counts as a miss.
    """

    def collate_fn(self, index: list[int]) -> tuple[Any, ...]:
        interaction, _, positive_u, positive_i = super().collate_fn(index)
        sequences = self._dataset.sequences
        positions = self._dataset.inter_feat.positions[torch.tensor(index)]
        first = sequences.first[positions].long()
        length = positions - first
        row = torch.repeat_interleave(torch.arange(len(positions)), length)
        begins = torch.cumsum(length, 0) - length
        history = torch.arange(len(row)) - begins[row] + first[row]
        items = sequences.at(self.iid_field, history)
        return interaction, (row, items), positive_u, positive_i
