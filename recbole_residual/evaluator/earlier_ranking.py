"""The ranking read from positions before the last one.

RecBole's attention models pick the representation of the last position with
``self.gather_indexes(output, item_seq_len - 1)`` and score it against the items. Reading the same
forward at other positions means to pick other ones there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
from recbole.data.interaction import Interaction
from recbole.model.sequential_recommender import (
    CORE,
    FOSSIL,
    HGN,
    KSR,
    NARM,
    SRGNN,
    STAMP,
    RepeatNet,
    SASRecCPR,
)

from recbole_residual.errors import NoPositionError
from recbole_residual.model.residual import (
    feed_forward_blocks,
    neutral_alpha,
    residual_alpha,
    residual_factor,
    scale_residual,
)

POOLS_ITS_POSITIONS = (CORE, SASRecCPR)
"""Models whose ranking comes from no single position. Both are causal, so what position L - o
knows is what the model makes of the input without its last o items."""


GATHERS_ON_THE_WAY = (FOSSIL, HGN, KSR, NARM, RepeatNet, SRGNN, STAMP)
"""Models that call ``gather_indexes`` and go on with the whole sequence after it."""


@contextmanager
def _picking(model: Any, offsets: Sequence[int]) -> Iterator[list[bool]]:
    """Inside, ``gather_indexes`` picks one position per offset, stacked along the batch."""
    pick = model.gather_indexes
    picked: list[bool] = []

    def pick_all(output: torch.Tensor, gather_index: torch.Tensor) -> torch.Tensor:
        picked.append(True)
        return torch.cat([pick(output, (gather_index - o).clamp(min=0)) for o in offsets])

    with mock.patch.object(model, "gather_indexes", pick_all):
        yield picked


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
    (:data:`POOLS_ITS_POSITIONS`) one forward per offset, of the input without its last items.
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
    with _picking(model, offsets) as picked:
        scores = model.full_sort_predict(interaction)
    if not picked:
        raise NoPositionError(model)
    return scores.view(shape)


def is_unscaled(model: torch.nn.Module) -> bool:
    """Whether every residual of ``model`` has its neutral factor: 1, or 0 for an added skip."""
    neutral = neutral_alpha(model)
    return all(alpha == neutral for alpha in residual_alpha(model)) and all(
        residual_factor(block) == 1 for block in feed_forward_blocks(model)
    )


@contextmanager
def unscaled(model: torch.nn.Module) -> Iterator[None]:
    """Inside, every residual of ``model`` has its neutral factor."""
    alpha = neutral_alpha(model)
    with scale_residual(model, alpha, feed_forward=1.0 if feed_forward_blocks(model) else None):
        yield
