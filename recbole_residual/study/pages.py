"""Pages."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from recbole_residual.files import PathLike
from recbole_residual.study.row import Row


def write_pages(rows: Sequence[Row], folder: PathLike) -> Path:
    """Write the pages."""
    return Path(folder) / "index.md"
