"""Checkpoints of this package: plain values and tensors, written whole or not at all.

They load with ``weights_only=True``: nothing in the file is executed. RecBole's own checkpoints,
which are pickles, are read by :mod:`recbole_residual.checkpoint.untrusted`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from recbole_residual.errors import CheckpointError
from recbole_residual.files import PathLike, atomic_path

FORMAT = "recbole_residual/1"

BEST_FILE = "checkpoint.pth"
"""In a run's folder: the weights with the best validation score."""
RESUME_FILE = "resume.pth"
"""In a run's folder: all that training needs to go on after the last whole epoch."""


def to_plain(value: Any) -> Any:
    """Turn numpy scalars and arrays, tuples and dict subclasses into what weights_only loads."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return torch.from_numpy(value.copy())
    if isinstance(value, Mapping):
        return {key: to_plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_plain(item) for item in value]
    return value


def save_checkpoint(path: PathLike, state: Mapping[str, Any]) -> None:
    """Save a state of plain values and tensors atomically.

    Args:
        path: where to.
        state: dict of tensors, numbers, text, lists and dicts.

    Raises:
        TypeError: if it holds anything that ``weights_only`` loading would refuse.
    """
    plain = {"format": FORMAT, **to_plain(state)}
    _check_plain(plain, "state")
    with atomic_path(path) as part:
        torch.save(plain, part)


def _check_plain(value: Any, where: str) -> None:
    if isinstance(value, dict):
        for key, item in value.items():
            _check_plain(item, f"{where}[{key!r}]")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _check_plain(item, f"{where}[{index}]")
    elif not (value is None or isinstance(value, (bool, int, float, str, bytes, torch.Tensor))):
        raise TypeError(f"a checkpoint cannot hold {where}, a {type(value).__name__}.")


def load_checkpoint(path: PathLike, map_location: Any = "cpu") -> dict[str, Any]:
    """Load a checkpoint of this package; nothing in the file is executed.

    Raises:
        FileNotFoundError: if there is none.
        CheckpointError: if it is broken or another program's.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no checkpoint {str(path)!r}.")
    try:
        state = torch.load(path, map_location=map_location, weights_only=True)
    except Exception as error:  # torch raises RuntimeError, UnpicklingError, EOFError, ...
        raise CheckpointError(
            f"{str(path)!r} is not a checkpoint of recbole_residual, or is broken ({error})."
        ) from error
    if not (isinstance(state, dict) and state.get("format") == FORMAT):
        raise CheckpointError(
            f"{str(path)!r} is not a checkpoint of recbole_residual (its format is "
            f"{state.get('format') if isinstance(state, dict) else type(state).__name__!r})."
        )
    return state
