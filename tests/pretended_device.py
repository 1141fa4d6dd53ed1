"""An accelerator that is not there, to find out on a CPU what would go wrong on a GPU.

Its tensors say that they are on ``pretend:0`` and are computed on the CPU. As on a GPU, they do not
mix with tensors of the CPU, and the host has to wait wherever it wants to know a value or a size
that depends on values: :class:`Waits` counts where.
"""

from __future__ import annotations

import sys
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

NAME = "pretend"

_WAITS = {
    "_local_scalar_dense",  # item(), bool(), int(), float(), tolist()
    "nonzero",
    "masked_select",
    "equal",
    "is_nonzero",
    "_unique2",
    "unique_consecutive",
    "unique_dim",
}
_MAKES_ANEW = {"_to_copy", "copy_"}
_INDEXES = {"index", "_unsafe_index", "index_put", "index_put_", "_index_put_impl_"}


class MixedDevicesError(RuntimeError):
    """A GPU would refuse this: tensors of two devices in one operation."""


class _Module:
    """What torch asks the module of a device for."""

    @staticmethod
    def is_available() -> bool:
        return True

    @staticmethod
    def is_initialized() -> bool:
        return True

    @staticmethod
    def _is_in_bad_fork() -> bool:
        return False

    @staticmethod
    def device_count() -> int:
        return 1

    @staticmethod
    def current_device() -> int:
        return 0

    @staticmethod
    def get_amp_supported_dtype() -> list[torch.dtype]:
        return [torch.float16, torch.bfloat16]

    @staticmethod
    def manual_seed_all(seed: int) -> None:
        """One generator serves both devices."""


def can_pretend() -> bool:
    """Whether this torch can have a device that is written in Python."""
    try:
        from torch.utils.backend_registration import (  # noqa: F401
            _setup_privateuseone_for_python_backend,
        )
    except ImportError:
        return False
    return hasattr(torch._C, "_set_only_lift_cpu_tensors")


class NoFloat64Error(TypeError):
    """An Apple GPU would refuse this."""


class Waits(Counter):
    """How often the host waited, by operation; where, in :attr:`places`."""

    def __init__(self, float64: bool = True) -> None:
        super().__init__()
        self.float64 = float64
        self.places: Counter = Counter()

    def note(self, operation: str) -> None:
        self[operation] += 1
        ours = [
            f"{frame.filename.rpartition('recbole_residual/')[2]}:{frame.lineno}"
            for frame in traceback.extract_stack(sys._getframe(1))
            if "recbole_residual/" in frame.filename
        ]
        self.places[(operation, ours[-1] if ours else "elsewhere")] += 1


class _OnDevice(torch.Tensor):
    host: torch.Tensor

    @staticmethod
    def __new__(cls, host: torch.Tensor) -> _OnDevice:
        made = torch.Tensor._make_wrapper_subclass(
            cls,
            host.size(),
            strides=host.stride(),
            storage_offset=host.storage_offset(),
            dtype=host.dtype,
            layout=host.layout,
            device=torch.device(NAME, 0),
        )
        made.host = host
        return made

    def tolist(self) -> Any:
        _counting().note("tolist")
        return self.host.tolist()

    def numpy(self, *args: Any, **kwargs: Any) -> Any:
        raise MixedDevicesError("numpy() of a tensor that is not on the CPU")

    def __reduce_ex__(self, protocol: Any) -> Any:
        """A file holds the numbers."""
        return self.host.__reduce_ex__(protocol)

    def __repr__(self) -> str:
        return f"on {NAME}: {self.host!r}"

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _computed(func, args, kwargs or {})


class _Mode(TorchDispatchMode):
    """For operations that make a tensor out of none."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _computed(func, args, kwargs or {})


_current: list[Waits] = []


def _counting() -> Waits:
    return _current[-1] if _current else Waits()


def _host(value: Any) -> Any:
    return value.host if isinstance(value, _OnDevice) else value


def _is_ours(device: Any) -> bool:
    return device is not None and torch.device(device).type == NAME


def _computed(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    name = func._schema.name.partition("::")[2]
    tensors = [
        value for value in tree_flatten((args, kwargs))[0] if isinstance(value, torch.Tensor)
    ]
    ours = [tensor for tensor in tensors if isinstance(tensor, _OnDevice)]
    asked = kwargs.get("device")
    goes_there = bool(ours) if asked is None else _is_ours(asked)
    if name in _MAKES_ANEW:
        source = args[1] if name == "copy_" else args[0]
        target = isinstance(args[0], _OnDevice) if name == "copy_" else goes_there
        if isinstance(source, _OnDevice) and not target:
            _counting().note("copy to the host")
    elif ours:
        _refuse_mixed(name, tensors)
        if name in _WAITS or _has_mask(name, args):
            _counting().note(name)
    if asked is not None:
        kwargs = {**kwargs, "device": torch.device("cpu")}
    kwargs.pop("pin_memory", None) if "pin_memory" in kwargs else None
    made = func(*tree_map(_host, args), **tree_map(_host, kwargs))
    if name == "copy_":
        return args[0]
    if not goes_there or name == "_local_scalar_dense":
        return made
    known = {id(tensor.host): tensor for tensor in ours}

    def put(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        if value.dtype == torch.float64 and not _counting().float64:
            raise NoFloat64Error(f"{name}: a tensor of {NAME} would be float64")
        return known[id(value)] if id(value) in known else _OnDevice(value)

    return tree_map(put, made)


def _refuse_mixed(name: str, tensors: list[torch.Tensor]) -> None:
    for tensor in tensors:
        # a GPU takes numbers and indices of the CPU
        if isinstance(tensor, _OnDevice) or tensor.dim() == 0:
            continue
        if name in _INDEXES and tensor.dtype in (torch.int64, torch.bool):
            continue
        raise MixedDevicesError(f"{name} with a tensor of {NAME} and one of the CPU")


def _has_mask(name: str, args: Any) -> bool:
    """A boolean index is as long as it has ones, which nobody knows without waiting."""
    if name not in ("index", "_unsafe_index"):
        return False
    return any(
        isinstance(index, _OnDevice) and index.dtype == torch.bool
        for index in args[1]
        if index is not None
    )


_registered = False


@contextmanager
def pretended(float64: bool = True) -> Iterator[Waits]:
    """Inside, there is a device ``pretend``; gives what it counts.

    Args:
        float64: whether the device has it, unlike Apple's GPUs.
    """
    global _registered
    if not _registered:
        from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

        _setup_privateuseone_for_python_backend(NAME, backend_module=_Module)
        _registered = True
    torch._C._set_only_lift_cpu_tensors(True)
    _current.append(Waits(float64))
    try:
        with _Mode():
            yield _current[-1]
    finally:
        _current.pop()
        torch._C._set_only_lift_cpu_tensors(False)
