from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse

from recbole_residual.checkpoint.plain_values import KIND, from_plain, to_plain
from recbole_residual.checkpoint.writing import load_checkpoint, save_checkpoint
from recbole_residual.errors import CheckpointError

DENSE = np.array([[0.0, 2.0, 0.0], [3.5, 0.0, -1.0]])


def through_a_file(value: Any, folder: Path) -> Any:
    save_checkpoint(folder / "c.pth", {"value": value})
    assert torch.load(folder / "c.pth", weights_only=True)["format"], "plain types alone"
    return load_checkpoint(folder / "c.pth")["value"]


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "lil", "dok"])
@pytest.mark.parametrize("kind", [sparse.csr_matrix, sparse.csr_array])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_scipys_sparse_matrices_come_back(tmp_path: Path, form: str, kind, dtype) -> None:
    matrix = kind(DENSE.astype(dtype)).asformat(form)
    back = through_a_file(matrix, tmp_path)
    assert type(back) is type(matrix)
    assert back.dtype == dtype
    assert np.array_equal(back.toarray(), matrix.toarray())


@pytest.mark.parametrize("layout", ["to_sparse", "to_sparse_csr", "to_sparse_csc"])
def test_sparse_tensors_come_back(tmp_path: Path, layout: str) -> None:
    tensor = getattr(torch.from_numpy(DENSE), layout)()
    back = through_a_file(tensor, tmp_path)
    assert back.layout == tensor.layout
    assert torch.equal(back.to_dense(), tensor.to_dense())


@pytest.mark.parametrize(
    "array",
    [
        DENSE,
        DENSE.astype(">f4"),
        np.arange(5, dtype=np.uint32),
        np.array(3),
        np.array([True, False]),
        np.array(["a", "bc"]),
        DENSE[:, ::-1],
        np.zeros((0, 2)),
    ],
)
def test_arrays_come_back(tmp_path: Path, array: np.ndarray) -> None:
    back = through_a_file(array, tmp_path)
    assert isinstance(back, np.ndarray)
    assert back.dtype == array.dtype
    assert np.array_equal(back, array)


def test_the_rest_comes_back_plain(tmp_path: Path) -> None:
    value = {"set": {1, 2}, "tuple": (1, (np.float32(0.5), None)), 3: {"deep": [np.int64(4)]}}
    expected = {"set": {1, 2}, "tuple": [1, [0.5, None]], 3: {"deep": [4]}}
    assert through_a_file(value, tmp_path) == expected


@pytest.mark.parametrize(
    "broken",
    [
        {KIND: "no such"},
        {KIND: "array"},
        {KIND: "array", "tensor": torch.ones(1), "dtype": "O"},
        {
            **to_plain(torch.from_numpy(DENSE).to_sparse()),
            "indices": torch.tensor([[9, 9, 9], [0, 0, 0]]),
        },
        {**to_plain(sparse.csr_matrix(DENSE)), "row": torch.tensor([9, 9, 9])},
        {KIND: "set", "items": [[]]},
    ],
)
def test_what_cannot_have_been_is_refused(broken: dict[str, Any]) -> None:
    with pytest.raises(CheckpointError, match="broken"):
        from_plain(broken)
