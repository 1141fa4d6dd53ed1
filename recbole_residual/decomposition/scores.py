"""Which earlier items raise or lower the score of an item.

With the two sigmas of the last layer held at their values, the output is linear in the parts, so
the score of an item splits into one dot product per position.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd
import torch
from recbole.data.interaction import Interaction
from torch import nn

from recbole_residual.decomposition.blocks import tapped
from recbole_residual.decomposition.masks import positions_from_end
from recbole_residual.decomposition.states import (
    AttentionState,
    FeedForwardState,
    inverse_sigma,
    to_work,
)
from recbole_residual.errors import ModelError, NonlinearScoreError, TrainingModeError
from recbole_residual.model.architecture.layers import model_layers
from recbole_residual.model.architecture.positions import last_valid_position
from recbole_residual.model.architecture.precision import refuse_half_precision
from recbole_residual.model.architecture.score import (
    SCORED_BY_PRODUCT,
    SCORED_OTHERWISE,
    item_vectors,
)
from recbole_residual.model.architecture.wrappers import unwrapped

_TOLERANCE = 1e-3
"""Largest gap between the model's score and the sum of the shares, relative to the scores."""


@dataclass(frozen=True)
class ScoreShares:
    """The score of some items, split into what it is made of; all shares add up to it.

    Attributes:
        items: the scored items, [B, K].
        positions: share of what the last position takes from each position (itself included)
            through attention in the last layer, 0 at padding, [B, K, L].
        residual: share of the last position's residual around attention, [B, K].
        feed_forward: share of the feed-forward block, [B, K].
        bias: share of the biases of the attention output and of both LayerNorms, [B, K].
        padding: share of what padding adds in models whose attention does not mask it, [B, K].
        score: the model's own score, [B, K].
        item_seq: item ids at the positions, [B, L].
        mask: valid positions, [B, L].
    """

    items: torch.Tensor
    positions: torch.Tensor
    residual: torch.Tensor
    feed_forward: torch.Tensor
    bias: torch.Tensor
    padding: torch.Tensor
    score: torch.Tensor
    item_seq: torch.Tensor
    mask: torch.Tensor

    @property
    def total(self) -> torch.Tensor:
        """Sum of all shares, [B, K]; the score, but for rounding."""
        others = self.residual + self.feed_forward + self.bias + self.padding
        return self.positions.sum(dim=-1) + others

    def to_frame(self) -> pd.DataFrame:
        """A tidy table: row, scored_item, source, from_end and item (for positions), share."""
        from_end = positions_from_end(self.mask).tolist()
        rows: list[dict[str, Any]] = []
        for row, items in enumerate(self.items.tolist()):
            for column, scored in enumerate(items):
                head = {"row": row, "scored_item": scored}
                for position in self.mask[row].nonzero().flatten().tolist():
                    rows.append(
                        {
                            **head,
                            "source": "position",
                            "from_end": from_end[row][position],
                            "item": self.item_seq[row, position].item(),
                            "share": self.positions[row, column, position].item(),
                        }
                    )
                for source in ("residual", "feed_forward", "bias", "padding"):
                    share = getattr(self, source)[row, column].item()
                    rows.append({**head, "source": source, "share": share})
        frame = pd.DataFrame(rows)
        return frame.astype({"from_end": "Int64", "item": "Int64"})


def _chosen_items(model: Any, interaction: Interaction, items: str | torch.Tensor) -> torch.Tensor:
    item_seq = interaction[model.ITEM_SEQ]
    if isinstance(items, torch.Tensor):
        chosen = items.to(item_seq.device)
        return chosen if chosen.dim() == 2 else chosen.unsqueeze(1)
    if items == "target":
        return interaction[model.ITEM_ID].unsqueeze(1)
    if items == "last":
        return item_seq.gather(1, interaction[model.ITEM_SEQ_LEN].unsqueeze(1) - 1)
    raise ModelError(f'items = {items!r}: give "target", "last", or a tensor of ids [B] or [B, K].')


