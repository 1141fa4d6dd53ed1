"""Checkpoints of this package: plain values and tensors, written whole or not at all.

They load with ``torch.load(path, weights_only=True)`` anywhere; here they are read by
:mod:`recbole_residual.checkpoint.archive`, which runs nothing on any release of torch. RecBole's
own checkpoints, which are pickles, are read by :mod:`recbole_residual.checkpoint.untrusted`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, cast

import torch

from recbole_residual.checkpoint.archive import read_archive
from recbole_residual.checkpoint.plain_values import check_plain, from_plain, to_plain
from recbole_residual.errors import CheckpointError, UntrustedCheckpointError
from recbole_residual.files import PathLike, atomic_path

FORMAT = "recbole_residual/1"

BEST_FILE = "checkpoint.pth"
"""In a run's folder: the weights with the best validation score, or the last without validation."""
RESUME_FILE = "resume.pth"
"""In a run's folder: all that training needs to go on after the last whole epoch."""


def save_checkpoint(path: PathLike, state: Mapping[str, Any]) -> None:
    """Save a state of plain values, tensors, arrays and sparse matrices atomically.

    Args:
        path: where to.
        state: dict of tensors, arrays, sparse matrices, numbers, text, lists, sets and dicts.

    Raises:
        TypeError: if it holds anything else.
        WriteError: if the file cannot be written; what was there before is whole.
    """
    plain = {"format": FORMAT, **to_plain(state)}
    check_plain(plain, "state")
    with atomic_path(path) as part, open(part, "wb") as file:
        recorder = _Recorder(file)
        try:
            torch.save(plain, cast("IO[bytes]", recorder))
        except RuntimeError:  # torch's own, about a position, in the place of "disk full"
            if recorder.error is not None:
                raise recorder.error from None
            raise


class _Recorder:
    """A file open for writing that remembers why a write failed."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.error: OSError | None = None

    def write(self, content: bytes) -> int:
        try:
            return self._file.write(content)
        except OSError as error:
            self.error = error
            raise

    def flush(self) -> None:
        self._file.flush()


def load_checkpoint(path: PathLike, map_location: Any = "cpu") -> dict[str, Any]:
    """Load a checkpoint of this package; nothing in the file is executed.

    Args:
        path: the file.
        map_location: device of the tensors.

    Raises:
        FileNotFoundError: if there is none.
        CheckpointError: if it is broken or another program's.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no checkpoint {str(path)!r}.")
    try:
        state = from_plain(read_archive(path, _no_name, map_location))
    except Exception as error:  # a broken file fails in as many ways as there are bytes
        raise CheckpointError(
            f"{str(path)!r} is not a checkpoint of recbole_residual, or is broken: {error}"
        ) from error
    if not (isinstance(state, dict) and state.get("format") == FORMAT):
        raise CheckpointError(
            f"{str(path)!r} is not a checkpoint of recbole_residual (its format is "
            f"{state.get('format') if isinstance(state, dict) else type(state).__name__!r})."
        )
    return state


def _no_name(module: str, name: str) -> Any:
    raise UntrustedCheckpointError(f"{module}.{name}")
