from __future__ import annotations

import builtins
import errno
import os
from pathlib import Path

import pytest

from recbole_residual.errors import WriteError
from recbole_residual.files import atomic_path, write_text


def test_a_failed_write_leaves_the_old_file_and_no_litter(tmp_path: Path) -> None:
    path = tmp_path / "c.txt"
    path.write_text("old")
    with pytest.raises(RuntimeError), atomic_path(path) as part:
        part.write_text("half of the new")
        raise RuntimeError
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["c.txt"]


def test_a_file_is_as_readable_as_any_other(tmp_path: Path) -> None:
    write_text(tmp_path / "sub" / "c.txt", "text")
    (tmp_path / "plain").touch()
    modes = [os.stat(path).st_mode for path in (tmp_path / "sub" / "c.txt", tmp_path / "plain")]
    assert modes[0] == modes[1]


def test_a_full_disk_is_one_message_and_the_old_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "c.txt"
    path.write_text("old")
    no_space = pytest.raises(WriteError, match=r"c\.txt cannot be written: No space left")
    with no_space as caught, atomic_path(path):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert "--resume" in str(caught.value)
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["c.txt"]


def test_a_folder_that_cannot_be_written_is_one_message(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(WriteError, match="cannot be written"):
        write_text(tmp_path / "file" / "c.txt", "text")


def test_trouble_with_another_file_is_not_called_trouble_with_this_one(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), atomic_path(tmp_path / "c.txt"):
        (tmp_path / "other.txt").read_text()


def test_what_is_synced_is_open_for_writing(tmp_path: Path, monkeypatch) -> None:
    """Windows refuses to sync a handle that was opened for reading."""
    modes = {}
    opened, sync = builtins.open, os.fsync

    def remember(path, mode="r", **kwargs):
        file = opened(path, mode, **kwargs)
        modes[file.fileno()] = mode
        return file

    def check(handle: int) -> None:
        assert modes[handle] in ("rb+", "r+b", "wb", "ab")
        sync(handle)

    monkeypatch.setattr(builtins, "open", remember)
    monkeypatch.setattr(os, "fsync", check)
    write_text(tmp_path / "c.txt", "text")
    assert (tmp_path / "c.txt").read_text() == "text"
