"""Checkpoints that plain RecBole wrote, read without running anything they bring along.

Such a file is a pickle: its tensors, and a pickled Config. Unpickling may call any function the
file names, so names are looked up in a short list here. The Config becomes an inert record; classes
of RecBole, torch.nn, pandas and the like become empty stand-ins that do nothing when called; and a
file that needs more is refused with the name of what it wanted.
"""

from __future__ import annotations

import codecs
import enum
import functools
import importlib
from pathlib import Path
from typing import IO, Any, Union, cast

import numpy as np
import torch
from torch import serialization  # not torch.load, which a mend may have replaced by this module

from recbole_residual.checkpoint.archive import Frozen, SealedFunction, read_archive
from recbole_residual.errors import CheckpointError, UntrustedCheckpointError
from recbole_residual.files import PathLike


class StandIn(metaclass=Frozen):
    """Stands for objects of a class that a checkpoint refers to: takes everything, does nothing.

    Attributes:
        module, name: the class that it stands for.
    """

    module: str
    name: str

    def __new__(cls, *args: Any, **kwargs: Any) -> StandIn:
        return object.__new__(cls)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def _nothing(self, *args: Any) -> None:
        pass

    __call__ = __setstate__ = __setitem__ = append = extend = add = update = _nothing


class ConfigRecord(StandIn):
    """What a checkpoint says of RecBole's Config: its attributes, none of its behaviour."""

    final_config_dict: dict[str, Any]

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def __getitem__(self, key: str) -> Any:
        return self.final_config_dict.get(key)

    def __contains__(self, key: str) -> bool:
        return key in self.final_config_dict


@functools.cache
def _stand_in(module: str, name: str) -> type[StandIn]:
    attributes = {"module": module, "name": name, "__module__": __name__}
    return cast("type[StandIn]", Frozen(name, (StandIn,), attributes))


_INERT = (
    "recbole.",
    "recbole_residual.",
    "torch.nn.",
    "pandas.",
    "pyarrow.",
    "logging",
    "yaml.",
    "__main__",
    "numpy.ndarray",
    "numpy.core.multiarray._reconstruct",
    "numpy._core.multiarray._reconstruct",
    "numpy.core.numeric._frombuffer",
    "numpy._core.numeric._frombuffer",
    "builtins.slice",
    "functools.partial",  # in frames of pandas 1.3
)
"""What RecBole checkpoints refer to, by the start of its name, and is never needed to use them."""


def _latin1(text: str, encoding: str) -> bytes:
    if encoding != "latin1":
        raise UntrustedCheckpointError(f"_codecs.encode to {encoding}")
    return codecs.encode(text, encoding)


def _bytearray(content: Union[bytes, bytearray] = b"") -> bytearray:
    # bytearray(n) would make n bytes of a few
    return bytearray(memoryview(content))


class _NumpyKind(metaclass=Frozen):
    """Stands for a ``numpy.dtype``, whose own ``__setstate__`` believes all that a file says."""

    def __init__(self, kind: str, *args: Any) -> None:
        self._kind = kind
        self._order = "<"

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self._order = state[1]

    def resolve(self) -> np.dtype:
        letter, width = self._kind[:1], self._kind[1:]
        if letter not in "biufcSU" or not width.isdigit() or self._order not in ("<", ">", "|"):
            raise UntrustedCheckpointError(f"numpy.dtype {self._kind!r}")
        return np.dtype(f"{self._order}{letter}{width}")


def _numpy_scalar(dtype: _NumpyKind, data: Union[bytes, str]) -> Any:
    content = data.encode("latin1") if isinstance(data, str) else data
    return np.frombuffer(content, dtype=dtype.resolve(), count=1)[0]


_ALLOWED: dict[str, Any] = {
    "builtins.set": set,
    "builtins.frozenset": frozenset,
    "builtins.complex": complex,
    "builtins.bytearray": SealedFunction(_bytearray),
    "_codecs.encode": SealedFunction(_latin1),
    "numpy.dtype": _NumpyKind,
    "numpy.core.multiarray.scalar": SealedFunction(_numpy_scalar),
    "numpy._core.multiarray.scalar": SealedFunction(_numpy_scalar),
    "torch.device": torch.device,
}


def _lookup(module: str, name: str) -> Any:
    wanted = f"{module}.{name}"
    if wanted in _ALLOWED:
        return _ALLOWED[wanted]
    if wanted in (
        "recbole.config.configurator.Config",
        "recbole_residual.config.ResidualConfig",
        "recbole_residual.config.residual_config.ResidualConfig",
    ):
        return ConfigRecord
    if module == "torch" and isinstance(getattr(torch, name, None), torch.dtype):
        return getattr(torch, name)
    if module == "recbole.utils.enum_type":
        member = getattr(importlib.import_module(module), name, None)
        if isinstance(member, type) and issubclass(member, enum.Enum):
            return SealedFunction(member)
    if wanted.startswith(_INERT):
        return _stand_in(module, name)
    raise UntrustedCheckpointError(wanted)


def load_recbole_checkpoint(
    path: Union[PathLike, IO[bytes]], map_location: Any = "cpu", trust_checkpoint: bool = False
) -> dict[str, Any]:
    """Load a checkpoint that RecBole's Trainer wrote.

    Args:
        path: the ``.pth`` file.
        map_location: as in ``torch.load``.
        trust_checkpoint: load it as an ordinary pickle, which runs what it contains.

    Returns:
        RecBole's dictionary: ``state_dict``, ``other_parameter``, ``optimizer``, ``epoch``,
        ``cur_step``, ``best_valid_score`` and ``config``, the last as :class:`ConfigRecord`.

    Raises:
        FileNotFoundError: if there is no such file.
        UntrustedCheckpointError: if it needs a name outside the allow-list.
        CheckpointError: if it is broken, or no RecBole checkpoint.
    """
    if isinstance(path, (str, Path)) and not Path(path).is_file():
        raise FileNotFoundError(f"there is no checkpoint {str(path)!r}.")
    try:
        if trust_checkpoint:
            state = serialization.load(path, map_location=map_location, weights_only=False)
        else:
            state = read_archive(path, _lookup, map_location)
    except UntrustedCheckpointError:
        raise
    except Exception as error:  # a broken file fails in as many ways as there are bytes
        raise CheckpointError(
            f"{str(path)!r} cannot be read as a RecBole checkpoint: {error}"
        ) from error
    if not (isinstance(state, dict) and "state_dict" in state):
        raise CheckpointError(f"{str(path)!r} is not a RecBole checkpoint: it has no 'state_dict'.")
    others = state.get("other_parameter")
    if isinstance(others, dict):
        # SASRecF keeps a whole layer there, whose weights are in state_dict anyway.
        state["other_parameter"] = {
            name: value for name, value in others.items() if not isinstance(value, StandIn)
        }
    return state
