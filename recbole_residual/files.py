"""Files that are written whole or not at all, and what the files in a run's folder are called."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Union

from recbole_residual.errors import WriteError

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

    Args:
        path: where the file goes; folders above it are made.

    Yields:
        The path to write to.

    Raises:
        WriteError: if the disk is full, the folder is not writable, or the like.

    Example:
        >>> import tempfile
        >>> target = Path(tempfile.mkdtemp()) / "note.txt"
        >>> with atomic_path(target) as part:
        ...     _ = part.write_text("whole")
        >>> target.read_text()
        'whole'
    """
    target = Path(path)
    part = _part_beside(target)
    try:
        yield part
        with open(part, "rb+") as written:  # Windows syncs no handle that is open for reading
            os.fsync(written.fileno())
        umask = os.umask(0)
        os.umask(umask)
        part.chmod(0o666 & ~umask)  # mkstemp makes it readable for its owner alone
        part.replace(target)
    except OSError as error:
        if error.filename is not None and Path(error.filename) != part:
            raise  # the block's own trouble with another file
        raise WriteError(str(target), error) from error
    finally:
        _remove(part)


def write_text(path: PathLike, text: str) -> None:
    """Write a text file whole or not at all.

    Raises:
        WriteError: as :func:`atomic_path`.
    """
    with atomic_path(path) as part:
        part.write_text(text, encoding="utf-8")


def _part_beside(target: Path) -> Path:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(
            dir=target.parent, prefix=f".{target.name}.", suffix=target.suffix
        )
    except OSError as error:
        raise WriteError(str(target), error) from error
    os.close(handle)
    return Path(name)


def _remove(part: Path) -> None:
    try:
        part.unlink(missing_ok=True)
    except OSError:  # a disk that takes nothing back either; the first error is the one to tell
        return
