"""Which models several processes can train together, and how many there are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recbole.utils import ModelType

from recbole_residual.config.keys import KEYS
from recbole_residual.errors import ConfigError

_WHOLE_BATCH = {
    "DIN": "it normalises over the batch",
    "DIEN": "it normalises over the batch",
    "FEARec": "its loss compares the sequences of a batch with each other",
    "TransRec": "its loss has the norm of the batch's embeddings",
    "S3Rec": "it is trained in stages by a Trainer of its own",
    "KSR": "it reads a knowledge graph",
    "GRU4RecKG": "it reads a knowledge graph",
}
"""RecBole's sequential models whose loss of a batch is not the mean of the losses of its parts."""


def n_processes(config: Mapping[str, Any]) -> int:
    """How many processes a configuration asks for, on all machines.

    Example:
        >>> n_processes({"nproc": 2, "world_size": -1}), n_processes({"nproc": 2, "world_size": 4})
        (2, 4)
    """
    everywhere = _value(config, "world_size")
    return everywhere if everywhere > 0 else processes_here(config)


def processes_here(config: Mapping[str, Any]) -> int:
    """How many of them are on this machine."""
    return _value(config, "nproc")


def check_several(config: Mapping[str, Any], model_class: type) -> None:
    """Refuse what several processes cannot do together as one process does it.

    Args:
        config: the configuration.
        model_class: the model.

    Raises:
        ConfigError: if the places of the processes do not fit, or the model's loss of a batch is
            not the mean of the losses of its parts.
    """
    here, count = processes_here(config), n_processes(config)
    if first_place(config) + here > count:
        raise ConfigError(
            f"nproc = {here} from group_offset = {first_place(config)} on is more than world_size "
            f"= {count}, the number of processes on all machines."
        )
    problem = _loss_problem(config, model_class)
    if problem is not None:
        raise ConfigError(
            f"several processes cannot train {model_class.__name__}: {problem}, so that parts of a "
            "batch do not add up to the whole batch. Set nproc: 1; --mode=benchmark trains several "
            "models or seeds side by side."
        )
    if (config["train_neg_sample_args"] or {}).get("dynamic"):
        raise ConfigError(
            "train_neg_sample_args: dynamic asks the model for negatives, which several processes "
            "do not do as one does: set nproc: 1, or dynamic: False."
        )


def first_place(config: Mapping[str, Any]) -> int:
    """The number of this machine's first process among those of all machines."""
    return max(_value(config, "group_offset"), _value(config, "offset"))


def first_machine(config: Mapping[str, Any]) -> str:
    """Where the processes of several machines find each other."""
    return f"tcp://{_value(config, 'ip')}:{_value(config, 'port')}"


def _value(config: Mapping[str, Any], name: str) -> Any:
    # RecBole's files have none of these keys
    return config[name] if name in config else KEYS[name].default


def _loss_problem(config: Mapping[str, Any], model_class: type) -> str | None:
    if config["MODEL_TYPE"] != ModelType.SEQUENTIAL:
        return "only sequential models have such a loss for certain"
    ancestors = [ancestor.__name__ for ancestor in model_class.__mro__]
    if "DuoRec" in ancestors:
        contrasts = {"us": ("lmd", "lmd_sem"), "un": ("lmd",), "su": ("lmd_sem",)}
        if any(config[name] for name in contrasts.get(config["contrast"], ())):
            return (
                "its contrasts compare the sequences of a batch with each other (without them, "
                "lmd: 0 and lmd_sem: 0, it can)"
            )
        return None
    return next((_WHOLE_BATCH[name] for name in ancestors if name in _WHOLE_BATCH), None)
