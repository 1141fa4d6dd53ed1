"""What one forward leaves behind in an attention or feed-forward block."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import nn

from recbole_residual.decomposition.masks import RecentPositions


@dataclass(frozen=True)
class AttentionState:
    """One attention block in one forward, the residual already scaled by ``alpha``.

    Attributes:
        dense: the output layer, W_O and b_O.
        norm: the LayerNorm behind it, with gain g, bias b and eps.
        mask: valid positions, [B, L].
        values: values of all heads side by side, [B, L, D].
        weights: mixing matrix, 0 on padding keys, [B, H, L, L].
        own_weight: its diagonal, [B, H, L].
        context: what ``dense`` receives, without anything from padding, [B, L, D].
        branch: what ``dense`` gives for that context, its bias included, [B, L, D].
        z: what LayerNorm sees, without anything from padding, [B, L, D].
        padding: what padding adds to ``z``; None for blocks that take nothing from it, [B, L, D].
        x: what the residual carries: the input of the block, or the stream of a pre-LN model,
            [B, L, D].
        h: what LayerNorm gives, [B, L, D].
        alpha: residual factor in force.
        gate: what multiplies everything that the block adds to its residual (``branch`` holds it
            already); None for no gate, [B, L, D].
    """

    dense: nn.Linear
    norm: nn.LayerNorm
    mask: torch.Tensor
    values: torch.Tensor
    weights: torch.Tensor
    own_weight: torch.Tensor
    context: torch.Tensor
    branch: torch.Tensor
    z: torch.Tensor
    padding: torch.Tensor | None
    x: torch.Tensor
    h: torch.Tensor
    alpha: float
    gate: torch.Tensor | None = None

    def gated(self, added: torch.Tensor) -> torch.Tensor:
        """What reaches the residual of something that the output layer gives, [..., B, L, D]."""
        return added if self.gate is None else added * to_work(self.gate)

    @property
    def inverse_sigma(self) -> torch.Tensor:
        """``1 / sqrt(var(z) + eps)`` of what LayerNorm really sees, [B, L]."""
        z = self.z if self.padding is None else self.z + self.padding
        return inverse_sigma(self.norm, z)

    def take(self, positions: RecentPositions) -> AttentionState:
        """The state at some positions only, as queries and as keys: K in the place of L."""
        index = positions.index
        n_heads, n_dim, n_kept = self.weights.shape[1], self.z.shape[-1], index.shape[1]
        vectors = index.unsqueeze(-1).expand(-1, -1, n_dim)
        rows = index[:, None, :, None].expand(-1, n_heads, -1, self.weights.shape[-1])
        columns = index[:, None, None, :].expand(-1, n_heads, n_kept, -1)

        def kept(tensor: torch.Tensor) -> torch.Tensor:
            return tensor.gather(1, vectors)

        return replace(
            self,
            mask=positions.valid,
            values=kept(self.values),
            weights=self.weights.gather(2, rows).gather(3, columns),
            own_weight=self.own_weight.gather(2, index[:, None, :].expand(-1, n_heads, -1)),
            context=kept(self.context),
            branch=kept(self.branch),
            z=kept(self.z),
            padding=None if self.padding is None else kept(self.padding),
            x=kept(self.x),
            h=kept(self.h),
            gate=None if self.gate is None else kept(self.gate),
        )


@dataclass(frozen=True)
class FeedForwardState:
    """One feed-forward block in one forward.

    Attributes:
        dense: the second dense layer.
        norm: the LayerNorm behind it, with gain g, bias b and eps.
        mask: valid positions, [B, L].
        branch: output of the second dense layer, its bias included, [B, L, D].
        z: what LayerNorm sees, [B, L, D].
        alpha: residual factor in force.
        carries_stream: whether its residual carries the sum before the LayerNorm of the attention
            block (a pre-LN model), and not what comes out of it.
        gate: what multiplies the branch (``branch`` holds it already); None for none, [B, L, D].
    """

    dense: nn.Linear
    norm: nn.LayerNorm
    mask: torch.Tensor
    branch: torch.Tensor
    z: torch.Tensor
    alpha: float
    carries_stream: bool
    gate: torch.Tensor | None = None


def to_work(tensor: torch.Tensor) -> torch.Tensor:
    """float64 stays float64; everything narrower is worked out in float32."""
    return tensor if tensor.dtype == torch.float64 else tensor.float()


def inverse_sigma(norm: nn.LayerNorm, z: torch.Tensor) -> torch.Tensor:
    """``1 / sqrt(var(z) + eps)`` as LayerNorm works it out, [..., D] -> [...]."""
    return torch.native_layer_norm(to_work(z), z.shape[-1:], None, None, norm.eps)[2].squeeze(-1)


def without_autocast(tensor: torch.Tensor) -> torch.autocast:
    """A context in which nothing is cast down, on the device of ``tensor``."""
    return torch.autocast(device_type=tensor.device.type, enabled=False)


def mix(weights: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """``sum_j M[h, i, j] v[h, j]``, heads side by side.

    Args:
        weights: mixing matrix, [B, H, L, L].
        values: values of all heads side by side, [B, L, D].

    Returns:
        torch.Tensor: context, [B, L, D].
    """
    heads = values.unflatten(-1, (weights.shape[1], -1)).transpose(1, 2)
    return torch.matmul(weights, heads).transpose(1, 2).flatten(-2)
