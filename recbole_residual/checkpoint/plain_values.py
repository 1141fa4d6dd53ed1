"""Values of models and configurations as the plain types of a checkpoint, and back.

A checkpoint holds numbers, text, lists, dicts with plain keys and dense tensors. What RecBole's
models keep beside their weights is more than that: scipy's sparse matrices (ItemKNN, EASE), numpy
arrays, sets. Each becomes a dict that says what it was, under the key ``__kind__``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from scipy import sparse

from recbole_residual.errors import CheckpointError

KIND = "__kind__"

_SPARSE_LAYOUTS = (torch.sparse_coo, torch.sparse_csr, torch.sparse_csc)


def to_plain(value: Any) -> Any:
    """Turn a value into plain types; what is plain already, or unknown, stays as it is."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return _array_to_plain(value)
    if sparse.issparse(value):
        return _scipy_to_plain(value)
    if isinstance(value, torch.Tensor):
        return value if value.layout == torch.strided else _sparse_tensor_to_plain(value)
    if isinstance(value, Mapping):
        return {key: to_plain(item) for key, item in value.items()}
    if isinstance(value, (set, frozenset)):
        return {KIND: "set", "items": [to_plain(item) for item in value]}
    if isinstance(value, (list, tuple)):
        return [to_plain(item) for item in value]
    return value


def from_plain(value: Any) -> Any:
    """The value that :func:`to_plain` was given, but that tuples are lists.

    Raises:
        CheckpointError: if a dict says that it was something that it cannot have been.
    """
    if isinstance(value, list):
        return [from_plain(item) for item in value]
    if not isinstance(value, dict):
        return value
    kind = value.get(KIND)
    if kind is None:
        return {key: from_plain(item) for key, item in value.items()}
    try:
        return _BACK[kind](value)
    except (KeyError, ValueError, TypeError, RuntimeError, AttributeError) as error:
        raise CheckpointError(f"it holds a broken {kind!r}: {error}") from error


def check_plain(value: Any, where: str) -> None:
    """Refuse what a checkpoint cannot hold.

    Raises:
        TypeError: naming the place; a bug of the model or of this package, not a user's mistake.
    """
    if isinstance(value, dict):
        for key, item in value.items():
            check_plain(item, f"{where}[{key!r}]")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            check_plain(item, f"{where}[{index}]")
    elif not (value is None or isinstance(value, (bool, int, float, str, bytes, torch.Tensor))):
        raise TypeError(f"a checkpoint cannot hold {where}, a {type(value).__name__}.")


def _array_to_plain(value: np.ndarray) -> dict[str, Any]:
    if value.dtype.kind in "OSUMmV":
        return {KIND: "list array", "items": to_plain(value.tolist()), "dtype": value.dtype.str}
    # torch knows no unsigned numbers of more than 8 bits in every release
    content = value.astype(np.int64) if value.dtype.kind == "u" else value
    native = np.array(content, dtype=content.dtype.newbyteorder("="), order="C")
    return {KIND: "array", "tensor": torch.from_numpy(native), "dtype": value.dtype.str}


def _array(plain: dict[str, Any]) -> np.ndarray:
    dtype = np.dtype(plain["dtype"])
    if dtype.kind not in "biufc":
        raise ValueError(f"it says that it holds {dtype}.")
    return plain["tensor"].cpu().numpy().astype(dtype)


def _list_array(plain: dict[str, Any]) -> np.ndarray:
    return np.array(from_plain(plain["items"]), dtype=np.dtype(plain["dtype"]))


def _scipy_to_plain(value: Any) -> dict[str, Any]:
    entries = value.tocoo()
    return {
        KIND: "scipy sparse",
        "format": value.format,
        "array": isinstance(value, sparse.sparray),
        "shape": [int(length) for length in value.shape],
        "row": torch.from_numpy(entries.row.astype(np.int64)),
        "column": torch.from_numpy(entries.col.astype(np.int64)),
        "data": _array_to_plain(entries.data),
    }


def _scipy(plain: dict[str, Any]) -> Any:
    build = sparse.coo_array if plain["array"] else sparse.coo_matrix
    places = (plain["row"].cpu().numpy(), plain["column"].cpu().numpy())
    entries = build((_array(plain["data"]), places), shape=tuple(plain["shape"]))
    return entries.asformat(str(plain["format"]))


def _sparse_tensor_to_plain(value: torch.Tensor) -> dict[str, Any]:
    if value.layout not in _SPARSE_LAYOUTS:
        raise TypeError(f"a checkpoint cannot hold a tensor of layout {value.layout}.")
    entries = value.detach().to_sparse_coo().coalesce()
    return {
        KIND: "sparse tensor",
        "layout": str(value.layout),
        "shape": list(value.shape),
        "indices": entries.indices(),
        "values": entries.values(),
    }


def _sparse_tensor(plain: dict[str, Any]) -> torch.Tensor:
    entries = torch.sparse_coo_tensor(
        plain["indices"], plain["values"], plain["shape"], check_invariants=True
    ).coalesce()
    if plain["layout"] == "torch.sparse_csr":
        return entries.to_sparse_csr()
    return entries.to_sparse_csc() if plain["layout"] == "torch.sparse_csc" else entries


def _set(plain: dict[str, Any]) -> set[Any]:
    return set(from_plain(plain["items"]))


_BACK = {
    "array": _array,
    "list array": _list_array,
    "scipy sparse": _scipy,
    "sparse tensor": _sparse_tensor,
    "set": _set,
}
