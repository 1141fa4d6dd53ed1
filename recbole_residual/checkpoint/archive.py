"""The formats that ``torch.save`` writes, read without ``torch.load``.

A checkpoint is a pickle of values plus the raw bytes of its tensors: since torch 1.6 as records of
an uncompressed zip archive, before that one after the other in a single file. Both are read here
with an unpickler that knows a short list of names, and tensors are views of the bytes in the file,
checked against their length. ``torch.load`` is not asked because it decides by what is in the file
what to do with it: a TorchScript archive goes to ``torch.jit.load``, which runs the archive's code,
and releases before 2.6 unpickle old tar archives, and TorchScript archives even for
``weights_only=True``.

What is refused, by name: TorchScript and tar archives, compressed or overlapping records (a few
bytes that unpack to more than memory holds), tensors larger than the file that holds them.
"""

from __future__ import annotations

import collections
import io
import os
import pickle
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Union

import torch

from recbole_residual.errors import CheckpointError
from recbole_residual.files import PathLike

Lookup = Callable[[str, str], Any]
"""What stands for a name of the file: (module, name) -> value; raises if the name is not known."""

_LEGACY_MAGIC = 0x1950A86A20F9469CFC6C
_LEGACY_PROTOCOL = 1001

_STORAGE_DTYPES = {
    "FloatStorage": torch.float32,
    "DoubleStorage": torch.float64,
    "HalfStorage": torch.float16,
    "BFloat16Storage": torch.bfloat16,
    "LongStorage": torch.int64,
    "IntStorage": torch.int32,
    "ShortStorage": torch.int16,
    "CharStorage": torch.int8,
    "ByteStorage": torch.uint8,
    "BoolStorage": torch.bool,
    "ComplexFloatStorage": torch.complex64,
    "ComplexDoubleStorage": torch.complex128,
    "UntypedStorage": torch.uint8,
}


class Frozen(type):
    """Metaclass of classes that a file names: it may make instances, and change nothing else."""

    def __setattr__(cls, name: str, value: Any) -> None:
        raise AttributeError(f"a checkpoint may not set {cls.__name__}.{name}.")


class SealedFunction:
    """A function for the unpickler to call, with no attribute that a file could set."""

    __slots__ = ("_function",)
    _function: Callable

    def __init__(self, function: Callable) -> None:
        object.__setattr__(self, "_function", function)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"a checkpoint may not set {name}.")

    def __call__(self, *args: Any) -> Any:
        return self._function(*args)


@dataclass(frozen=True)
class _Storage:
    """The bytes of one or more tensors.

    Attributes:
        flat: all elements, one-dimensional, sharing memory with the bytes that were read.
        limit: size of the file; no tensor in it is larger.
    """

    flat: torch.Tensor
    limit: int


@dataclass(frozen=True)
class _StorageKind:
    dtype: torch.dtype


@dataclass(frozen=True)
class _Layout:
    name: str


def _tensor(
    storage: _Storage,
    offset: int,
    size: tuple[int, ...],
    stride: tuple[int, ...],
    requires_grad: bool = False,
    hooks: Any = None,
    metadata: Any = None,
) -> torch.Tensor:
    if metadata:
        raise CheckpointError("it holds a tensor with a conjugate or negative bit.")
    flat = storage.flat
    n_bytes = flat.element_size()
    for length in size:
        n_bytes *= int(length)
    if n_bytes > max(storage.limit, 1):
        raise CheckpointError(f"it holds a tensor of shape {tuple(size)}, larger than the file.")
    # as_strided looks that the tensor lies within its bytes; set_(), which torch uses, makes room.
    return flat.as_strided(tuple(size), tuple(stride), offset).requires_grad_(bool(requires_grad))


def _parameter(data: torch.Tensor, requires_grad: bool, hooks: Any = None) -> torch.Tensor:
    return torch.nn.Parameter(data.detach(), requires_grad=bool(requires_grad))


def _sparse(layout: _Layout, data: tuple[Any, ...]) -> torch.Tensor:
    if layout.name == "torch.sparse_coo":
        indices, values, size = data[:3]
        tensor = torch.sparse_coo_tensor(indices, values, size, check_invariants=True)
        return tensor.coalesce() if len(data) > 3 and data[3] else tensor
    compressed, plain, values, size = data
    by_row = layout.name == "torch.sparse_csr"
    if not by_row and layout.name != "torch.sparse_csc":
        raise CheckpointError(f"it holds a tensor of layout {layout.name}.")
    build = torch.sparse_csr_tensor if by_row else torch.sparse_csc_tensor
    return build(compressed, plain, values, size, check_invariants=True)


