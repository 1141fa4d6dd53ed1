"""Decompose every forward that happens anyway, such as those of an evaluation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Callable

import torch
from torch import nn

from recbole_residual.decomposition.block_parts import Parts, attention_parts
from recbole_residual.decomposition.blocks import tapped
from recbole_residual.decomposition.gate import observe_gates
from recbole_residual.decomposition.maps import attention_map, contribution_map
from recbole_residual.decomposition.masks import recent_positions
from recbole_residual.decomposition.ratios import (
    attention_ratios,
    feed_forward_ratios,
    head_ratios,
)
from recbole_residual.decomposition.result import Decomposition
from recbole_residual.decomposition.stages import (
    ATTENTION_STAGES,
    FEED_FORWARD_STAGES,
    GATE_STAGES,
    check_stages,
    stages_of,
)
from recbole_residual.decomposition.states import AttentionState, FeedForwardState
from recbole_residual.errors import ModelError
from recbole_residual.model.architecture.layers import model_layers
from recbole_residual.model.architecture.window import last_position


@dataclass
class _Forward:
    """What the layers of one forward have reported so far, by index of the layer."""

    mask: torch.Tensor
    map_mask: torch.Tensor | None = None
    alpha: list[float] = field(default_factory=list)
    ratios: dict[str, list[torch.Tensor]] = field(default_factory=dict)
    tensors: dict[str, list[torch.Tensor]] = field(default_factory=dict)

    def add(self, **tensors: torch.Tensor) -> None:
        for name, tensor in tensors.items():
            self.tensors.setdefault(name, []).append(tensor)

    def stack(self, name: str) -> torch.Tensor | None:
        return torch.stack(self.tensors[name]) if name in self.tensors else None


class _Observer:
    """Puts the reports of the layers together and hands them on when the last one is in."""

    def __init__(
        self,
        model: nn.Module,
        callback: Callable[[Decomposition], None],
        stages: Sequence[str],
        maps: bool,
        recent: int | None,
        heads: bool,
        parts: bool,
    ) -> None:
        if recent is not None and (not maps or recent < 1):
            raise ModelError(f"recent = {recent!r} is a number of positions of maps=True, from 1.")
        self.layers = model_layers(model)
        self.stages = check_stages(stages)
        self.attention_stages = tuple(name for name in self.stages if name in ATTENTION_STAGES)
        self.feed_forward_stages = tuple(
            name for name in self.stages if name in FEED_FORWARD_STAGES
        )
        self._callback = callback
        self._maps, self._recent, self._heads, self._parts = maps, recent, heads, parts
        self._last_position = last_position(model)
        self._forward: _Forward | None = None

    def on_attention(self, index: int, state: AttentionState) -> None:
        if index == 0:  # opens a new forward, also after one that broke off half-way
            self._forward = _Forward(state.mask)
        forward = self._forward
        if forward is None or len(forward.alpha) != index:
            raise RuntimeError("The layers of the model ran out of order: not a whole forward.")
        forward.alpha.append(state.alpha)
        for name, ratios in zip(
            self.attention_stages, attention_ratios(state, self.attention_stages)
        ):
            forward.ratios.setdefault(name, []).append(ratios)
        if self._heads:
            forward.add(head_ratios=head_ratios(state))
        if self._maps:
            shown = state
            if self._recent is not None:
                shown = state.take(recent_positions(state.mask, self._recent))
            forward.map_mask = shown.mask
            forward.add(contributions=contribution_map(shown), attention=attention_map(shown))
        if self._parts:
            forward.add(**attention_parts(state))
        if index == len(self.layers) - 1 and not self.feed_forward_stages:
            self._emit(forward)

    def on_feed_forward(self, index: int, state: FeedForwardState) -> None:
        assert self._forward is not None
        for name, ratios in zip(
            self.feed_forward_stages, feed_forward_ratios(state, self.feed_forward_stages)
        ):
            self._forward.ratios.setdefault(name, []).append(ratios)
        if index == len(self.layers) - 1:
            self._emit(self._forward)

    def _emit(self, forward: _Forward) -> None:
        self._forward = None
        labels = tuple(layer.label for layer in self.layers)
        parts = None
        if self._parts:
            kept = {name: torch.stack(forward.tensors[name]) for name in _PART_TENSORS}
            parts = Parts(layers=labels, mask=forward.mask, **kept)
        self._callback(
            Decomposition(
                layers=labels,
                stages=self.stages,
                ratios=torch.stack(
                    [torch.stack(forward.ratios[name]) for name in self.stages], dim=1
                ),
                mask=forward.mask,
                last_position=self._last_position,
                alpha=tuple(forward.alpha),
                head_ratios=forward.stack("head_ratios"),
                contributions=forward.stack("contributions"),
                attention=forward.stack("attention"),
                map_mask=forward.map_mask,
                parts=parts,
            )
        )


_PART_TENSORS = ("before_norm", "after_norm", "z", "h")


@contextmanager
def observe(
    model: nn.Module,
    callback: Callable[[Decomposition], None],
    stages: Sequence[str] | None = None,
    *,
    maps: bool = False,
    recent: int | None = None,
    heads: bool = False,
    parts: bool = False,
) -> Iterator[None]:
    """Decompose every forward of ``model`` inside the context, without a forward of its own.

    The numbers of the forward itself stay as they are, bit for bit. Contexts nest, also with
    :func:`~recbole_residual.model.residual.scale_residual` in either order; hooks of this context
    are gone on leaving it, also by an exception.

    Args:
        model: a RecBole model built from RecBole's attention blocks.
        callback: called once per forward with its :class:`Decomposition`, as soon as the last
            layer is done.
        stages: names out of ``attn``, ``res``, ``ln``, ``ffn`` and ``ffn_ln``, by default the first
            three; GRU4RecResidual has ``gate`` only, and nothing else than ratios.
        maps: whether to work out the contribution and attention maps too.
        recent: only the maps of this many most recent positions, aligned at the right.
        heads: whether to work out the ratios of each head, stage ``attn``.
        parts: whether to keep the parts themselves, for :meth:`Decomposition.completeness`.

    Raises:
        NoAttentionError: if the model has no attention block.
        TrainingModeError: at a forward in training mode.
        ValueError: if a stage is unknown or not the model's, or ``recent`` is not usable.

    Example:
        >>> from recbole.model.layers import TransformerEncoder
        >>> encoder = TransformerEncoder(n_layers=2, hidden_size=8, inner_size=16).eval()
        >>> causal = torch.triu(torch.full((3, 3), -10000.0), diagonal=1)[None, None]
        >>> with observe(encoder, lambda d: print(d.ratios.shape, d.ratios[..., 0].max())):
        ...     _ = encoder(torch.randn(5, 3, 8), causal)
        torch.Size([2, 3, 5, 3]) tensor(0.)
    """
    stages = stages_of(model) if stages is None else stages
    if stages_of(model) == GATE_STAGES:
        if tuple(stages) != GATE_STAGES or maps or heads or parts:
            raise ModelError(
                f"{type(model).__name__} has a GRU in the place of attention: its only stage is "
                "'gate', and it has neither maps nor heads nor parts."
            )
        with observe_gates(model, callback):
            yield
        return
    observer = _Observer(model, callback, stages, maps, recent, heads, parts)
    feed_forward = observer.on_feed_forward if observer.feed_forward_stages else None
    with tapped(model, observer.layers, observer.on_attention, feed_forward):
        yield
