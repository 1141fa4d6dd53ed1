"""The names of what is measured, and the one formula behind every ratio."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch

from recbole_residual.errors import ModelError
from recbole_residual.model.architecture.blocks import MODELS_WITH_ATTENTION, has_attention

ATTENTION_STAGES = ("attn", "res", "ln")
"""After the attention sum alone, with the residual, and after the LayerNorm."""

FEED_FORWARD_STAGES = ("ffn", "ffn_ln")
"""The residual around the feed-forward block, before and after its LayerNorm."""

GATE_STAGES = ("gate",)
"""The only stage of a GRU, see :mod:`~recbole_residual.decomposition.gate`."""


def stages_of(model: object) -> tuple[str, ...]:
    """The stages that the mixing ratios of a model, or of a model class, have by default: those of
    attention, unless it names its own in ``mixing_stages``."""
    return tuple(getattr(model, "mixing_stages", ATTENTION_STAGES))


def has_ratios(model: Any) -> bool:
    """Whether mixing ratios are defined for a model, or may be for the objects of a model class.

    Args:
        model: a model: whether it holds an attention block, or a GRU whose gate stands in the place
            of one. Or its class: whether RecBole builds it from attention blocks; a class that is
            neither RecBole's nor this package's gets the benefit of the doubt.
    """
    if stages_of(model) == GATE_STAGES:
        return True
    if not inspect.isclass(model):
        return has_attention(model)
    if any(ancestor.__name__ in MODELS_WITH_ATTENTION for ancestor in model.__mro__):
        return True
    return model.__module__.partition(".")[0] not in ("recbole", "recbole_residual")


def check_stages(stages: Sequence[str]) -> tuple[str, ...]:
    """Check the names of the stages.

    Args:
        stages: names out of :data:`ATTENTION_STAGES` and :data:`FEED_FORWARD_STAGES`.

    Returns:
        The same names, in the same order.

    Raises:
        ValueError: if a name is unknown or given twice, or if there is none.

    Example:
        >>> check_stages(["attn", "ln"])
        ('attn', 'ln')
    """
    known = ATTENTION_STAGES + FEED_FORWARD_STAGES
    names = (stages,) if isinstance(stages, str) else tuple(stages)
    unknown = [name for name in names if name not in known]
    if unknown or not names or len(set(names)) < len(names):
        raise ModelError(f"stages = {stages!r} is not usable: name each once out of {known}.")
    return names


def mixing_ratio(mixing: torch.Tensor, preserving: torch.Tensor) -> torch.Tensor:
    """``||m|| / (||m|| + ||p||)`` from the two norms; 0 where both are 0.

    Nothing is taken from others where both norms vanish, so 0 is the honest value there.

    Args:
        mixing: norm of what is taken from other positions, any shape.
        preserving: norm of what is kept, the same shape.

    Returns:
        torch.Tensor: ratios in [0, 1], the same shape.

    Example:
        >>> mixing_ratio(torch.tensor([1.0, 0.0, 0.0]), torch.tensor([3.0, 2.0, 0.0])).tolist()
        [0.25, 0.0, 0.0]
    """
    total = mixing + preserving
    return mixing / total.clamp_min(torch.finfo(total.dtype).tiny)
