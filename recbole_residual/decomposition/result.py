"""The labelled result of one forward."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Decomposition:
    """What each position keeps and what it takes, in one forward of one batch.

    Attributes:
        layers: label of each layer, first one first ("1", "2", ...).
        stages: name of each stage.
        ratios: mixing ratios, 0 at padding, [layer, stage, B, L].
        mask: valid positions, [B, L].
        last_position: what stands at the last valid position: "item", or "[MASK]" for BERT4Rec,
            whose ratio there says nothing about the last item.
        alpha: residual factor that was in force on each attention block.
    """

    layers: tuple[str, ...]
    stages: tuple[str, ...]
    ratios: torch.Tensor
    mask: torch.Tensor
    last_position: str = "item"
    alpha: tuple[float, ...] | None = None
