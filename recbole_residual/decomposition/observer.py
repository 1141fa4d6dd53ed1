"""Decompose every forward that happens anyway, such as those of an evaluation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Callable

import torch
from recbole.model.sequential_recommender import BERT4Rec
from torch import nn

from recbole_residual.decomposition.blocks import (
    AttentionState,
    FeedForwardState,
    model_layers,
    tapped,
)
from recbole_residual.decomposition.ratios import attention_ratios, feed_forward_ratios
from recbole_residual.decomposition.result import Decomposition
from recbole_residual.decomposition.stages import (
    ATTENTION_STAGES,
    FEED_FORWARD_STAGES,
    check_stages,
)


class _Forward:
    """What the layers of one forward have reported so far."""

    def __init__(self) -> None:
        self.mask: torch.Tensor | None = None
        self.ratios: dict[tuple[int, str], torch.Tensor] = {}
        self.alpha: dict[int, float] = {}


class _Observer:
    """Puts the reports of the layers together and hands them on when the last one is in."""

    def __init__(
        self,
        model: nn.Module,
        callback: Callable[[Decomposition], None],
        stages: Sequence[str],
    ) -> None:
        self.layers = model_layers(model)
        self.stages = check_stages(stages)
        self._attention = tuple(name for name in self.stages if name in ATTENTION_STAGES)
        self._feed_forward = tuple(name for name in self.stages if name in FEED_FORWARD_STAGES)
        self._callback = callback
        self._last_position = "[MASK]" if isinstance(model, BERT4Rec) else "item"
        self._forward = _Forward()

    def on_attention(self, index: int, state: AttentionState) -> None:
        if index in self._forward.alpha:  # what came before was left by a forward that broke off
            self._forward = _Forward()
        self._forward.mask = state.mask
        self._forward.alpha[index] = state.alpha
        ratios = attention_ratios(state, self._attention)
        self._forward.ratios.update(zip([(index, name) for name in self._attention], ratios))
        self._emit()

    def on_feed_forward(self, index: int, state: FeedForwardState) -> None:
        ratios = feed_forward_ratios(state, self._feed_forward)
        self._forward.ratios.update(zip([(index, name) for name in self._feed_forward], ratios))
        self._emit()

    def _emit(self) -> None:
        forward, mask = self._forward, self._forward.mask
        if mask is None or len(forward.ratios) < len(self.layers) * len(self.stages):
            return
        self._forward = _Forward()
        ratios = [
            torch.stack([forward.ratios[index, name] for name in self.stages])
            for index in range(len(self.layers))
        ]
        self._callback(
            Decomposition(
                layers=tuple(layer.label for layer in self.layers),
                stages=self.stages,
                ratios=torch.stack(ratios),
                mask=mask,
                last_position=self._last_position,
                alpha=tuple(forward.alpha[index] for index in range(len(self.layers))),
            )
        )


@contextmanager
def observe(
    model: nn.Module,
    callback: Callable[[Decomposition], None],
    stages: Sequence[str] = ATTENTION_STAGES,
) -> Iterator[None]:
    """Decompose every forward of ``model`` inside the context, without a forward of its own.

    The numbers of the forward itself stay as they are, bit for bit. Contexts nest, also with
    :func:`~recbole_residual.model.residual.scale_residual` in either order; hooks of this context
    are gone on leaving it, also by an exception.

    Args:
        model: a RecBole model built from RecBole's attention blocks.
        callback: called once per forward with its :class:`Decomposition`, as soon as the last
            layer is done.
        stages: names out of ``attn``, ``res``, ``ln``, ``ffn`` and ``ffn_ln``.

    Raises:
        NoAttentionError: if the model has no attention block.
        TrainingModeError: at a forward in training mode.
        ValueError: if a stage is unknown.

    Example:
        >>> from recbole.model.layers import TransformerEncoder
        >>> encoder = TransformerEncoder(n_layers=2, hidden_size=8, inner_size=16).eval()
        >>> causal = torch.triu(torch.full((3, 3), -10000.0), diagonal=1)[None, None]
        >>> with observe(encoder, lambda seen: print(seen.ratios.shape, seen.ratios[..., 0].max())):
        ...     _ = encoder(torch.randn(5, 3, 8), causal)
        torch.Size([2, 3, 5, 3]) tensor(0.)
    """
    observer = _Observer(model, callback, stages)
    feed_forward = observer.on_feed_forward if observer._feed_forward else None
    with tapped(model, observer.layers, observer.on_attention, feed_forward):
        yield
