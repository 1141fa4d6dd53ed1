"""Model names: this package's, those a user adds, and RecBole's own behind them."""

from __future__ import annotations

import importlib
import inspect
from typing import Any, TypeVar

import torch
from recbole.model.abstract_recommender import AbstractRecommender, SequentialRecommender
from recbole.utils import get_model as get_recbole_model

from recbole_residual.errors import (
    MissingPackageError,
    ModelError,
    ResidualError,
    UnknownModelError,
)

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


_REFUSALS = (
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    AssertionError,
    NotImplementedError,
    RuntimeError,
)
"""How RecBole and torch refuse a value in the constructor of a model."""


def build_model(config: Any, dataset: Any, model_class: type | None = None) -> Any:
    """Make a model and move it to the device of the configuration.

    This is the one place where the constructors of RecBole and torch meet the values of a user, so
    what they refuse becomes an error of this package here.

    Args:
        config: RecBole's Config or this package's.
        dataset: the training part of the dataset.
        model_class: class of the model; by default the one that ``config["model"]`` names.

    Returns:
        The model, in training mode.

    Raises:
        UnknownModelError: if there is no such model.
        MissingPackageError: if it needs a package that is not installed.
        ModelError: if its constructor refuses a value.
    """
    model_class = model_class or get_model(config["model"])
    try:
        return model_class(config, dataset).to(config["device"])
    except (ResidualError, torch.cuda.OutOfMemoryError):
        raise
    except ModuleNotFoundError as error:  # KGAT wants dgl, NCL faiss, KGIN torch_scatter
        raise MissingPackageError(
            f"{model_class.__name__} needs the package {error.name}, which is not installed: "
            f"pip install {error.name}."
        ) from error
    except _REFUSALS as error:
        reason = str(error) or "no reason is given"
        if isinstance(error, LookupError):
            reason = f"{reason} is not known there"
        raise ModelError(
            f"{model_class.__name__} cannot be built with this configuration: {reason} "
            f"({type(error).__name__} in its constructor). {_sizes(config)}"
        ) from error


_SIZES = (
    "hidden_size",
    "embedding_size",
    "inner_size",
    "n_layers",
    "n_heads",
    "hidden_act",
    "hidden_dropout_prob",
    "attn_dropout_prob",
    "dropout_prob",
    "loss_type",
)
"""Keys that constructors refuse most often."""


def _sizes(config: Any) -> str:
    values = [(key, config[key]) for key in _SIZES if key in config]
    return "It was given " + ", ".join(f"{key} = {value!r}" for key, value in values) + "."
