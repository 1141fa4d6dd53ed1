"""The ranking read from positions before the last one: the same forward, read elsewhere."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from recbole.data.interaction import Interaction

from recbole_residual.errors import NoPositionError
from recbole_residual.evaluator.item_product import ItemProduct, item_product
from recbole_residual.model.architecture.positions import (
    GATHERS_ON_THE_WAY,
    POOLS_ITS_POSITIONS,
    picking_positions,
)


def without_last(model: Any, interaction: Interaction, n_items: int) -> Interaction:
    """The same sequences without their last items; the first item always stays.

    Args:
        model: a RecBole sequential model.
        interaction: a batch of B sequences.
        n_items: how many items to leave out.
    """
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
    shape = (len(offsets), len(interaction), -1)
    if isinstance(model, POOLS_ITS_POSITIONS):
        batches = [without_last(model, interaction, offset) for offset in offsets]
        return torch.stack([model.full_sort_predict(batch) for batch in batches]).view(shape)
    with _reading(model, offsets):
        scores = model.full_sort_predict(interaction)
    return scores.view(shape)


def position_product(model: Any, interaction: Interaction, offsets: Sequence[int]) -> ItemProduct:
    """The same, as the product that the scores are.

    Returns:
        ItemProduct: its states are those at the first offset, then those at the second, ...,
        [len(offsets) * B, D].

    Raises:
        NotCountableError: if the scores are no such product.
        NoPositionError: as for :func:`position_scores`.
    """
    if isinstance(model, POOLS_ITS_POSITIONS):
        batches = [without_last(model, interaction, offset) for offset in offsets]
        products = [
            item_product(functools.partial(model.full_sort_predict, batch), model.n_items)
            for batch in batches
        ]
        states = torch.cat([product.states for product in products])
        return ItemProduct(states, products[0].items, products[0].bias)
    with _reading(model, offsets):
        return item_product(lambda: model.full_sort_predict(interaction), model.n_items)


@contextmanager
def _reading(model: Any, offsets: Sequence[int]) -> Iterator[None]:
    """Inside, the model is read at several positions; an error if it has none to be read at."""
    if isinstance(model, GATHERS_ON_THE_WAY):
        raise NoPositionError(model)
    try:
        with picking_positions(model, offsets) as calls:
            yield
    except NotImplementedError as error:  # no full_sort_predict
        raise NoPositionError(model) from error
    if not calls:
        raise NoPositionError(model)
