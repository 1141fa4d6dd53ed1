"""An item embedding that is made of frozen vectors, in the place of a table."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn


class AdaptedEmbedding(nn.Module):
    """Looks like ``nn.Embedding``: ``weight`` is the table, made anew from the frozen vectors.

    Args:
        vectors: frozen, padding first, [n_items, V].
        hidden_size: D.
        adapts: whether a module with a residual follows the projection.
    """

    def __init__(self, vectors: torch.Tensor, hidden_size: int, adapts: bool) -> None:
        super().__init__()
        self.padding_idx = 0
        self.register_buffer("vectors", vectors)
        self.project = nn.Linear(vectors.shape[1], hidden_size)
        self.adapts = adapts
        if adapts:
            self.inner = nn.Linear(hidden_size, hidden_size)
            self.outer = nn.Linear(hidden_size, hidden_size)
            self.norm = nn.LayerNorm(hidden_size)

    @property
    def weight(self) -> torch.Tensor:
        """The vectors that the network works with, zeros for padding, [n_items, D]."""
        projected = self.project(self.vectors)
        if self.adapts:
            projected = self.norm(projected + self.outer(F.gelu(self.inner(projected))))
        return F.pad(projected[1:], (0, 0, 1, 0))

    def forward(self, items: torch.Tensor) -> torch.Tensor:
        """Item ids [...] -> [..., D]."""
        return F.embedding(items, self.weight, self.padding_idx)
