"""What the score of an item is made of."""

from __future__ import annotations

from typing import Any

import torch

SCORED_BY_PRODUCT = ("SASRec", "SASRecF", "FEARec", "LightSANs", "S3Rec")
"""RecBole's attention models whose score is the dot product of the last layer's output at the last
position with the item embedding."""

SCORED_OTHERWISE = {
    "BERT4Rec": "a dense layer, GELU and a LayerNorm before the product, and a bias per item",
    "CORE": "the product with a weighted sum of all input items, both of length one",
    "FDSA": "a dense layer over the outputs of two encoders before the product",
    "GCSAN": "the product with a mean of the output and of a graph network's",
    "SASRecCPR": "a partition of the catalogue, each scored with another hidden state",
}
"""RecBole's other attention models, and what is between the last layer and the score."""


def item_vectors(model: Any) -> torch.Tensor:
    """What the output is multiplied with to score the catalogue, [n_items, D].

    Row i is the vector of item i, that of [MASK] left out: it is never ranked.

    Args:
        model: a RecBole model with an ``item_embedding``.
    """
    vectors = model.item_embedding.weight
    return vectors if len(vectors) == model.n_items else vectors[: model.n_items]


def output_bias(model: Any) -> torch.Tensor | None:
    """What is added to the product, [n_items]; None for all models but BERT4Rec."""
    return getattr(model, "output_bias", None)
