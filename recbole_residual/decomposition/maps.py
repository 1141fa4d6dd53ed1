"""The contribution map ``||N_i(a_ij)||`` without a tensor of [B, L, L, D].

All that position ``j`` can hand over lies in the span of its H head vectors. An orthonormal basis
of that span turns them into an H x H triangle ``R_j``, and the norm of any mixture of them is the
norm of H numbers: O(B L^2 H^2) work and O(B L^2) memory. (The Gram matrix of the head vectors would
do too, but its rounding grows to the square root of the machine's where heads cancel.)

Reference:
    Kobayashi et al. "Incorporating Residual and Normalization Layers into Analysis of Masked
    Language Models", EMNLP 2021.
"""

from __future__ import annotations

import torch
from torch import nn

from recbole_residual.decomposition.ratios import gained_norm
from recbole_residual.decomposition.states import AttentionState, to_work

_CELLS = {"cpu": 2**17}
"""Entries of [B, L, L] worked on at a time: on a CPU few enough to stay in its cache."""
_CELLS_ELSEWHERE = 2**26


def _triangles(state: AttentionState) -> torch.Tensor:
    """Head vectors of every position in an orthonormal basis of their own span.

    Returns:
        torch.Tensor: ``R[k, h]``, coordinate k of head h after centring and gain; 0 for k > h,
        [H, H, B, L].
    """
    n_heads = state.weights.shape[1]
    output = to_work(state.dense.weight)
    output = output - output.mean(dim=0, keepdim=True)
    if state.norm.weight is not None:
        output = output * to_work(state.norm.weight).unsqueeze(-1)
    output = output.t().unflatten(0, (n_heads, -1))  # [H, D / H, D]
    values = to_work(state.values).unflatten(-1, (n_heads, -1))
    triangles = values.new_zeros(n_heads, n_heads, *values.shape[:2])
    vectors = [torch.matmul(values[:, :, head], output[head]) for head in range(n_heads)]
    # Modified Gram-Schmidt, all positions at once; H is small.
    for row in range(n_heads):
        length = torch.linalg.vector_norm(vectors[row], dim=-1, keepdim=True)
        triangles[row, row] = length.squeeze(-1)
        axis = vectors[row] / length.clamp_min(torch.finfo(length.dtype).tiny)
        for head in range(row + 1, n_heads):
            along = (axis * vectors[head]).sum(dim=-1, keepdim=True)
            triangles[row, head] = along.squeeze(-1)
            vectors[head] = vectors[head] - along * axis
    return triangles


@torch.no_grad()
def contribution_map(state: AttentionState) -> torch.Tensor:
    """Norm of what each position takes from each other one, after the LayerNorm.

    The diagonal holds ``||N_i(a_ii + alpha x_i)||``: what the position keeps, residual included.

    Args:
        state: what one forward left in the block.

    Returns:
        torch.Tensor: row i takes from column j, 0 at padding, [B, L, L].
    """
    n_batch, n_heads, length, _ = state.weights.shape
    if state.gate is not None:
        return _gated_map(state, to_work(state.gate))
    triangles = _triangles(state).unsqueeze(-2)  # [k, h, B, 1, L]
    scale = state.mask * state.inverse_sigma
    norms = triangles.new_empty(n_batch, length, length)
    cells = _CELLS.get(norms.device.type, _CELLS_ELSEWHERE)
    step = max(1, cells // (length * length))
    for start in range(0, n_batch, step):
        some = slice(start, start + step)
        weights = [to_work(state.weights[some, head]) for head in range(n_heads)]
        square = torch.zeros_like(weights[0])
        for row in range(n_heads):
            coordinate = weights[row] * triangles[row, row, some]
            for head in range(row + 1, n_heads):
                coordinate.addcmul_(weights[head], triangles[row, head, some])
            square.addcmul_(coordinate, coordinate)
        torch.mul(square.sqrt_(), scale[some].unsqueeze(-1), out=norms[some])
    norms.diagonal(dim1=-2, dim2=-1).copy_(gained_norm(_kept(state), state.norm) * scale)
    return norms.masked_fill_(~state.mask.unsqueeze(1), 0)


def _gated_map(state: AttentionState, gate: torch.Tensor) -> torch.Tensor:
    """The same of a block whose branch is gated: the gate of each query stands between the head
    vectors and the norm, so every vector is made, some queries at a time."""
    n_batch, n_heads, length, _ = state.weights.shape
    n_dim = state.z.shape[-1]
    output = to_work(state.dense.weight).t().unflatten(0, (n_heads, -1))  # [H, D / H, D]
    values = to_work(state.values).unflatten(-1, (n_heads, -1))
    vectors = torch.einsum("bjhw,hwd->bhjd", values, output)
    scale = state.mask * state.inverse_sigma
    norms = vectors.new_empty(n_batch, length, length)
    step = max(1, _CELLS.get(norms.device.type, _CELLS_ELSEWHERE) // (length * n_dim))
    for row in range(n_batch):
        for start in range(0, length, step):
            some = slice(start, start + step)
            taken = torch.einsum("hij,hjd->ijd", to_work(state.weights[row, :, some]), vectors[row])
            norms[row, some] = gained_norm(taken * gate[row, some, None], state.norm)
    norms *= scale.unsqueeze(-1)
    norms.diagonal(dim1=-2, dim2=-1).copy_(gained_norm(_kept(state), state.norm) * scale)
    return norms.masked_fill_(~state.mask.unsqueeze(1), 0)


def _kept(state: AttentionState) -> torch.Tensor:
    """``a_ii + alpha x_i``, [B, L, D]."""
    n_heads = state.own_weight.shape[1]
    values = to_work(state.values).unflatten(-1, (n_heads, -1))
    own = (values * to_work(state.own_weight).transpose(1, 2).unsqueeze(-1)).flatten(-2)
    residual = to_work(state.z) - to_work(state.branch)
    return residual + state.gated(nn.functional.linear(own, to_work(state.dense.weight)))


@torch.no_grad()
def attention_map(state: AttentionState) -> torch.Tensor:
    """Mixing weights averaged over heads, 0 at padding, [B, L, L]."""
    weights = to_work(state.weights.mean(dim=1))
    return weights.masked_fill(~(state.mask[:, :, None] & state.mask[:, None, :]), 0)
