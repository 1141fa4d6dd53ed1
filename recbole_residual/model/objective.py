"""The two training objectives: one target per row (RecBole's), or the loss at every position."""

from __future__ import annotations

from typing import Any, NamedTuple

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


def n_targets(model: Any, batch: Any) -> int:
    """How many targets the loss of a training batch is the mean over.

    Args:
        model: a sequential model; one that masks sequences itself counts in its forward instead.
        batch: whole sequences, masked sequences of RecBole's BERT4Rec, or one target a row.
    """
    # RecBole's BERT4Rec leaves index 0 of its masked positions out of the loss
    for name in (target_list_field(model.ITEM_SEQ), "MASK_INDEX"):
        if name in batch:
            return int((batch[name] > 0).sum())
    return len(batch)


class PredictedStates(NamedTuple):
    """The positions of a batch that have a target.

    Attributes:
        hidden: output representations, [T, D].
        targets: item ids, [T].
        flat_position: where they are in the flattened batch, [T].
    """

    hidden: torch.Tensor
    targets: torch.Tensor
    flat_position: torch.Tensor


def predicted_states(model: Any, interaction: Any, *inputs: torch.Tensor) -> PredictedStates:
    """Run a model over whole sequences, by the fast forward where it computes the same.

    Args:
        model: a model of this package.
        interaction: a batch of ``AllPositionsDataLoader``.
        inputs: what else ``model.all_positions`` takes, [B, L] each.
    """
    item_seq, item_seq_len = interaction[model.ITEM_SEQ], interaction[model.ITEM_SEQ_LEN]
    targets = interaction[target_list_field(model.ITEM_SEQ)].flatten()
    packing = Packing(item_seq)
    if can_run_fast(model):
        hidden = packed_positions(model, item_seq, packing)
    else:
        hidden = packing.pack(model.all_positions(item_seq, item_seq_len, *inputs).flatten(0, 1))
    index = packing.index
    has_target = targets[index] > 0
    if not bool(has_target.all()):
        hidden, index = hidden[has_target], index[has_target]
    return PredictedStates(hidden, targets[index], index)


def next_item_loss(model: Any, interaction: Any, states: PredictedStates) -> torch.Tensor:
    """The loss that ``loss_type`` names, the mean over positions.

    Args:
        model: a model of this package.
        interaction: the batch, with the negatives of BPR.
        states: what :func:`predicted_states` gave for it.
    """
    hidden, targets, flat_position = states
    weight = item_vectors(model)
    if model.loss_type == "BPR":
        negatives = interaction[negative_list_field(model.ITEM_SEQ, model.neg_prefix)]
        return pairwise_loss(hidden, weight, targets, negatives.flatten(0, 1)[flat_position])
    if model.sampled_loss is not None:
        return model.sampled_loss(hidden, weight, targets)
    return linear_cross_entropy(hidden, weight, targets, model.logits_chunk)


def all_positions_loss(model: Any, interaction: Any, *inputs: torch.Tensor) -> torch.Tensor:
    """Next-item loss at every position of every sequence of a batch, the mean over positions.

    Args:
        model: a model of this package.
        interaction: a batch of ``AllPositionsDataLoader``.
        inputs: what else ``model.all_positions`` takes, [B, L] each.
    """
    return next_item_loss(model, interaction, predicted_states(model, interaction, *inputs))
