"""Loaders: training on whole sequences, and evaluation without the items already seen."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from recbole.data.dataloader import AbstractDataLoader, FullSortEvalDataLoader
from recbole.data.interaction import Interaction
from recbole.utils import InputType

from recbole_residual.data.dataset import SequenceDataset
from recbole_residual.errors import DataError
from recbole_residual.model.objective import negative_list_field, target_list_field

LONG_SEQUENCES = ("window", "latest")
"""Values of the config key ``long_sequences``."""

BATCHES_PER_POOL = 8
"""Batches whose sequences are sorted by length together; more means less padding, less chance."""


class Windows:
    """Training sequences cut into windows of inputs, each input with the next item as target.

    Windows are counted from the end: the last one holds the latest ``max_length`` inputs, the
    first one what is left. The room that is left in the first one lets all cuts move, so that no
    item has to do without its context every time. Every target is in exactly one window, and a
    sequence that fits into one window is never cut.

    Args:
        positions: positions of the training targets in the flat sequences, [n].
        max_length: longest window.
        long_sequences: ``window`` keeps all windows, ``latest`` each user's last.

    Attributes:
        room: by how many positions the cuts of each sequence may move, [S].

    Example:
        >>> windows = Windows(np.array([1, 2, 3, 4, 5, 9]), 2, "window")
        >>> [part.tolist() for part in windows.cut(np.array([0, 0]))]
        [[0, 1, 3, 8], [1, 2, 2, 1]]
        >>> [part.tolist() for part in windows.cut(np.array([1, 0]))]
        [[0, 2, 4, 8], [2, 2, 1, 1]]
    """

    def __init__(self, positions: np.ndarray, max_length: int, long_sequences: str) -> None:
        positions = np.sort(positions)
        # the first interaction of a user is no target, so a gap separates two users
        first = np.flatnonzero(np.diff(positions, prepend=-2) != 1)
        last = np.append(first[1:], len(positions)) - 1 if len(positions) else first
        begin, end = positions[first] - 1, positions[last]  # end: one past the last input
        if long_sequences == "latest":
            begin = np.maximum(begin, end - max_length)
        number = -(-(end - begin) // max_length)
        self.room = number * max_length - (end - begin)
        self._sequence = np.repeat(np.arange(len(begin)), number)
        from_end = np.repeat(np.cumsum(number), number) - 1 - np.arange(len(self._sequence))
        self._begin, self._end = begin[self._sequence], end[self._sequence]
        self._window_end = self._end - from_end * max_length
        self._max_length = max_length

    def __len__(self) -> int:
        return len(self._sequence)

    def cut(self, shift: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        """Cut with each sequence's cuts moved towards its end.

        Args:
            shift: by how much, from 0 to ``room``, [S].

        Returns:
            Position of the first input of each window, and its number of inputs; users in their
            order, each user's windows in order of time.
        """
        end = self._window_end + shift[self._sequence]
        begin = np.maximum(self._begin, end - self._max_length)
        return torch.from_numpy(begin), torch.from_numpy(np.minimum(end, self._end) - begin)


class AllPositionsDataLoader(AbstractDataLoader):
    """Batches of whole sequences with a target at every position.

    A batch holds ``item_id_list`` [B, L], ``item_length`` [B], ``target_item_id_list`` [B, L] (0
    where there is no target), the user ids [B], and with BPR ``neg_item_id_list`` [B, L, S]; L is
    the longest sequence of the batch. Sequences of about the same length share a batch. The same
    ``seed`` gives the same batches, and :attr:`generator` holds all their randomness.

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
        long_sequences = config["long_sequences"] or LONG_SEQUENCES[0]
        if long_sequences not in LONG_SEQUENCES:
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
        self._negatives = _Negatives(config, dataset) if _wants_negatives(config) else None
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
        if self._negatives is not None:
            field = negative_list_field(self._item_seq_field, self.config["NEG_PREFIX"])
            batch[field] = self._negatives.draw(targets, self.generator)
        return Interaction(batch)


def _wants_negatives(config: Any) -> bool:
    return config["MODEL_INPUT_TYPE"] == InputType.PAIRWISE


class _Negatives:
    """Negative items for every position, never the target of the position itself (RecBole's rule
    for sequential models)."""

    def __init__(self, config: Any, dataset: SequenceDataset) -> None:
        arguments = config["train_neg_sample_args"]
        if arguments["distribution"] not in ("uniform", "popularity") or arguments["dynamic"]:
            raise DataError(
                f"train_neg_sample_args = {arguments} cannot be used with loss_positions: all; "
                "set distribution: uniform or popularity and dynamic: False."
            )
        self._number = int(arguments["sample_num"])
        self._n_items = dataset.item_num
        self._cumulative: torch.Tensor | None = None
        if arguments["distribution"] == "popularity":
            items = dataset.sequences.fields[dataset.iid_field].long()
            weight = torch.bincount(items, minlength=self._n_items).double()
            self._cumulative = torch.cumsum(
                torch.where(weight > 0, weight ** float(arguments["alpha"]), weight), 0
            )

    def draw(self, targets: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """One set of negatives for each target, [B, L] -> [B, L, S]."""
        targets = targets.unsqueeze(-1).expand(*targets.shape, self._number)
        if self._cumulative is None:
            # uniform over all items but the target: draw from one item less and step over it
            drawn = torch.randint(1, self._n_items - 1, targets.shape, generator=generator)
            return drawn + (drawn >= targets).long() * (targets > 0)
        drawn = self._by_popularity(targets.shape, generator)
        while (hit := drawn == targets).any():
            drawn[hit] = self._by_popularity((int(hit.sum()),), generator)
        return drawn

    def _by_popularity(self, shape: Any, generator: torch.Generator) -> torch.Tensor:
        cumulative = self._cumulative
        assert cumulative is not None
        point = torch.rand(shape, generator=generator, dtype=torch.float64) * cumulative[-1]
        return torch.searchsorted(cumulative, point, right=True).clamp(max=self._n_items - 1)


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
