"""Mixing ratios without a tensor of [B, L, L, D].

With ``c`` the context of a position and ``w v`` its own part of it, the mixing part is
``m = (c - w v) W_O``: one extra product with the output matrix. The preserving parts are what is
left of tensors that the forward holds anyway, ``branch - b_O - m`` and ``z - b_O - m``. The
``sigma`` of LayerNorm divides both norms of a ratio and drops out.

Reference:
    Kobayashi et al. "Incorporating Residual and Normalization Layers into Analysis of Masked
    Language Models", EMNLP 2021 (the parts); Kozaki et al. 2026 (the mixing ratio by stage).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import nn

from recbole_residual.decomposition.stages import mixing_ratio
from recbole_residual.decomposition.states import AttentionState, FeedForwardState, to_work

_ROWS = {"cpu": 4096}
"""Positions worked on at a time: on a CPU few enough to stay in its cache."""
_ROWS_ELSEWHERE = 65536

_DENSE = 0.8
"""Share of valid positions from which on working on the padding too beats picking rows."""


class _Rows:
    """Some rows of [N, ...] tensors: a slice, or picked by index."""

    def __init__(self, where: slice | torch.Tensor) -> None:
        self.where = where

    def __call__(self, tensor: torch.Tensor) -> torch.Tensor:
        if isinstance(self.where, slice):
            return to_work(tensor[self.where])
        return to_work(tensor.index_select(0, self.where))


def _row_chunks(mask: torch.Tensor) -> Iterator[_Rows]:
    """The rows of [B * L, ...] tensors that hold valid positions, in chunks that suit the device.

    Args:
        mask: valid positions, [B, L].
    """
    step = _ROWS.get(mask.device.type, _ROWS_ELSEWHERE)
    valid = mask.flatten().nonzero().squeeze(1)
    if len(valid) < _DENSE * mask.numel():
        yield from map(_Rows, valid.split(step))
    else:
        for start in range(0, mask.numel(), step):
            yield _Rows(slice(start, start + step))


def gained_norm(vectors: torch.Tensor, norm: nn.LayerNorm) -> torch.Tensor:
    """``||g * (u - mean(u))||``: the norm of N(u), but for the division by sigma.

    Args:
        vectors: u, [..., D].
        norm: the LayerNorm that holds the gain g.

    Returns:
        torch.Tensor: [...].
    """
    squares = (vectors - vectors.mean(dim=-1, keepdim=True)).square_()
    if norm.weight is None:
        return squares.sum(dim=-1).sqrt_()
    # g goes in at the end, as the vector of one matrix-vector product: a pass less than g * u.
    return torch.matmul(squares, to_work(norm.weight).square()).sqrt_()


@torch.no_grad()
def attention_ratios(state: AttentionState, stages: Sequence[str]) -> torch.Tensor:
    """Mixing ratios of one attention block.

    Args:
        state: what one forward left in the block.
        stages: names out of ``attn``, ``res`` and ``ln``.

    Returns:
        torch.Tensor: ratios, 0 at padding, [stage, B, L].
    """
    n_batch, n_positions, n_dim = state.z.shape
    values, context, branch, z = (
        tensor.reshape(-1, n_dim) for tensor in (state.values, state.context, state.branch, state.z)
    )
    gate = None if state.gate is None else state.gate.reshape(-1, n_dim)
    own_weight = state.own_weight.transpose(1, 2).reshape(len(z), -1, 1)
    heads = (-1, own_weight.shape[1], n_dim // own_weight.shape[1])
    dense, norm = state.dense, state.norm
    weight = to_work(dense.weight)
    bias = None if dense.bias is None else to_work(dense.bias)

    taken, kept = weight.new_zeros(2, len(stages), len(z))
    for rows in _row_chunks(state.mask):
        others = torch.addcmul(
            rows(context).view(heads),
            rows(own_weight),
            rows(values).view(heads),
            value=-1,
        )
        mixing = nn.functional.linear(others.view(-1, n_dim), weight)
        not_own = mixing if bias is None else mixing + bias
        if gate is not None:
            mixing, not_own = mixing * rows(gate), not_own * rows(gate)
        own = rows(z) - not_own
        mixing_norm = torch.linalg.vector_norm(mixing, dim=-1)
        for index, stage in enumerate(stages):
            if stage == "ln":
                taken[index, rows.where] = gained_norm(mixing, norm)
                kept[index, rows.where] = gained_norm(own, norm)
                continue
            preserving = own if stage == "res" else rows(branch) - not_own
            taken[index, rows.where] = mixing_norm
            kept[index, rows.where] = torch.linalg.vector_norm(preserving, dim=-1)
    ratios = mixing_ratio(taken, kept).view(-1, n_batch, n_positions)
    return ratios.masked_fill_(~state.mask, 0)


@torch.no_grad()
def head_ratios(state: AttentionState) -> torch.Tensor:
    """Mixing ratios of each head alone, stage ``attn``.

    Args:
        state: what one forward left in the block.

    Returns:
        torch.Tensor: ratios, 0 at padding, [H, B, L].
    """
    n_heads = state.own_weight.shape[1]
    own_weight = to_work(state.own_weight).permute(1, 0, 2).unsqueeze(-1)
    output = to_work(state.dense.weight).t().unflatten(0, (n_heads, -1))  # [H, D / H, D]
    own, context = (
        to_work(tensor).unflatten(-1, (n_heads, -1)).permute(2, 0, 1, 3)
        for tensor in (state.values, state.context)
    )
    own = own * own_weight
    mixing, preserving = (
        torch.linalg.vector_norm(state.gated(torch.matmul(vectors, output[:, None])), dim=-1)
        for vectors in (context - own, own)
    )
    return mixing_ratio(mixing, preserving) * state.mask


@torch.no_grad()
def feed_forward_ratios(state: FeedForwardState, stages: Sequence[str]) -> torch.Tensor:
    """Share of what the feed-forward block writes against what its residual keeps.

    The pair is the residual against the output of the second dense layer without its bias; no
    position takes anything from another one here.

    Args:
        state: what one forward left in the block.
        stages: names out of ``ffn`` and ``ffn_ln``.

    Returns:
        torch.Tensor: ratios, 0 at padding, [stage, B, L].
    """
    n_batch, n_positions, n_dim = state.z.shape
    branch, z = state.branch.reshape(-1, n_dim), state.z.reshape(-1, n_dim)
    dense, norm = state.dense, state.norm
    gate = None if state.gate is None else state.gate.reshape(-1, n_dim)
    ratios = to_work(z[:0]).new_zeros(len(stages), len(z))
    for rows in _row_chunks(state.mask):
        written = rows(branch)
        kept = rows(z) - written
        if dense.bias is not None:
            bias = to_work(dense.bias)
            written = written - (bias if gate is None else bias * rows(gate))
        if "ffn" in stages:
            ratios[stages.index("ffn"), rows.where] = mixing_ratio(
                torch.linalg.vector_norm(written, dim=-1), torch.linalg.vector_norm(kept, dim=-1)
            )
        if "ffn_ln" in stages:
            ratios[stages.index("ffn_ln"), rows.where] = mixing_ratio(
                gained_norm(written, norm), gained_norm(kept, norm)
            )
    return ratios.view(-1, n_batch, n_positions).masked_fill_(~state.mask, 0)
