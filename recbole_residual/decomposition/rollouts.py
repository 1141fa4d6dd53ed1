"""From the last position through all layers back to the input.

Reference:
    Abnar & Zuidema "Quantifying Attention Flow in Transformers", ACL 2020 (attention rollout);
    Kobayashi et al., EMNLP 2021 (the maps rolled out beside it).
"""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd
import torch
from torch import nn

from recbole_residual.decomposition.masks import positions_from_end
from recbole_residual.decomposition.result import Decomposition
from recbole_residual.errors import ModelError
from recbole_residual.model.architecture.positions import last_valid_position


@dataclass(frozen=True)
class Rollout:
    """Share of each input position in the last position of the last layer.

    Attributes:
        contribution: rollout of the contribution maps, rows sum to 1, 0 at padding, [B, L].
        attention: attention rollout, in the same way, [B, L].
        mask: valid positions, [B, L].
        last_position: "item", or "[MASK]" for BERT4Rec.
    """

    contribution: torch.Tensor
    attention: torch.Tensor
    mask: torch.Tensor
    last_position: str

    @property
    def distance(self) -> torch.Tensor:
        """Total variation distance of the two: 0 if they agree, 1 if they are disjoint, [B]."""
        return (self.contribution - self.attention).abs().sum(dim=1) / 2

    def to_frame(self) -> pd.DataFrame:
        """A tidy table over valid positions: row, from_end (0 is the last position), contribution,
        attention, last_position."""
        row, position = (index.tolist() for index in self.mask.nonzero(as_tuple=True))
        return pd.DataFrame(
            {
                "row": row,
                "from_end": positions_from_end(self.mask)[row, position].tolist(),
                "contribution": self.contribution[row, position].tolist(),
                "attention": self.attention[row, position].tolist(),
                "last_position": self.last_position,
            }
        )


def rollout(decomposition: Decomposition, encoder: str | None = None) -> Rollout:
    """Roll the normalised maps out from the last position to the input positions.

    A layer's contribution map already holds its residual, so each row is only divided by its sum.
    Attention knows nothing of the residual; its rollout takes the half-and-half of Abnar & Zuidema.

    Args:
        decomposition: result of ``decompose(..., maps=True)`` with maps of all positions.
        encoder: which encoder, in a model that has several ("item_trm_encoder" in FDSA).

    Raises:
        ValueError: if there are no maps of all positions, or the encoder is missing or unknown.
    """
    contributions, attention = decomposition.contributions, decomposition.attention
    map_mask, mask = decomposition.map_mask, decomposition.mask
    if contributions is None or attention is None or map_mask is None:
        raise ModelError("A rollout needs the maps: decompose with maps=True.")
    if not torch.equal(map_mask, mask):
        raise ModelError("A rollout needs the maps of all positions: leave recent out.")
    encoders = [label.rpartition(".")[0] for label in decomposition.layers]
    if (encoder is None and len(set(encoders)) > 1) or (encoder not in (None, *encoders)):
        raise ModelError(f"encoder = {encoder!r}: choose one of {sorted(set(encoders))}.")
    chosen = [index for index, name in enumerate(encoders) if encoder in (None, name)]
    identity = torch.eye(mask.shape[1], dtype=attention.dtype, device=attention.device)
    halves = _rows_to_one(attention[chosen]) / 2 + identity / 2
    return Rollout(
        contribution=_from_last(_rows_to_one(contributions[chosen]), mask),
        attention=_from_last(halves, mask),
        mask=mask,
        last_position=decomposition.last_position,
    )


def _rows_to_one(maps: torch.Tensor) -> torch.Tensor:
    total = maps.sum(dim=-1, keepdim=True)
    return torch.where(total > 0, maps / total, torch.zeros_like(maps))


def _from_last(maps: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    last = last_valid_position(mask)
    flow = nn.functional.one_hot(last, mask.shape[1]).to(maps.dtype).unsqueeze(1)  # [B, 1, L]
    for layer in reversed(maps):
        flow = torch.matmul(flow, layer)
    return flow.squeeze(1)
