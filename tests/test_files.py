from __future__ import annotations

import os
from pathlib import Path

import pytest

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
