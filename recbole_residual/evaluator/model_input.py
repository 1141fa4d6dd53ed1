"""What a model was given: its last input items and its number of positions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Callable
from unittest import mock

import torch


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

    def item_before_end(self, n_back: int) -> torch.Tensor:
        """An item counted back from the last one (``n_back`` = 0), 0 where there is none, [B].

        Example:
            >>> given = ModelInput.of(torch.tensor([[5, 7, 0], [4, 0, 0]]), torch.tensor([2, 1]))
            >>> given.item_before_end(0).tolist(), given.item_before_end(1).tolist()
            ([7, 4], [5, 0])
        """
        position = self.n_items - 1 - n_back
        items = self.item_seq.gather(1, position.clamp(min=0).unsqueeze(1)).squeeze(1)
        return items.masked_fill(position < 0, 0)


def appends_mask(model: Any) -> bool:
    """Whether ``model`` predicts at a [MASK] that it puts after the items, as BERT4Rec does."""
    return hasattr(model, "reconstruct_test_data") and hasattr(model, "mask_token")


@contextmanager
def watching_windows(model: Any, keep: Callable[[torch.Tensor], None]) -> Iterator[None]:
    """Inside, what ``model.reconstruct_test_data`` returns is also handed to ``keep``.

    BERT4Rec moves its input to make room for [MASK] and can cut off the oldest item; only the
    result shows what the model has seen.
    """
    reconstruct = model.reconstruct_test_data

    def watched(*args: Any, **kwargs: Any) -> torch.Tensor:
        window = reconstruct(*args, **kwargs)
        keep(window)
        return window

    with mock.patch.object(model, "reconstruct_test_data", watched):
        yield
