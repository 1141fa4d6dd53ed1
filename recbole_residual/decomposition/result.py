"""The labelled result of one forward."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

import pandas as pd
import torch

from recbole_residual.decomposition.block_parts import Parts
from recbole_residual.decomposition.statistics import RatioStatistics
from recbole_residual.errors import ModelError


@dataclass(frozen=True, repr=False)
class Decomposition:
    """What each position keeps and what it takes, in one forward of one batch.

    Attributes:
        layers: label of each layer, first one first: "1", "2", ...; with the name of the encoder
            before it ("item_trm_encoder.1") in a model that has several.
        stages: name of each stage.
        ratios: mixing ratios, 0 at padding, [layer, stage, B, L].
        mask: valid positions, [B, L].
        last_position: what stands at the last valid position: "item", or "[MASK]" for BERT4Rec,
            whose ratio there says nothing about the last item.
        alpha: residual factor that was in force on each attention block; None for a model whose
            stages have none.
        head_ratios: ratios of each head alone, stage ``attn``, [layer, H, B, L]; None unless asked
            for.
        contributions: ``||N_i(a_ij)||``, residual on the diagonal, row i takes from column j, 0 at
            padding, [layer, B, M, M]; None unless asked for.
        attention: mixing weights averaged over heads, laid out in the same way.
        map_mask: valid positions of the two maps, [B, M]: ``mask``, or that of the most recent
            positions, aligned at the right, if only those were asked for.
        parts: the vectors behind the ratios; None unless asked for.
    """

    layers: tuple[str, ...]
    stages: tuple[str, ...]
    ratios: torch.Tensor
    mask: torch.Tensor
    last_position: str = "item"
    alpha: tuple[float, ...] | None = None
    head_ratios: torch.Tensor | None = None
    contributions: torch.Tensor | None = None
    attention: torch.Tensor | None = None
    map_mask: torch.Tensor | None = None
    parts: Parts | None = None

    def __repr__(self) -> str:
        kept = [
            name
            for name in ("head_ratios", "contributions", "attention", "parts")
            if getattr(self, name) is not None
        ]
        return (
            f"Decomposition(layers={list(self.layers)}, stages={list(self.stages)}, "
            f"sequences={len(self.mask)}, alpha={self.alpha}"
            f"{''.join(f', {name}' for name in kept)})"
        )

    def _repr_html_(self) -> str:
        tidy = self.to_frame()
        means = tidy[(tidy["statistic"] == "mean") & (tidy["layer"] == "all")]
        table = means.pivot(index="stage", columns="position", values="value")
        return f"<p>{escape(repr(self))}</p>{table.to_html(float_format='{:.4f}'.format)}"

    def to_frame(self) -> pd.DataFrame:
        """Statistics of this batch as a tidy table, see :meth:`RatioStatistics.to_frame`."""
        statistics = RatioStatistics()
        statistics.update(self)
        return statistics.to_frame()

    def completeness(self) -> pd.DataFrame:
        """How far the sum of all parts is from the block's output, see :meth:`Parts.completeness`.

        Raises:
            ValueError: if the parts were not asked for.
        """
        if self.parts is None:
            raise ModelError("The parts were not kept: decompose with parts=True.")
        return self.parts.completeness()
