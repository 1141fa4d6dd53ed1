"""Ratings along a history, for the models that read them."""

from __future__ import annotations

from typing import Any

from recbole.utils.enum_type import FeatureType

RATINGS = ("read", "off")
"""Values of the config key ``ratings``."""


def wanted_rating_field(config: Any, model_class: type) -> str | None:
    """The column of ratings (``RATING_FIELD``) that a model reads where a dataset has it.

    Args:
        config: the configuration.
        model_class: of the model; it says ``reads_ratings`` if it does.

    Returns:
        Its name; None for a model that reads none, or under ``ratings: off``.
    """
    if not getattr(model_class, "reads_ratings", False) or config["ratings"] == "off":
        return None
    return config["RATING_FIELD"]


def has_ratings(dataset: Any, rating_field: str | None) -> bool:
    """Whether the interactions of a dataset have ratings, as numbers.

    Args:
        dataset: RecBole's or this package's, once it is built.
        rating_field: name of their column.
    """
    is_number = dataset.field2type.get(rating_field) == FeatureType.FLOAT
    return is_number and rating_field in dataset.inter_feat
