"""Files that are written whole or not at all, and what the files in a run's folder are called."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Union

import yaml

from recbole_residual.errors import CheckpointError, WriteError

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


def read_json(path: PathLike) -> Any:
    """The content of a json file that this package wrote into the folder of a run.

    Raises:
        CheckpointError: if somebody, or a broken disk, has changed it.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "result.json"
        >>> write_text(path, '{"alpha": 0.3}')
        >>> read_json(path)
        {'alpha': 0.3}
    """
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except ValueError as error:  # no JSON, or no UTF-8
        raise CheckpointError(f"{str(path)!r} is broken: {error}.") from error


def read_yaml(path: PathLike) -> dict[str, Any]:
    """The configuration that this package wrote into the folder of a run.

    Raises:
        CheckpointError: if it holds none any more.
    """
    try:
        content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (ValueError, yaml.YAMLError) as error:
        raise CheckpointError(f"{str(path)!r} is broken: {error}") from error
    if not isinstance(content, dict):
        raise CheckpointError(f"{str(path)!r} is broken: it holds no configuration.")
    return content