_TENSOR_NAMES: dict[str, Any] = {
    "torch._utils._rebuild_tensor_v2": SealedFunction(_tensor),
    "torch._utils._rebuild_parameter": SealedFunction(_parameter),
    "torch._utils._rebuild_sparse_tensor": SealedFunction(_sparse),
    "torch.serialization._get_layout": SealedFunction(_Layout),
    "torch.Size": torch.Size,
    "collections.OrderedDict": collections.OrderedDict,  # a state_dict; a tensor's backward hooks
}


def tensor_name(module: str, name: str) -> Any:
    """What stands for a name of torch that tensors and storages need; None for every other."""
    if module in ("torch", "torch.storage") and name in _STORAGE_DTYPES:
        return _StorageKind(_STORAGE_DTYPES[name])
    return _TENSOR_NAMES.get(f"{module}.{name}")


class _Unpickler(pickle.Unpickler):
    """Knows the names of ``lookup``, and gets storages from ``storage``."""

    def __init__(self, file: IO[bytes], lookup: Lookup, storage: Callable[..., _Storage]) -> None:
        super().__init__(file, encoding="utf-8")
        self._lookup = lookup
        self._storage = storage

    def find_class(self, module: str, name: str) -> Any:
        found = tensor_name(module, name)
        return self._lookup(module, name) if found is None else found

    def persistent_load(self, saved_id: Any) -> _Storage:
        kind, *data = saved_id
        if kind != "storage" or not isinstance(data[0], _StorageKind):
            raise CheckpointError(f"it refers to a {kind!r} outside of itself.")
        return self._storage(data[0].dtype, str(data[1]), int(data[3]), *data[4:])


def _no_storage(*args: Any) -> _Storage:
    raise CheckpointError("it has a tensor where none belongs.")


def read_archive(
    path: Union[PathLike, IO[bytes]], lookup: Lookup, map_location: Any = "cpu"
) -> Any:
    """Read what ``torch.save`` wrote; nothing in the file is executed.

    Args:
        path: the file, or one that is open for reading.
        lookup: what stands for each class and function that the file refers to.
        map_location: device of the tensors.

    Returns:
        The values.

    Raises:
        CheckpointError: if it is no such file, is broken, or is one of those refused here; the
            message goes on after "... cannot be read: ".
        OSError: if the file cannot be opened.
    """
    with _opened(path) as file:
        start = file.read(4)
        file.seek(0)
        read = _read_zip if start.startswith(b"PK") else _read_legacy
        values = read(file, lookup)
    device = torch.device(map_location)
    return values if device.type == "cpu" else _moved(values, device, {})


@contextmanager
def _opened(path: Union[PathLike, IO[bytes]]) -> Iterator[IO[bytes]]:
    if isinstance(path, (str, os.PathLike)):
        with open(Path(path), "rb") as file:
            yield file
    else:
        yield path


def _moved(value: Any, device: torch.device, done: dict[int, Any]) -> Any:
    """``value`` with its tensors on another device; what stands at two places is moved once."""
    if id(value) in done:
        return done[id(value)]
    if isinstance(value, torch.nn.Parameter):
        result: Any = torch.nn.Parameter(value.detach().to(device), value.requires_grad)
    elif isinstance(value, torch.Tensor):
        result = value.to(device)
    elif isinstance(value, dict):
        result = value
        done[id(value)] = value
        for key, item in list(value.items()):
            value[key] = _moved(item, device, done)
    elif isinstance(value, list):
        result = value
        done[id(value)] = value
        value[:] = [_moved(item, device, done) for item in value]
    elif type(value) is tuple:
        result = tuple(_moved(item, device, done) for item in value)
    else:
        result = value
    done[id(value)] = result
    return result


# Zip archives, since torch 1.6 -------------------------------------------------------------------


def _read_zip(file: IO[bytes], lookup: Lookup) -> Any:
    with zipfile.ZipFile(file) as archive:
        size = file.seek(0, os.SEEK_END)
        records = _checked_records(archive, size)
        if "byteorder" in records:
            order = bytes(_record_bytes(archive, records["byteorder"]))
            if order != b"little":
                raise CheckpointError(f"its byte order is {order!r}.")
        storages: dict[str, torch.Tensor] = {}

        def storage(dtype: torch.dtype, key: str, n_elements: int, *_: Any) -> _Storage:
            if key not in storages:
                if f"data/{key}" not in records:
                    raise CheckpointError(f"the bytes of tensor {key!r} are missing.")
                storages[key] = _flat(_record_bytes(archive, records[f"data/{key}"]), dtype)
            flat = storages[key]
            if flat.dtype != dtype or len(flat) != n_elements:
                raise CheckpointError(f"tensor {key!r} has another length than it says.")
            return _Storage(flat, size)

        data = io.BytesIO(_record_bytes(archive, records["data.pkl"]))
        return _Unpickler(data, lookup, storage).load()


