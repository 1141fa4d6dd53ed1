"""Which modules of a RecBole model are attention and feed-forward blocks."""

from __future__ import annotations

from typing import Any

from recbole.model.layers import FeedForward, LightMultiHeadAttention, MultiHeadAttention
from recbole.model.sequential_recommender import fearec
from torch import nn

from recbole_residual.errors import NoAttentionError

ATTENTION_BLOCKS: tuple[type[nn.Module], ...] = (
    MultiHeadAttention,
    LightMultiHeadAttention,
    fearec.HybridAttention,
)
"""RecBole's attention blocks: ``out_dropout(dense(...))`` plus the input, then ``LayerNorm``."""

FEED_FORWARD_BLOCKS: tuple[type[nn.Module], ...] = (FeedForward, fearec.FeedForward)
"""RecBole's feed-forward blocks: ``dropout(dense_2(...))`` plus the input, then ``LayerNorm``."""

MODELS_WITH_ATTENTION = (
    "SASRec",
    "SASRecF",
    "SASRecCPR",
    "BERT4Rec",
    "CORE",
    "FDSA",
    "FEARec",
    "GCSAN",
    "LightSANs",
    "S3Rec",
)
"""RecBole's own models that are built from :data:`ATTENTION_BLOCKS`."""


def attention_blocks(model: nn.Module) -> list[nn.Module]:
    """The attention blocks of ``model`` in the order they were built, first layer first.

    Raises:
        NoAttentionError: if there is none.
    """
    blocks = [module for module in model.modules() if isinstance(module, ATTENTION_BLOCKS)]
    if not blocks:
        raise NoAttentionError(model, MODELS_WITH_ATTENTION)
    return blocks


def has_attention(model: nn.Module) -> bool:
    """Whether ``model`` holds an attention block."""
    return any(isinstance(module, ATTENTION_BLOCKS) for module in model.modules())


def feed_forward_blocks(model: nn.Module) -> list[nn.Module]:
    """The feed-forward blocks of ``model`` in the order they were built."""
    return [module for module in model.modules() if isinstance(module, FEED_FORWARD_BLOCKS)]


def branch_end(block: Any) -> nn.Module:
    """The module whose output is added to the residual: the dropout behind the dense layer."""
    name = "dropout" if isinstance(block, FEED_FORWARD_BLOCKS) else "out_dropout"
    return getattr(block, name)
