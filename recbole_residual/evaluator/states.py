"""The states of sequences and the items they are multiplied with, by the shortest way."""

from __future__ import annotations

from typing import Any

from recbole.data.interaction import Interaction
from recbole.model.abstract_recommender import SequentialRecommender
from recbole.model.sequential_recommender import SASRec

from recbole_residual.evaluator.earlier_ranking import position_product
from recbole_residual.evaluator.item_product import ItemProduct, item_product
from recbole_residual.evaluator.sasrec_states import sasrec_states
from recbole_residual.model.architecture.stream import BRANCH_GATE, carries_stream
from recbole_residual.model.base import ResidualMixin
from recbole_residual.model.fast_forward import can_run_fast


def is_plain_sasrec(model: Any) -> bool:
    """Whether ``model`` computes exactly what RecBole's SASRec does, but for residual factors.

    A subclass with a forward or scores of its own, other blocks, or a foreign hook on a module is
    another network.
    """
    cls = type(model)
    return (
        can_run_fast(model)
        and cls.full_sort_predict is SASRec.full_sort_predict
        and cls.gather_indexes
        in (SequentialRecommender.gather_indexes, ResidualMixin.gather_indexes)
        and not {"full_sort_predict", "gather_indexes"} & vars(model).keys()
        # Pre-LN and gated blocks train through the fast forward too.
        and not any(carries_stream(part) or hasattr(part, BRANCH_GATE) for part in model.modules())
    )


def last_states(model: Any, interaction: Interaction, offsets: tuple[int, ...]) -> ItemProduct:
    """The product that ranks the catalogue, read at positions counted back from the last.

    Args:
        model: a RecBole sequential model, in eval mode.
        interaction: a batch of B sequences, on the model's device.
        offsets: 0 for the last position; one before the first stands for the first.

    Returns:
        ItemProduct: its states are those at ``offsets[0]``, then those at ``offsets[1]``, ...,
        [len(offsets) * B, D].

    Raises:
        NotCountableError: if the scores are no such product.
        NoPositionError: if the model cannot be read before its last position, and shall be.
    """
    if is_plain_sasrec(model) and int(interaction[model.ITEM_SEQ_LEN].min()) > 0:
        states = sasrec_states(
            model, interaction[model.ITEM_SEQ], interaction[model.ITEM_SEQ_LEN], offsets
        )
        return ItemProduct(states, model.item_embedding.weight)
    if offsets == (0,):
        return item_product(lambda: model.full_sort_predict(interaction), model.n_items)
    return position_product(model, interaction, offsets)
