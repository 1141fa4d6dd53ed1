"""RecBole's own Dataset classes, with files that are read to the letter."""

from __future__ import annotations

import functools

import recbole.data.dataset
from recbole.utils import ModelType

from recbole_residual.data.reading import AtomicFileReading

_BY_MODEL_TYPE = {
    ModelType.GENERAL: "Dataset",
    ModelType.SEQUENTIAL: "SequentialDataset",
    ModelType.CONTEXT: "Dataset",
    ModelType.KNOWLEDGE: "KnowledgeBasedDataset",
    ModelType.TRADITIONAL: "Dataset",
    ModelType.DECISIONTREE: "Dataset",
}


def own_dataset_of(model_class: type) -> str | None:
    """Name of the Dataset class that RecBole has for a model, or for one of its parents alone."""
    for ancestor in model_class.__mro__:
        name = f"{ancestor.__name__}Dataset"
        if hasattr(recbole.data.dataset, name):
            return name
    return None


def recbole_dataset(model_class: type, model_type: ModelType) -> type:
    """RecBole's Dataset class for a model, reading its files to the letter."""
    return _reading(own_dataset_of(model_class) or _BY_MODEL_TYPE[model_type])


@functools.cache
def _reading(name: str) -> type:
    recbole_class = getattr(recbole.data.dataset, name)
    return type(name, (AtomicFileReading, recbole_class), {"__module__": __name__})


def __getattr__(name: str) -> type:
    """The classes by name, so that a loader's workers find them when they unpickle one."""
    if name.endswith("Dataset") and hasattr(recbole.data.dataset, name):
        return _reading(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
