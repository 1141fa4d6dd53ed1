"""The ranking read from positions before the last one: the same forward, read elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from recbole.data.interaction import Interaction

from recbole_residual.errors import NoPositionError
from recbole_residual.model.architecture.positions import (
    GATHERS_ON_THE_WAY,
    POOLS_ITS_POSITIONS,
    picking_positions,
)


def _without_last(model: Any, interaction: Interaction, n_items: int) -> Interaction:
    item_seq = interaction[model.ITEM_SEQ]
    length = (interaction[model.ITEM_SEQ_LEN] - n_items).clamp(min=1)
    kept = torch.arange(item_seq.shape[1], device=item_seq.device) < length.unsqueeze(1)
    shorter = Interaction(dict(interaction.interaction))
    shorter[model.ITEM_SEQ] = item_seq * kept
    shorter[model.ITEM_SEQ_LEN] = length
    return shorter


def position_scores(model: Any, interaction: Interaction, offsets: Sequence[int]) -> torch.Tensor:
    """Scores of the whole catalogue, read at several positions counted back from the last.

    One forward; for models whose ranking comes from no single position
    (:data:`~recbole_residual.model.architecture.positions.POOLS_ITS_POSITIONS`) one forward per
    offset, of the input without its last items.
    For BERT4Rec the last position is the one of [MASK].

    Args:
        model: a RecBole sequential model, in eval mode.
        interaction: a batch of B sequences, on the model's device.
        offsets: 0 for the last position, 1 for the one before it, ...; a position before the
            first stands for the first, callers leave it out.

    Returns:
        torch.Tensor: [len(offsets), B, n_items].

    Raises:
        NoPositionError: if the ranking does not come from one position, picked with
            ``gather_indexes``.
    """
    if isinstance(model, GATHERS_ON_THE_WAY):
        raise NoPositionError(model)
    shape = (len(offsets), len(interaction), -1)
    if isinstance(model, POOLS_ITS_POSITIONS):
        batches = [_without_last(model, interaction, offset) for offset in offsets]
        return torch.stack([model.full_sort_predict(batch) for batch in batches]).view(shape)
    with picking_positions(model, offsets) as calls:
        scores = model.full_sort_predict(interaction)
    if not calls:
        raise NoPositionError(model)
    return scores.view(shape)
