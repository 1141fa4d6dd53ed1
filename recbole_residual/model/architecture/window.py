"""The window of the input as a model sees it: its items, and [MASK] where it puts one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from recbole.data.interaction import Interaction

from recbole_residual.compat import replaced
from recbole_residual.errors import ModelError

MASK = "[MASK]"
"""What stands at the last position of a model that predicts there, in tables and texts."""


def ends_in_mask(model: Any) -> bool:
    """Whether ``model`` predicts at a [MASK] that it puts after the items, as BERT4Rec does.

    Such a model makes its input with ``reconstruct_test_data`` and knows the ``mask_token``; a
    model that only trains on [MASK], as S3Rec does, predicts at its last item.
    """
    return hasattr(model, "reconstruct_test_data") and hasattr(model, "mask_token")


def last_position(model: Any) -> str:
    """What stands at the last position of ``model``: "item" or "[MASK]"."""
    return MASK if ends_in_mask(model) else "item"


@dataclass(frozen=True)
class ModelInput:
    """The items that a model was given, as far as its window shows them.

    Attributes:
        item_seq: item ids from the first position on, [B, L].
        n_items: how many of them are input items, [B].
        n_positions: the same with [MASK] counted, for models that append one, [B].
    """

    item_seq: torch.Tensor
    n_items: torch.Tensor
    n_positions: torch.Tensor

    @classmethod
    def of(cls, item_seq: torch.Tensor, item_seq_len: torch.Tensor) -> ModelInput:
        """The input of a model that takes ``item_seq`` as it is."""
        return cls(item_seq, item_seq_len, item_seq_len)

    @classmethod
    def of_masked(cls, window: torch.Tensor, mask_token: int) -> ModelInput:
        """The input of a model that was shown ``window``, in which [MASK] follows the items."""
        n_items = (window == mask_token).int().argmax(dim=1)
        return cls(window, n_items, n_items + 1)

    def rows(self, rows: torch.Tensor) -> ModelInput:
        """Some of the sequences, on the device of ``rows``, [P]."""
        device = rows.device
        return ModelInput(
            item_seq=self.item_seq.to(device)[rows],
            n_items=self.n_items.to(device)[rows],
            n_positions=self.n_positions.to(device)[rows],
        )

    def item_before_end(self, n_back: int) -> torch.Tensor:
        """An item counted back from the last one (``n_back`` = 0), 0 where there is none, [B].

        Example:
            >>> window = ModelInput.of(torch.tensor([[5, 7, 0], [4, 0, 0]]), torch.tensor([2, 1]))
            >>> window.item_before_end(0).tolist(), window.item_before_end(1).tolist()
            ([7, 4], [5, 0])
        """
        position = self.n_items - 1 - n_back
        items = self.item_seq.gather(1, position.clamp(min=0).unsqueeze(1)).squeeze(1)
        return items.masked_fill(position < 0, 0)


class InputWatch:
    """What a model has been shown since it was last asked; made by :func:`watching_input`.

    Attributes:
        paused: set it to let forwards leave nothing behind.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self._windows: list[torch.Tensor] = []
        self.paused = False

    def keep(self, window: torch.Tensor) -> None:
        """Called with every window in which the model has put a [MASK]."""
        if not self.paused:
            self._windows.append(window)

    def forget(self) -> None:
        """Forget what the model has been shown since it was last asked."""
        self._windows = []

    def take(self, interaction: Interaction) -> ModelInput:
        """What the model was shown of a batch, in one forward or in several ones.

        Args:
            interaction: the batch.

        Raises:
            ModelError: if the model has made its window in another way than with its own
                ``reconstruct_test_data``.
        """
        model = self._model
        if not ends_in_mask(model):
            return ModelInput.of(interaction[model.ITEM_SEQ], interaction[model.ITEM_SEQ_LEN])
        windows, self._windows = self._windows, []
        if not windows:
            raise ModelError(
                f"{type(model).__name__} has a mask_token and a reconstruct_test_data, but its "
                "forward did not call self.reconstruct_test_data: which items it was shown is "
                "unknown."
            )
        shown = torch.cat(windows)
        step = copies_of_a_row(len(shown), len(interaction))
        return ModelInput.of_masked(shown[::step], model.mask_token)


def copies_of_a_row(n_shown: int, n_rows: int) -> int:
    """How often a model was shown every row of a batch, one copy after the other.

    RecBole repeats each row once per item for a model without ``full_sort_predict``.

    Raises:
        ModelError: if it was not shown every row equally often.

    Example:
        >>> copies_of_a_row(12, 4)
        3
    """
    copies, rest = divmod(n_shown, n_rows)
    if rest or not copies:
        raise ModelError(f"the model was shown {n_shown} rows for a batch of {n_rows}.")
    return copies


@contextmanager
def watching_input(model: Any) -> Iterator[InputWatch]:
    """Inside, note what the forwards of ``model`` are shown.

    BERT4Rec moves its input to make room for [MASK] and can cut off the oldest item; only the
    window that it makes shows what it has seen. Other models take their input as it is.

    Args:
        model: a RecBole sequential model.

    Yields:
        InputWatch: to be asked after each batch.
    """
    watch = InputWatch(model)
    if not ends_in_mask(model):
        yield watch
        return
    reconstruct = model.reconstruct_test_data

    def watched(*args: Any, **kwargs: Any) -> torch.Tensor:
        window = reconstruct(*args, **kwargs)
        watch.keep(window)
        return window

    with replaced(model, "reconstruct_test_data", watched):
        yield watch
