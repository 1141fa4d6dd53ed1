"""Model names: this package's, those a user adds, and RecBole's own behind them."""

from __future__ import annotations

import importlib
import inspect
from typing import TypeVar

from recbole.model.abstract_recommender import AbstractRecommender, SequentialRecommender
from recbole.utils import get_model as get_recbole_model

from recbole_residual.errors import ModelError, UnknownModelError

MODELS: dict[str, type[AbstractRecommender]] = {}

ModelClass = TypeVar("ModelClass", bound=type)


def register_model(model_class: ModelClass) -> ModelClass:
    """Class decorator: make a model known by its name to ``--model`` and to this package's Config.

    Args:
        model_class: a RecBole recommender, usually a subclass of a model of this package.

    Returns:
        The class itself.

    Raises:
        TypeError: if it is not a RecBole recommender.
        ValueError: if another class has that name already.
    """
    if not (inspect.isclass(model_class) and issubclass(model_class, AbstractRecommender)):
        raise TypeError(f"{model_class!r} is not a RecBole recommender class.")
    name = model_class.__name__
    known = MODELS.get(name)
    if known is not None and known.__module__ != model_class.__module__:
        raise ModelError(f"a model named {name!r} is registered already ({known.__module__}).")
    MODELS[name] = model_class
    return model_class


def recbole_sequential_models() -> list[str]:
    """Names of the sequential models that RecBole itself brings."""
    module = importlib.import_module("recbole.model.sequential_recommender")
    return sorted(
        name
        for name, member in vars(module).items()
        if inspect.isclass(member)
        and issubclass(member, SequentialRecommender)
        and member is not SequentialRecommender
    )


def get_model(name: str) -> type[AbstractRecommender]:
    """The model class of that name: this package's or a registered one, else RecBole's.

    Raises:
        UnknownModelError: with the nearest known name and a list of what there is.
    """
    if name in MODELS:
        return MODELS[name]
    try:
        return get_recbole_model(name)
    except (ValueError, AttributeError, ImportError) as error:
        # ImportError: RecBole looks last where lightgbm and xgboost are imported.
        raise UnknownModelError(name, sorted(MODELS), recbole_sequential_models()) from error
