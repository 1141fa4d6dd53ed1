"""Every way in which a file that torch.load takes can run code or eat memory: none works here.

Each file is given to both readers: that of this package's checkpoints and that of RecBole's.
"""

from __future__ import annotations

import collections
import io
import os
import pickle
import tarfile
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pytest
import torch
from hypothesis import strategies as st

from recbole_residual.checkpoint.archive import read_archive
from recbole_residual.checkpoint.untrusted import load_recbole_checkpoint
from recbole_residual.checkpoint.writing import load_checkpoint, save_checkpoint
from recbole_residual.errors import CheckpointError, UntrustedCheckpointError

READERS = pytest.mark.parametrize("read", [load_checkpoint, load_recbole_checkpoint])


class Payload:
    """Unpickling it makes a file."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.system, ("touch ran",))


@pytest.fixture(autouse=True)
def _nothing_ran(monkeypatch: pytest.MonkeyPatch):
    """No test here may leave the file ``ran``, nor ask torch to load anything."""

    def asked(*args: Any, **kwargs: Any) -> None:
        pytest.fail("torch was asked")

    monkeypatch.setattr(torch.jit, "load", asked)
    monkeypatch.setattr(torch, "load", asked)
    monkeypatch.setattr(torch.serialization, "load", asked)
    yield
    assert not Path("ran").exists()


def refused(read: Callable, path: Path, match: str) -> None:
    with pytest.raises(CheckpointError, match=match):
        read(path)


# Ways to run code ---------------------------------------------------------------------------------


@READERS
def test_a_torchscript_archive(tmp_path: Path, read: Callable) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.script(torch.nn.Linear(2, 2)).save(str(tmp_path / "c.pth"))
    refused(read, tmp_path / "c.pth", "TorchScript")


@READERS
@pytest.mark.parametrize("name", ["archive/constants.pkl", "archive/code/x.py", "constants.pkl"])
def test_an_archive_that_torch_would_take_for_torchscript(
    tmp_path: Path, read: Callable, name: str
) -> None:
    path = tmp_path / "archive.pth"
    torch.save({"state_dict": {}, "format": "recbole_residual/1"}, path)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(name, b"")
    refused(read, path, "TorchScript")


@READERS
def test_a_pickle_in_a_zip_archive(tmp_path: Path, read: Callable) -> None:
    path = tmp_path / "c.pth"
    torch.save({"state_dict": {}, "x": Payload()}, path)
    refused(read, path, "system")


@READERS
@pytest.mark.parametrize("place", range(5))
def test_a_pickle_in_each_place_of_a_legacy_file(
    tmp_path: Path, read: Callable, place: int
) -> None:
    path = tmp_path / "c.pth"
    system = {"little_endian": True, "protocol_version": 1001, "type_sizes": {}}
    parts: list[Any] = [0x1950A86A20F9469CFC6C, 1001, system, {"state_dict": {}}, []]
    parts[place] = Payload()
    path.write_bytes(b"".join(pickle.dumps(part, protocol=2) for part in parts))
    refused(read, path, "system")


@READERS
def test_a_tar_archive(tmp_path: Path, read: Callable) -> None:
    path = tmp_path / "c.pth"
    with tarfile.open(path, "w") as archive:
        for name in ("sys_info", "pickle", "storages", "tensors"):
            content = pickle.dumps(Payload(), protocol=2)
            record = tarfile.TarInfo(name)
            record.size = len(content)
            archive.addfile(record, io.BytesIO(content))
    refused(read, path, "tar archive")


@READERS
def test_a_bare_pickle(tmp_path: Path, read: Callable) -> None:
    path = tmp_path / "c.pth"
    path.write_bytes(pickle.dumps(Payload()))
    refused(read, path, "system")


@READERS
@pytest.mark.parametrize(
    "name",
    [
        "torch.storage._load_from_bytes",
        "torch.load",
        "torch.jit._serialization.load",
        "torch.hub.load",
        "torch._utils._import_dotted_name",
        "torch.utils.collect_env.run",
        "torch.distributed.rpc.internal._internal_rpc_pickler",
        "torch.fx.graph_module.reduce_graph_module",
        "torch.package.package_importer.PackageImporter",
        "torch._dynamo.guards.eval",
        "torch._utils._rebuild_wrapper_subclass",
        "torch._tensor._rebuild_from_type_v2",
        "builtins.getattr",
        "builtins.__import__",
        "numpy.load",
        "numpy.testing._private.utils.runstring",
        "types.FunctionType",
        "operator.attrgetter",
        "importlib.import_module",
    ],
)
def test_a_name_that_leads_to_code(tmp_path: Path, read: Callable, name: str) -> None:
    path = tmp_path / "c.pth"
    module, attribute = name.rsplit(".", 1)
    _save_pickle(path, f"c{module}\n{attribute}\n(lR.".encode())
    with pytest.raises(CheckpointError) as caught:
        read(path)
    assert name in str(caught.value)


def test_a_checkpoint_of_this_package_has_no_partial(tmp_path: Path) -> None:
    """Those of RecBole may: test_untrusted.py has what becomes of it."""
    path = tmp_path / "c.pth"
    _save_pickle(path, b"cfunctools\npartial\n(lR.")
    refused(load_checkpoint, path, "functools.partial")


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        ("recbole.config.configurator\nConfig", "__setstate__"),
        ("recbole.model.sequential_recommender.sasrec\nSASRec", "append"),
        ("recbole.utils.enum_type\nModelType", "GENERAL"),
        ("numpy\ndtype", "resolve"),
        ("_codecs\nencode", "__call__"),
        ("torch._utils\n_rebuild_tensor_v2", "_function"),
        ("collections\nOrderedDict", "update"),
        ("torch\ndevice", "__init__"),
    ],
)
def test_a_pickle_that_changes_what_it_refers_to(tmp_path: Path, owner: str, name: str) -> None:
    """The opcode BUILD sets attributes on anything: the next file read would call them."""
    path = tmp_path / "c.pth"
    _save_pickle(path, f"c{owner}\n(N}}V{name}\nI7\nstb.".encode())
    with pytest.raises(CheckpointError):
        load_recbole_checkpoint(path)
    good = tmp_path / "good.pth"
    save_checkpoint(good, {"state_dict": {"x": torch.ones(2)}})
    assert load_recbole_checkpoint(good)["state_dict"]["x"].tolist() == [1, 1]


def test_a_numpy_type_with_references_in_it(tmp_path: Path) -> None:
    """numpy.dtype believes the size, the fields and the flags that a file gives it."""

    class Scalar:
        def __reduce__(self) -> tuple[Any, ...]:
            return (np.core.multiarray.scalar, (Dtype("O8"), b"\x00" * 8))

    class Dtype:
        def __init__(self, kind: str) -> None:
            self.kind = kind

        def __reduce__(self) -> tuple[Any, ...]:
            return (np.dtype, (self.kind, False, True), (3, "<", None, None, None, -1, -1, 0))

    path = tmp_path / "c.pth"
    torch.save({"state_dict": {}, "x": Scalar()}, path)
    with pytest.raises(UntrustedCheckpointError, match=r"numpy\.dtype 'O8'"):
        load_recbole_checkpoint(path)


def test_indices_of_a_sparse_tensor_that_point_outside(tmp_path: Path) -> None:
    tensor = torch.sparse_coo_tensor([[5]], [1.0], (2,), check_invariants=False)
    path = tmp_path / "c.pth"
    torch.save({"state_dict": {"x": tensor}}, path)
    refused(load_recbole_checkpoint, path, "cannot be read")


# Ways to eat memory -------------------------------------------------------------------------------


def _save_pickle(path: Path, content: bytes, **records: bytes) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("c/data.pkl", content)
        for name, record in records.items():
            archive.writestr(f"c/data/{name}", record)


@READERS
def test_a_compressed_archive(tmp_path: Path, read: Callable) -> None:
    path = tmp_path / "c.pth"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("c/data.pkl", b"\0" * 10_000_000)
    assert path.stat().st_size < 20_000
    refused(read, path, "compressed")


@READERS
def test_records_that_overlap(tmp_path: Path, read: Callable) -> None:
    path = tmp_path / "c.pth"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("c/data.pkl", b"x" * 5000)
        for number in range(50):
            entry = zipfile.ZipInfo(f"c/data/{number}")
            first = archive.infolist()[0]
            entry.header_offset, entry.CRC = first.header_offset, first.CRC
            entry.file_size = entry.compress_size = first.file_size
            archive.filelist.append(entry)
        archive._didModify = True
    refused(read, path, "more bytes than the file has")


@READERS
@pytest.mark.parametrize(
    ("size", "stride"), [((10**12,), (1,)), ((10**12,), (0,)), ((2, 2), (1, 1)), ((-1,), (1,))]
)
def test_a_tensor_larger_than_its_bytes(
    tmp_path: Path, read: Callable, size: tuple[int, ...], stride: tuple[int, ...]
) -> None:
    class Tensor:
        def __reduce__(self) -> tuple[Any, ...]:
            hooks: dict[str, Any] = collections.OrderedDict()
            storage = torch.zeros(2).untyped_storage()
            typed = torch.storage.TypedStorage(wrap_storage=storage, dtype=torch.float32)
            return (torch._utils._rebuild_tensor_v2, (typed, 0, size, stride, False, hooks))

    path = tmp_path / "c.pth"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.save({"state_dict": {"x": Tensor()}, "format": "recbole_residual/1"}, path)
    refused(read, path, "recbole_residual|RecBole checkpoint")


@READERS
def test_a_storage_that_claims_more_than_it_has(tmp_path: Path, read: Callable) -> None:
    persistent = b"(Vstorage\nctorch\nFloatStorage\nV0\nVcpu\nI1000000000000\ntQ."
    path = tmp_path / "c.pth"
    _save_pickle(path, persistent, **{"0": b"\0" * 8})
    refused(read, path, "another length")


@READERS
def test_a_legacy_storage_that_claims_more_than_the_file_has(
    tmp_path: Path, read: Callable
) -> None:
    system = {"little_endian": True}
    path = tmp_path / "c.pth"
    path.write_bytes(
        b"".join(pickle.dumps(part, protocol=2) for part in (0x1950A86A20F9469CFC6C, 1001, system))
        + b"(Vstorage\nctorch\nFloatStorage\nV0\nVcpu\nI1000000000000\nNtQ."
    )
    refused(read, path, "more bytes than the file has")


def test_a_bytearray_of_a_length(tmp_path: Path) -> None:
    path = tmp_path / "c.pth"
    _save_pickle(path, b"cbuiltins\nbytearray\n(I1000000000000\ntR.")
    refused(load_recbole_checkpoint, path, "cannot be read")


@READERS
@pytest.mark.parametrize("keep", [0, 1, 3, 100, 400, -1])
def test_a_file_that_ends_too_early(tmp_path: Path, read: Callable, keep: int) -> None:
    path = tmp_path / "c.pth"
    save_checkpoint(path, {"state_dict": {"x": torch.ones(50)}})
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(CheckpointError):
        read(path)


# What is right ------------------------------------------------------------------------------------


def _nothing(module: str, name: str) -> Any:
    raise UntrustedCheckpointError(f"{module}.{name}")


@pytest.mark.parametrize("zipped", [True, False])
def test_tensors_are_what_torch_saved(tmp_path: Path, zipped: bool) -> None:
    base = torch.arange(12.0).view(3, 4)
    dtypes = [torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16]
    saved = {
        "transposed": base.t(),
        "row": base[1],
        "empty": torch.empty(0, 3),
        "scalar": torch.tensor(2.5),
        "expanded": torch.ones(1).expand(7),
        "bool": torch.tensor([True, False]),
        "parameter": torch.nn.Parameter(torch.ones(2)),
        **{str(dtype): torch.arange(5).to(dtype) for dtype in [*dtypes, torch.int8, torch.uint8]},
        "complex": torch.tensor([1 + 2j]),
    }
    path = tmp_path / "c.pth"
    torch.save(saved, path, _use_new_zipfile_serialization=zipped)
    read = read_archive(path, _nothing)
    assert list(read) == list(saved)
    for name, tensor in saved.items():
        assert read[name].dtype == tensor.dtype
        assert torch.equal(read[name], tensor), name
    assert isinstance(read["parameter"], torch.nn.Parameter)
    assert read["parameter"].requires_grad
    assert read["row"].data_ptr() == read["transposed"].data_ptr() + 16, "they share memory"
    read["row"].add_(1)


def test_sparse_tensors_are_read(tmp_path: Path) -> None:
    dense = torch.tensor([[0.0, 2.0], [3.0, 0.0]])
    path = tmp_path / "c.pth"
    torch.save([dense.to_sparse(), dense.to_sparse_csr(), dense.to_sparse_csc()], path)
    for tensor in read_archive(path, _nothing):
        assert torch.equal(tensor.to_dense(), dense)


def test_an_open_file_and_a_stream_are_read_too(tmp_path: Path) -> None:
    stream = io.BytesIO()
    torch.save({"x": 1}, stream)
    stream.seek(0)
    assert read_archive(stream, _nothing) == {"x": 1}


@hypothesis.settings(max_examples=60, deadline=None)
@hypothesis.given(st.data())
def test_a_damaged_file_is_a_checkpoint_error_or_still_right(data: st.DataObject) -> None:
    stream = io.BytesIO()
    torch.save({"state_dict": {"x": torch.arange(6.0)}, "epoch": 3}, stream)
    content = bytearray(stream.getvalue())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    try:
        state = load_recbole_checkpoint(io.BytesIO(bytes(content)))
    except CheckpointError:
        return
    assert isinstance(state, dict)
