"""Files that are written whole or not at all, and what the files in a run's folder are called."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Union

PathLike = Union[str, "os.PathLike[str]"]

CONFIG_FILE = "config.yaml"
"""In a run's folder: the resolved configuration, from which the run can be repeated."""
RESULT_FILE = "result.json"
"""In a run's folder: the result of a finished run."""
LOG_FILE = "run.log"
PROBE_FOLDER = "probe"
"""In a run's folder: the answers of the probes, one json file each."""


@contextmanager
def atomic_path(path: PathLike) -> Iterator[Path]:
    """A temporary path beside ``path`` that takes its place when the block ends well.

    Whoever looks, or kills this process, finds the old file or the new one, never a part.

    Example:
        >>> import tempfile
        >>> target = Path(tempfile.mkdtemp()) / "note.txt"
        >>> with atomic_path(target) as part:
        ...     _ = part.write_text("whole")
        >>> target.read_text()
        'whole'
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(
        dir=target.parent, prefix=f".{target.name}.", suffix=target.suffix
    )
    os.close(handle)
    part = Path(name)
    try:
        yield part
        with open(part, "rb") as written:
            os.fsync(written.fileno())
        umask = os.umask(0)
        os.umask(umask)
        part.chmod(0o666 & ~umask)  # mkstemp makes it readable for its owner alone
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def write_text(path: PathLike, text: str) -> None:
    """Write a text file whole or not at all."""
    with atomic_path(path) as part:
        part.write_text(text, encoding="utf-8")
