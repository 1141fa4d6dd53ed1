"""The parts themselves, and the proof that nothing is missing from them."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd
import torch
from torch import nn

from recbole_residual.decomposition.states import AttentionState, mix, to_work

PARTS = ("own", "others", "residual", "bias", "padding")
"""``a_ii``; the sum of ``a_ij`` over the other valid positions; ``alpha x_i``; ``b_O``; and what
padding adds in the models whose blocks do not mask it (zero in all others)."""


@dataclass(frozen=True)
class Parts:
    """Parts of every attention block.

    Attributes:
        layers: label of each layer.
        before_norm: the parts of what LayerNorm sees, in the order of :data:`PARTS`,
            [layer, part, B, L, D].
        after_norm: the same parts after LayerNorm, N(part), and the bias of LayerNorm as one more,
            [layer, part + 1, B, L, D].
        z: what LayerNorm saw in the forward, [layer, B, L, D].
        h: what LayerNorm gave in the forward, [layer, B, L, D].
        mask: valid positions, [B, L].
    """

    layers: tuple[str, ...]
    before_norm: torch.Tensor
    after_norm: torch.Tensor
    z: torch.Tensor
    h: torch.Tensor
    mask: torch.Tensor

    def completeness(self) -> pd.DataFrame:
        """How far the sum of the parts is from what the forward really held.

        Returns:
            pd.DataFrame: layer; output ("z" before LayerNorm, "h" after it); error, the largest
            absolute difference at a valid position; largest, the largest absolute value there.
        """
        rows = []
        for output, parts, actual in (
            ("z", self.before_norm, self.z),
            ("h", self.after_norm, self.h),
        ):
            for layer, total, truth in zip(self.layers, parts.sum(dim=1), actual):
                error = (total - truth)[self.mask].abs().max()
                rows.append((layer, output, error.item(), truth[self.mask].abs().max().item()))
        return pd.DataFrame(rows, columns=["layer", "output", "error", "largest"])


@torch.no_grad()
def attention_parts(state: AttentionState) -> dict[str, torch.Tensor]:
    """Parts of one block, each worked out from its own definition and none as a remainder.

    Returns:
        dict: ``before_norm`` [part, B, L, D], ``after_norm`` [part + 1, B, L, D], and ``z`` and
        ``h`` [B, L, D] as the forward had them.
    """
    weight, values, weights = (
        to_work(tensor) for tensor in (state.dense.weight, state.values, state.weights)
    )
    diagonal = torch.diag_embed(to_work(state.own_weight))
    x, z, h = to_work(state.x), to_work(state.z), to_work(state.h)
    nothing = torch.zeros_like(x)
    bias = nothing if state.dense.bias is None else to_work(state.dense.bias).expand_as(x)
    padding = nothing if state.padding is None else to_work(state.padding)
    before_norm = torch.stack(
        [
            state.gated(nn.functional.linear(mix(diagonal, values), weight)),
            state.gated(nn.functional.linear(mix(weights - diagonal, values), weight)),
            state.alpha * x,
            state.gated(bias),
            padding,
        ]
    )
    scale = to_work(state.inverse_sigma).unsqueeze(-1)
    after_norm = (before_norm - before_norm.mean(dim=-1, keepdim=True)) * scale
    if state.norm.weight is not None:
        after_norm = after_norm * to_work(state.norm.weight)
    norm_bias = nothing if state.norm.bias is None else to_work(state.norm.bias).expand_as(x)
    return {
        "before_norm": before_norm,
        "after_norm": torch.cat([after_norm, norm_bias.unsqueeze(0)]),
        "z": z + padding,
        "h": h,
    }
