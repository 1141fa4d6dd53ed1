"""Random attention blocks and what they are fed with, for hypothesis."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import torch
from hypothesis import strategies as st
from recbole.model.layers import TransformerEncoder

from recbole_residual.decomposition.blocks import tapped
from recbole_residual.decomposition.states import AttentionState
from recbole_residual.model.architecture.layers import model_layers
from recbole_residual.model.residual import scale_residual
from tests.decomposition.direct import DirectBlock, direct_block


@dataclass
class Case:
    """One encoder of a single layer and a batch for it.

    Attributes:
        encoder: RecBole's encoder with random weights, in eval mode.
        x: input, [B, L, D].
        mask: valid positions, [B, L].
        attention_mask: as RecBole makes it, [B, 1, L or 1, L].
        alpha: residual factor.
    """

    encoder: Any
    x: torch.Tensor
    mask: torch.Tensor
    attention_mask: torch.Tensor
    alpha: float

    @property
    def block(self) -> Any:
        return self.encoder.layer[0].multi_head_attention

    @torch.no_grad()
    def state(self) -> AttentionState:
        """What the hooks see."""
        states: list[AttentionState] = []
        layers = model_layers(self.encoder)
        watching = tapped(self.encoder, layers, lambda index, state: states.append(state))
        with scale_residual(self.encoder, self.alpha), watching:
            self.encoder(self.x, self.attention_mask)
        return states[0]

    @torch.no_grad()
    def direct(self) -> tuple[Any, DirectBlock]:
        """The block in float64, and what the slow way makes of it."""
        block = copy.deepcopy(self.block).double()
        return block, direct_block(block, self.x.double(), self.attention_mask.double(), self.alpha)


def make_case(
    lengths: list[int],
    extra: int = 0,
    n_heads: int = 2,
    head_size: int = 2,
    alpha: float = 1.0,
    causal: bool = True,
    dtype: torch.dtype = torch.float32,
    seed: int = 0,
) -> Case:
    """A case with sequences of these lengths and ``extra`` more columns of padding."""
    torch.manual_seed(seed)
    n_dim = n_heads * head_size
    encoder = TransformerEncoder(1, n_heads, n_dim, 2 * n_dim).eval()
    for parameter in encoder.parameters():
        parameter.data += 0.5 * torch.randn_like(parameter)
    longest = max(lengths) + extra
    x = torch.randn(len(lengths), longest, n_dim).to(dtype)
    mask = torch.arange(longest) < torch.tensor(lengths).unsqueeze(1)
    visible = mask[:, None, None, :]
    if causal:
        visible = visible.expand(-1, -1, longest, -1).tril()
    attention_mask = torch.where(visible, 0.0, -10000.0).to(dtype)
    return Case(encoder.to(dtype), x, mask, attention_mask, alpha)


def cases(dtypes: tuple[torch.dtype, ...] = (torch.float32, torch.float64)) -> Any:
    """Shapes, heads, masks, alpha, precision."""
    return st.builds(
        make_case,
        lengths=st.lists(st.integers(1, 7), min_size=1, max_size=4),
        extra=st.integers(0, 6),
        n_heads=st.integers(1, 4),
        head_size=st.integers(4, 6),
        alpha=st.sampled_from([0.0, 0.1, 0.7, 1.0, 1.5]),
        causal=st.booleans(),
        dtype=st.sampled_from(dtypes),
        seed=st.integers(0, 2**16),
    )
