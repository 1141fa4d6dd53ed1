"""Decompose one forward: around any call of the model, or for one batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from recbole.data.interaction import Interaction
from torch import nn

from recbole_residual.decomposition.observer import observe
from recbole_residual.decomposition.recent import RecentMap
from recbole_residual.decomposition.result import Decomposition
from recbole_residual.decomposition.stages import GATE_STAGES, stages_of
from recbole_residual.decomposition.statistics import RatioStatistics
from recbole_residual.errors import ModelError, TrainingModeError
from recbole_residual.model.architecture.blocks import attention_blocks
from recbole_residual.model.architecture.precision import refuse_half_precision
from recbole_residual.model.architecture.wrappers import unwrapped


@dataclass
class Trace:
    """What :func:`capture` has recorded.

    Attributes:
        decompositions: one per forward, in their order.
    """

    decompositions: list[Decomposition] = field(default_factory=list)

    @property
    def decomposition(self) -> Decomposition:
        """The decomposition of the latest forward.

        Raises:
            ValueError: if there has been no complete forward.
        """
        if not self.decompositions:
            raise ModelError("Nothing was captured: run the model inside the capture context.")
        return self.decompositions[-1]


def _refuse_training(model: nn.Module) -> None:
    blocks = [model] if stages_of(model) == GATE_STAGES else attention_blocks(model)
    if any(block.training for block in blocks):
        raise TrainingModeError(model)


@contextmanager
def capture(
    model: nn.Module,
    stages: Sequence[str] | None = None,
    *,
    maps: bool = False,
    recent: int | None = None,
    heads: bool = False,
    parts: bool = False,
) -> Iterator[Trace]:
    """Record the decomposition of every forward of ``model`` inside the context.

    Args:
        model: a RecBole model built from RecBole's attention blocks, in eval mode.
        stages: as in :func:`~recbole_residual.decomposition.observer.observe`.
        maps: whether to work out the contribution and attention maps too.
        recent: only the maps of this many most recent positions, aligned at the right.
        heads: whether to work out the ratios of each head, stage ``attn``.
        parts: whether to keep the parts themselves, for :meth:`Decomposition.completeness`.

    Yields:
        Trace: filled as the forwards run.

    Raises:
        NoAttentionError: if the model has no attention block.
        TrainingModeError: if the model is in training mode.

    Example:
        >>> from recbole.model.layers import TransformerEncoder
        >>> encoder = TransformerEncoder(n_layers=2, hidden_size=8, inner_size=16).eval()
        >>> with capture(encoder, maps=True) as trace:
        ...     _ = encoder(torch.randn(5, 3, 8), torch.zeros(5, 1, 1, 3))
        >>> trace.decomposition.contributions.shape
        torch.Size([2, 5, 3, 3])
    """
    _refuse_training(model)
    trace = Trace()
    record = trace.decompositions.append
    with observe(model, record, stages, maps=maps, recent=recent, heads=heads, parts=parts):
        yield trace


class _LastLayerDone(Exception):  # noqa: N818, it is no error
    """Carries the decomposition out of a forward whose remaining steps nobody needs."""

    def __init__(self, decomposition: Decomposition) -> None:
        super().__init__()
        self.decomposition = decomposition


def _stop(decomposition: Decomposition) -> None:
    raise _LastLayerDone(decomposition)


@torch.no_grad()
def decompose(
    model: nn.Module,
    interaction: Interaction,
    stages: Sequence[str] | None = None,
    *,
    maps: bool = False,
    recent: int | None = None,
    heads: bool = False,
    parts: bool = False,
) -> Decomposition:
    """Decompose the forward of one batch, under the ``alpha`` in force.

    The forward is that of ``model.full_sort_predict`` and ends after the last layer, so no item
    is scored.

    Args:
        model: a RecBole model built from RecBole's attention blocks, in eval mode.
        interaction: a batch as RecBole's evaluation hands it to ``full_sort_predict``.
        stages: as in :func:`~recbole_residual.decomposition.observer.observe`.
        maps: whether to work out the contribution and attention maps too.
        recent: only the maps of this many most recent positions, aligned at the right.
        heads: whether to work out the ratios of each head, stage ``attn``.
        parts: whether to keep the parts themselves, for :meth:`Decomposition.completeness`.

    Returns:
        Decomposition: ratios [layer, stage, B, L] with their labels, and what else was asked for.

    Raises:
        NoAttentionError: if the model has no attention block; names models that have.
        TrainingModeError: if the model is in training mode.
    """
    model = unwrapped(model)
    refuse_half_precision(model)
    _refuse_training(model)
    recommender: Any = model
    device = next(model.parameters()).device
    with observe(model, _stop, stages, maps=maps, recent=recent, heads=heads, parts=parts):
        try:
            recommender.full_sort_predict(interaction.to(device))
        except _LastLayerDone as done:
            return done.decomposition
    raise RuntimeError(
        f"{type(model).__name__}.full_sort_predict did not run all attention blocks of the model."
    )


@dataclass(frozen=True)
class DatasetDecomposition:
    """The decomposition of a whole dataset.

    Attributes:
        statistics: of the mixing ratios.
        recent_map: the average map of the most recent positions; empty for a GRU.
    """

    statistics: RatioStatistics
    recent_map: RecentMap


def decompose_dataset(
    model: nn.Module,
    interactions: Iterable[Interaction],
    stages: Sequence[str] | None = None,
) -> DatasetDecomposition:
    """Decompose batch after batch, one forward each, and keep only the aggregates.

    Where an evaluation runs over the same batches anyway, let it drive
    :func:`~recbole_residual.decomposition.observer.observe` instead.

    Args:
        model: a RecBole model built from RecBole's attention blocks, in eval mode.
        interactions: the batches, such as ``(batch[0] for batch in test_data)``.
        stages: as in :func:`~recbole_residual.decomposition.observer.observe`.
    """
    result = DatasetDecomposition(RatioStatistics(), RecentMap())
    for interaction in interactions:
        if stages_of(model) == GATE_STAGES:
            result.statistics.update(decompose(model, interaction, stages))
            continue
        recent = result.recent_map.recent
        decomposition = decompose(model, interaction, stages, maps=True, recent=recent)
        result.statistics.update(decomposition)
        result.recent_map.update(decomposition)
    return result
