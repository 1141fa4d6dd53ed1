"""The two training objectives: one target per row (RecBole's), or the loss at every position."""

from __future__ import annotations

from typing import Any

import torch

from recbole_residual.errors import ModelError
from recbole_residual.model.architecture.score import item_vectors
from recbole_residual.model.fast_forward import Packing, can_run_fast, packed_positions
from recbole_residual.model.loss import linear_cross_entropy, pairwise_loss

LOSS_POSITIONS = ("all", "last")
"""Values of the config key ``loss_positions``."""


def trains_at_all_positions(config: Any) -> bool:
    """Whether training takes the loss at every position of a sequence.

    It does by default, for models that can (``can_train_at_all_positions``); ``loss_positions:
    last`` asks for RecBole's samples, and every other model gets them.

    Raises:
        ValueError: if ``loss_positions`` is neither ``all`` nor ``last``.
    """
    positions = config["loss_positions"] or "all"
    if positions not in LOSS_POSITIONS:
        raise ModelError(f"loss_positions = {positions!r} is not usable: it is `all` or `last`.")
    return positions == "all" and getattr(config.model_class, "can_train_at_all_positions", False)


def target_list_field(item_list_field: str) -> str:
    """Name of the field that holds the target at every position, [B, L], 0 for none.

    Example:
        >>> target_list_field("item_id_list")
        'target_item_id_list'
    """
    return f"target_{item_list_field}"


def negative_list_field(item_list_field: str, neg_prefix: str) -> str:
    """Name of the field that holds the negative items of every position, [B, L, S]."""
    return f"{neg_prefix}{item_list_field}"


def all_positions_loss(model: Any, interaction: Any) -> torch.Tensor:
    """Next-item loss at every position of every sequence of a batch, the mean over positions.

    Args:
        model: a model of this package.
        interaction: a batch of ``AllPositionsDataLoader``.
    """
    item_seq, item_seq_len = interaction[model.ITEM_SEQ], interaction[model.ITEM_SEQ_LEN]
    targets = interaction[target_list_field(model.ITEM_SEQ)].flatten()
    packing = Packing(item_seq)
    if can_run_fast(model):
        hidden = packed_positions(model, item_seq, packing)
    else:
        hidden = packing.pack(model.all_positions(item_seq, item_seq_len).flatten(0, 1))
    predicted = packing.index
    if not bool((targets[predicted] > 0).all()):
        hidden = hidden[targets[predicted] > 0]
        predicted = predicted[targets[predicted] > 0]
    weight = item_vectors(model)
    if model.loss_type == "BPR":
        negatives = interaction[negative_list_field(model.ITEM_SEQ, model.neg_prefix)]
        negatives = negatives.flatten(0, 1)[predicted]
        return pairwise_loss(hidden, weight, targets[predicted], negatives)
    if model.sampled_loss is not None:
        return model.sampled_loss(hidden, weight, targets[predicted])
    return linear_cross_entropy(hidden, weight, targets[predicted], model.logits_chunk)