def _checked_records(archive: zipfile.ZipFile, size: int) -> dict[str, zipfile.ZipInfo]:
    """The records by name, without the folder that all of them are in.

    Raises:
        CheckpointError: if ``torch.save`` did not write this archive.
    """
    entries = archive.infolist()
    if any(name in ("constants.pkl", "code") for entry in entries for name in _parts(entry)):
        raise CheckpointError(
            "it is a TorchScript archive (torch.jit.save), which holds code that runs when it is "
            "loaded. Save the model's state with torch.save."
        )
    if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
        raise CheckpointError("it is compressed, which torch.save never does.")
    if sum(entry.file_size for entry in entries) > size:
        raise CheckpointError("its records claim more bytes than the file has.")
    folders = {_parts(entry)[0] for entry in entries}
    names = ["/".join(_parts(entry)[1:]) for entry in entries]
    if len(folders) != 1 or len(set(names)) != len(names) or "data.pkl" not in names:
        raise CheckpointError("it is a zip archive that torch.save did not write.")
    return dict(zip(names, entries))


def _parts(entry: zipfile.ZipInfo) -> list[str]:
    return entry.filename.split("/")


def _record_bytes(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytearray:
    content = bytearray(entry.file_size)
    with archive.open(entry) as record:
        view = memoryview(content)
        while len(view):
            n_read = record.readinto(view)  # type: ignore[attr-defined]
            if not n_read:
                raise CheckpointError(f"the record {entry.filename!r} ends too early.")
            view = view[n_read:]
    return content


def _flat(content: bytearray, dtype: torch.dtype) -> torch.Tensor:
    if len(content) % dtype.itemsize:
        raise CheckpointError("a tensor ends within an element.")
    if not content:
        return torch.empty(0, dtype=dtype)
    return torch.frombuffer(content, dtype=dtype)


# One pickle after the other, before torch 1.6 ----------------------------------------------------


def _read_legacy(file: IO[bytes], lookup: Lookup) -> Any:
    if _is_tar(file):
        raise CheckpointError("it is a tar archive, as torch wrote before 0.1.10 (in 2017).")
    size = file.seek(0, os.SEEK_END)
    file.seek(0)

    def header() -> Any:
        return _Unpickler(file, lookup, _no_storage).load()

    if header() != _LEGACY_MAGIC or header() != _LEGACY_PROTOCOL:
        raise CheckpointError("torch.save did not write it.")
    system = header()
    if not (isinstance(system, dict) and system.get("little_endian") is True):
        raise CheckpointError("its byte order is not little-endian.")
    storages: dict[str, torch.Tensor] = {}
    room = size

    def storage(
        dtype: torch.dtype, key: str, n_elements: int, view: Any = None, *_: Any
    ) -> _Storage:
        nonlocal room
        if view is not None:
            raise CheckpointError("it holds views of storages, as torch wrote before 0.4.")
        if key not in storages:
            room -= n_elements * dtype.itemsize
            if n_elements < 0 or room < 0:
                raise CheckpointError("its tensors claim more bytes than the file has.")
            storages[key] = torch.empty(n_elements, dtype=dtype)
        if storages[key].dtype != dtype or len(storages[key]) != n_elements:
            raise CheckpointError(f"tensor {key!r} has another length than it says.")
        return _Storage(storages[key], size)

    values = _Unpickler(file, lookup, storage).load()
    for key in header():
        flat = storages[str(key)]
        if int.from_bytes(file.read(8), "little") != len(flat):
            raise CheckpointError(f"tensor {key!r} has another length than it says.")
        content = bytearray(file.read(len(flat) * flat.element_size()))
        if len(content) != len(flat) * flat.element_size():
            raise CheckpointError("it ends too early.")
        flat.copy_(_flat(content, flat.dtype))
    return values


def _is_tar(file: IO[bytes]) -> bool:
    try:
        with tarfile.open(fileobj=file, mode="r:"):
            return True
    except tarfile.TarError:
        return False
    finally:
        file.seek(0)
