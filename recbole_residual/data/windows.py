"""Training sequences cut into windows of inputs."""

from __future__ import annotations

import numpy as np
import torch


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
