"""SASRec's states at the last positions and the mixing ratios of the same forward.

The same network as in :mod:`~recbole_residual.evaluator.sasrec_states`, with the attention blocks
taken apart where they are computed, so that nobody has to watch RecBole's modules for the ratios.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from recbole_residual.decomposition.ratios import gained_norm
from recbole_residual.decomposition.sasrec_layer import (
    CausalRows,
    SasrecLayer,
    others_and_own,
)
from recbole_residual.decomposition.stages import ATTENTION_STAGES, mixing_ratio, stages_of
from recbole_residual.evaluator.observation import SequenceRatios
from recbole_residual.evaluator.states import is_plain_sasrec
from recbole_residual.model.architecture.functions import layer_norm
from recbole_residual.model.architecture.stream import weighted
from recbole_residual.model.residual import residual_factor

_POSITIONS = {"cpu": 1600}
"""Positions worked on at once; here more tensors at a time have to stay in the cache."""


def has_sasrec_ratios(model: Any) -> bool:
    """Whether :func:`sasrec_states_and_ratios` gives what :func:`~recbole_residual.decomposition
    .observe` sees of the model's own forward."""
    return (
        is_plain_sasrec(model)
        and tuple(stages_of(model)) == ATTENTION_STAGES
        and model.item_embedding.weight.dtype in (torch.float32, torch.float64)
    )


class SasrecRatios:
    """States and mixing ratios of one SASRec, its weights laid out once.

    Args:
        model: a model for which :func:`has_sasrec_ratios` holds, in eval mode.

    Attributes:
        n_positions: how many positions a batch should have on the model's device, 0 for no wish.
    """

    def __init__(self, model: Any) -> None:
        self._items = model.item_embedding.weight
        self.n_positions = _POSITIONS.get(self._items.device.type, 0)
        self._positions = model.position_embedding.weight
        self._norm = model.LayerNorm
        blocks = list(model.trm_encoder.layer)
        self._layers = [SasrecLayer.of(block) for block in blocks]
        self._feed_forward = [block.feed_forward for block in blocks]

    def read(
        self, item_seq: torch.Tensor, item_seq_len: torch.Tensor, offsets: tuple[int, ...]
    ) -> tuple[torch.Tensor, SequenceRatios]:
        """One forward.

        Args:
            item_seq: item ids, padded with 0 at the end, [B, L].
            item_seq_len: lengths, at least 1, [B].
            offsets: 0 for the last position; one before the first stands for the first.

        Returns:
            Output representations as of
            :func:`~recbole_residual.evaluator.sasrec_states.sasrec_states`,
            [len(offsets) * B, D], and ratios by row.
        """
        n_rows, length = item_seq.shape
        rows = CausalRows.of(n_rows, length, self._items)
        hidden = nn.functional.embedding(item_seq, self._items) + self._positions[:length]
        hidden = layer_norm(self._norm, hidden.view(n_rows * length, -1))
        back = torch.tensor(offsets, device=item_seq.device).unsqueeze(1)
        first = torch.arange(n_rows, device=item_seq.device) * length
        picked = (first + (item_seq_len - 1 - back).clamp(min=0)).flatten()
        ratios = []
        for depth, layer in enumerate(self._layers):
            z, of_layer = _attention(layer, hidden, rows)
            ratios.append(of_layer)
            if depth == len(self._layers) - 1:
                z = z[picked]
            normed = layer_norm(layer.norm, z)
            hidden = self._after_attention(depth, normed)
        mask = torch.arange(length, device=item_seq.device) < item_seq_len.unsqueeze(1)
        by_row = torch.stack(ratios).view(len(ratios), -1, n_rows, length)
        return hidden, SequenceRatios.of_positions(by_row, mask)

    def _after_attention(self, depth: int, normed: torch.Tensor) -> torch.Tensor:
        layer, block = self._layers[depth], self._feed_forward[depth]
        written = layer.dense_2(layer.activation(layer.dense_1(normed)))
        carried = weighted(block, normed)
        return layer_norm(layer.output_norm, written.add_(carried, alpha=residual_factor(block)))


def _attention(
    layer: SasrecLayer, x: torch.Tensor, rows: CausalRows
) -> tuple[torch.Tensor, torch.Tensor]:
    """What the LayerNorm behind an attention block sees, [N, D], and its ratios, [3, N]."""
    others, own = others_and_own(layer, x, rows)
    own_norm = torch.linalg.vector_norm(own, dim=1)
    kept = own.add_(weighted(layer.attention, x), alpha=residual_factor(layer.attention))
    norms = torch.linalg.vector_norm(others, dim=1)
    ratios = mixing_ratio(
        torch.stack([norms, norms, gained_norm(others, layer.norm)]),
        torch.stack(
            [own_norm, torch.linalg.vector_norm(kept, dim=1), gained_norm(kept, layer.norm)]
        ),
    )
    z = kept.add_(others)
    return (z if layer.dense.bias is None else z.add_(layer.dense.bias)), ratios