@torch.no_grad()
def score_shares(
    model: nn.Module, interaction: Interaction, items: str | torch.Tensor = "target"
) -> ScoreShares:
    """Split the scores of some items into the shares of positions.

    The model runs as it is, under the ``alpha`` in force, and the shares are held against its own
    scores before they are handed out.

    Args:
        model: a RecBole model whose score is the dot product of the last layer's output with the
            item embedding (SASRec, SASRecF, FEARec, LightSANs, S3Rec, ...), in eval mode.
        interaction: a batch as RecBole's evaluation hands it to ``full_sort_predict``.
        items: "target", "last" (the last input item), or item ids, [B] or [B, K].

    Raises:
        NoAttentionError: if the model has no attention block.
        NonlinearScoreError: if the score is made in any other way.
        TrainingModeError: if the model is in training mode.
    """
    model = unwrapped(model)
    refuse_half_precision(model)
    layers = model_layers(model)
    if layers[-1].attention.training:
        raise TrainingModeError(model)
    recommender: Any = model
    interaction = interaction.to(next(model.parameters()).device)
    chosen = _chosen_items(model, interaction, items)
    attention: dict[int, AttentionState] = {}
    feed_forward: dict[int, FeedForwardState] = {}
    with tapped(model, layers[-1:], attention.__setitem__, feed_forward.__setitem__):
        scores = to_work(recommender.full_sort_predict(interaction))
    shares = _split(
        attention[0],
        feed_forward[0],
        to_work(item_vectors(recommender))[chosen],
    )
    result = ScoreShares(
        items=chosen,
        score=scores.gather(1, chosen),
        item_seq=interaction[recommender.ITEM_SEQ],
        mask=attention[0].mask,
        **shares,
    )
    gap = (result.total - result.score).abs().max()
    if not gap <= _TOLERANCE * result.score.abs().max().clamp_min(1):
        raise NonlinearScoreError(model, SCORED_BY_PRODUCT, SCORED_OTHERWISE)
    return result


def _back(norm: nn.LayerNorm, z: torch.Tensor, direction: torch.Tensor) -> torch.Tensor:
    """The direction before LayerNorm that has the same dot products as ``direction`` behind it.

    Args:
        norm: the LayerNorm.
        z: what it saw, [B, D].
        direction: [B, K, D].
    """
    gained = direction if norm.weight is None else direction * to_work(norm.weight)
    centred = gained - gained.mean(dim=-1, keepdim=True)
    return centred * inverse_sigma(norm, z)[:, None, None]


def _dot(vector: torch.Tensor | None, direction: torch.Tensor) -> torch.Tensor:
    """Dot products of [D] or [B, D] with [B, K, D], [B, K]; 0 for None."""
    if vector is None:
        return direction.new_zeros(direction.shape[:-1])
    return (to_work(vector).view(-1, 1, direction.shape[-1]) * direction).sum(dim=-1)


def _split(
    attention: AttentionState, feed_forward: FeedForwardState, items: torch.Tensor
) -> dict[str, torch.Tensor]:
    rows = torch.arange(len(items), device=items.device)
    last = last_valid_position(attention.mask)

    def at_last(tensor: torch.Tensor) -> torch.Tensor:
        return to_work(tensor[rows, last])

    padding = None if attention.padding is None else at_last(attention.padding)
    z = at_last(attention.z) if padding is None else at_last(attention.z) + padding
    behind = _back(feed_forward.norm, at_last(feed_forward.z), items)
    # The attention block reaches the output through the residual of the feed-forward block.
    through = feed_forward.alpha * behind
    if feed_forward.carries_stream:
        before, norm_bias = through, torch.zeros_like(attention.norm.bias)
    else:
        before, norm_bias = _back(attention.norm, z, through), attention.norm.bias

    n_heads = attention.weights.shape[1]
    weights = to_work(attention.weights[rows, :, last])  # [B, H, L]
    values = to_work(attention.values).unflatten(-1, (n_heads, -1))
    # before the gate of the block's branch, if it has one
    branch = before if attention.gate is None else before * at_last(attention.gate).unsqueeze(1)
    query = torch.matmul(branch, to_work(attention.dense.weight)).unflatten(-1, (n_heads, -1))
    biases = (
        _dot(attention.dense.bias, branch)
        + _dot(norm_bias, through)
        + _dot(feed_forward.norm.bias, items)
    )
    return {
        "positions": torch.einsum("bhj,bjhd,bkhd->bkj", weights, values, query),
        "residual": _dot(attention.alpha * at_last(attention.x), before),
        "feed_forward": _dot(at_last(feed_forward.branch), behind),
        "bias": biases,
        "padding": _dot(padding, before),
    }
