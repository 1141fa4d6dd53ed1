"""Loaders: training on whole sequences, and evaluation without the items already seen."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from recbole.data.dataloader import AbstractDataLoader, FullSortEvalDataLoader
from recbole.data.interaction import Interaction
from recbole.utils import InputType

from recbole_residual.data.dataset import SequenceDataset
from recbole_residual.model.objective import negative_list_field, target_list_field

LONG_SEQUENCES = ("window", "latest")
"""Values of the config key ``long_sequences``."""

BATCHES_PER_POOL = 8
"""Batches whose sequences are sorted by length together; more means less padding, less chance."""


def cut_windows(
    positions: np.ndarray, max_length: int, long_sequences: str
) -> tuple[np.ndarray, np.ndarray]:
    """Cut the training sequences into windows of inputs, each input with the next item as target.

    Windows are counted from the end: the last one holds the latest ``max_length`` inputs, the
    first one what is left. Every target is in exactly one window.

    Args:
        positions: positions of the training targets in the flat sequences, [n].
        max_length: longest window.
        long_sequences: ``window`` keeps all windows, ``latest`` each user's last.

    Returns:
        Position of the first input of each window, and its number of inputs; users in their order,
        each user's windows in order of time.

    Example:
        >>> starts, lengths = cut_windows(np.array([1, 2, 3, 4, 5, 9]), 2, "window")
        >>> starts.tolist(), lengths.tolist()
        ([0, 1, 3, 8], [1, 2, 2, 1])
    """
    positions = np.sort(positions)
    if len(positions) == 0:
        return positions, positions
    # the first interaction of a user is no target, so a gap separates two users
    breaks = np.flatnonzero(np.diff(positions) != 1) + 1
    begin = positions[np.append(0, breaks)] - 1
    end = positions[np.append(breaks, len(positions)) - 1]  # one past the last input
    n_windows = -(-(end - begin) // max_length)
    if long_sequences == "latest":
        n_windows = np.ones_like(n_windows)
    sequence = np.repeat(np.arange(len(begin)), n_windows)
    from_end = np.repeat(np.cumsum(n_windows), n_windows) - 1 - np.arange(len(sequence))
    window_end = end[sequence] - from_end * max_length
    window_begin = np.maximum(begin[sequence], window_end - max_length)
    return window_begin, window_end - window_begin


class AllPositionsDataLoader(AbstractDataLoader):
    """Batches of whole sequences with a target at every position.

    A batch holds ``item_id_list`` [B, L], ``item_length`` [B], ``target_item_id_list`` [B, L] (0
    where there is no target), the user ids [B], and with BPR ``neg_item_id_list`` [B, L, S]; L is
    the longest sequence of the batch. Sequences of about the same length share a batch. The same
    ``seed`` gives the same batches, and :attr:`generator` holds all their randomness.

    Config keys:
        train_batch_size: sequences in a batch.
        long_sequences: ``window`` cuts a sequence longer than ``MAX_ITEM_LIST_LENGTH`` into
            windows, ``latest`` keeps the last one.
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
            raise ValueError(
                f"long_sequences = {long_sequences!r} is not usable: it is `window` or `latest`."
            )
        sequences = dataset.sequences
        starts, lengths = cut_windows(
            dataset.inter_feat.positions.numpy(), sequences.max_length, long_sequences
        )
        self._starts = torch.from_numpy(starts)
        self._lengths = torch.from_numpy(lengths)
        self.sample_size = len(starts)
        self._item_seq_field = dataset.iid_field + config["LIST_SUFFIX"]
        self._negatives = _Negatives(config, dataset) if _wants_negatives(config) else None
        super().__init__(config, dataset, sampler, shuffle=False)
        self.shuffle = shuffle
        self._order = torch.arange(self.sample_size)

    def _init_batch_size_and_step(self) -> None:
        self.step = self.config["train_batch_size"]
        self.set_batch_size(self.step)

    def __iter__(self) -> Any:
        self._order = self._epoch_order()
        return super().__iter__()

    def _epoch_order(self) -> torch.Tensor:
        """Windows in the order of this epoch: shuffled, then like lengths side by side.

        torch cuts it into batches of ``step``; whole batches change places, the last one, which
        may be smaller, stays last.
        """
        if not self.shuffle:
            return torch.arange(self.sample_size)
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
            raise ValueError(
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
