"""All sequences in flat arrays, and RecBole interactions whose lists are cut out when asked for.

RecBole copies every prefix of every user into padded rows. Here an interaction is stored once; a
row is the position of its target in the flat arrays, and its history is the stretch before it. The
rows behave like RecBole's ``Interaction``, so RecBole's loaders, samplers and splits use them.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from recbole.data.interaction import Interaction

TARGET, HISTORY, LENGTH = "target", "history", "length"


def as_index(index: Any) -> Any:
    """An index for a tensor out of whatever RecBole indexes interactions with."""
    if isinstance(index, (list, tuple, range, np.ndarray)):
        index = np.asarray(index)
        return torch.from_numpy(index if index.dtype == bool else index.astype(np.int64))
    return index


class Sequences:
    """Every user's interactions one after the other, each user's in order of time.

    Args:
        fields: the values of every interaction; token fields as integers, [N] or [N, ...].
        first: position of the first interaction of the same user, [N].
        max_length: longest history that a row shows (``MAX_ITEM_LIST_LENGTH``).
        time: exact times for questions that float32 cannot answer, float64 [N].
    """

    def __init__(
        self,
        fields: dict[str, torch.Tensor],
        first: torch.Tensor,
        max_length: int,
        time: np.ndarray,
    ) -> None:
        self.fields = {name: _compact(values) for name, values in fields.items()}
        self.first = _compact(first)
        self.max_length = max_length
        self.time = time

    def __len__(self) -> int:
        return len(self.first)

    def at(self, field: str, positions: torch.Tensor) -> torch.Tensor:
        """Values of a field at positions of any shape, as RecBole types them."""
        values = self.fields[field][positions]
        return values.long() if values.dtype == torch.int32 else values

    def history_length(self, positions: torch.Tensor) -> torch.Tensor:
        """How many interactions before each position a row shows, at most ``max_length``."""
        return (positions - self.first[positions]).clamp(max=self.max_length)

    def span(
        self, field: str, start: torch.Tensor, length: torch.Tensor, width: int
    ) -> torch.Tensor:
        """Stretches of a field, padded with 0 at the end.

        Args:
            field: name of the field.
            start: position where each stretch begins, [B].
            length: its length, [B].
            width: length to pad to.

        Returns:
            torch.Tensor: [B, width] or [B, width, ...].
        """
        offset = torch.arange(width)
        padding = offset >= length.unsqueeze(-1)
        index = (start.unsqueeze(-1) + offset).masked_fill_(padding, 0)
        values = self.at(field, index)
        return values.masked_fill_(padding.reshape(padding.shape + (1,) * (values.dim() - 2)), 0)


def _compact(values: torch.Tensor) -> torch.Tensor:
    """Token ids in half the memory; they fit, as an embedding table with 2**31 rows does not."""
    return values.int() if values.dtype == torch.int64 else values


@dataclass(frozen=True)
class Column:
    """Where a column of the rows comes from: the target, the history before it, or its length."""

    kind: str
    field: str = ""


class SequenceColumns(MutableMapping[str, torch.Tensor]):
    """The columns of rows, cut out of the flat arrays when they are read.

    Args:
        sequences: the flat arrays.
        positions: position of each row's target in them, int64 [n].
        columns: where each column comes from.
        written: columns that somebody set, whole tensors of n rows.
    """

    def __init__(
        self,
        sequences: Sequences,
        positions: torch.Tensor,
        columns: dict[str, Column],
        written: dict[str, torch.Tensor] | None = None,
    ) -> None:
        self.sequences = sequences
        self.positions = positions
        self._columns = dict(columns)
        self._written = written or {}

    def __getitem__(self, name: str) -> torch.Tensor:
        if name in self._written:
            return self._written[name]
        column = self._columns[name]
        if column.kind == TARGET:
            return self.sequences.at(column.field, self.positions)
        length = self.sequences.history_length(self.positions)
        if column.kind == LENGTH:
            return length
        return self.sequences.span(
            column.field, self.positions - length, length, self.sequences.max_length
        )

    def __setitem__(self, name: str, values: torch.Tensor) -> None:
        self._columns.setdefault(name, Column(TARGET))
        self._written[name] = values

    def __delitem__(self, name: str) -> None:
        del self._columns[name]
        self._written.pop(name, None)

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def select(self, index: Any) -> SequenceColumns:
        """The same columns for some of the rows."""
        index = as_index(index)
        return SequenceColumns(
            self.sequences,
            self.positions[index],
            self._columns,
            {name: values[index] for name, values in self._written.items()},
        )


class SequenceInteraction(Interaction):
    """RecBole's ``Interaction`` over :class:`SequenceColumns`: rows that are not written out.

    Selecting rows gives another of its kind; :meth:`materialize` gives a plain ``Interaction``.
    """

    interaction: SequenceColumns

    def __init__(self, columns: SequenceColumns) -> None:
        self.interaction = columns
        self.length = columns.positions.numel()

    @property
    def positions(self) -> torch.Tensor:
        """Position of each row's target in the flat arrays, int64 [n]."""
        return self.interaction.positions

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, str):
            return self.interaction[index]
        return SequenceInteraction(self.interaction.select(index))

    def _reindex(self, index: Any) -> None:
        self.interaction = self.interaction.select(index)

    def materialize(self) -> Interaction:
        """These rows written out, as RecBole would hold them."""
        return Interaction(dict(self.interaction.items()))
