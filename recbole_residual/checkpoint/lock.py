"""One process at a time writes into a run's folder."""

from __future__ import annotations

import json
import os
import platform
from datetime import datetime
from pathlib import Path

from filelock import BaseFileLock, FileLock, SoftFileLock, Timeout

from recbole_residual.errors import CheckpointError, WriteError
from recbole_residual.files import PathLike, write_text

LOCK_FILE = ".lock"
"""In a run's folder: locked by the operating system while a process writes there."""
OWNER_FILE = ".lock-owner.json"
"""Beside it: which process that is, for the message. Windows lets nobody read a locked file."""


class RunLock:
    """Held by the process that trains in a folder; the operating system lets go when it dies.

    So a lock that a killed process has left is none. Where the file system knows no locks, a file
    that names process and machine takes their place, and is taken over if that process is gone.

    Args:
        folder: the folder of a run; it must exist.

    Raises:
        CheckpointError: on entering, if another process, or this one, writes there already.
        WriteError: on entering, if the folder is not writable.

    Example:
        >>> import tempfile
        >>> folder = tempfile.mkdtemp()
        >>> with RunLock(folder):
        ...     with RunLock(folder):  # doctest: +IGNORE_EXCEPTION_DETAIL
        ...         pass
        Traceback (most recent call last):
        CheckpointError: ...
    """

    def __init__(self, folder: PathLike) -> None:
        self.folder = Path(folder)
        self._file = self.folder / LOCK_FILE
        self._owner_file = self.folder / OWNER_FILE
        self._lock: BaseFileLock | None = None

    def __enter__(self) -> RunLock:
        try:
            self._lock = self._acquired()
        except Timeout as error:
            raise CheckpointError(
                f"{self.folder} is in use: {self._owner()} writes there. Wait until it has "
                "finished, or stop it, and try again."
            ) from error
        except OSError as error:
            raise WriteError(str(self._file), error) from error
        owner = {
            "process": os.getpid(),
            "host": platform.node(),
            "since": datetime.now().isoformat(timespec="seconds"),
        }
        try:
            write_text(self._owner_file, json.dumps(owner) + "\n")
        except WriteError:
            self._release()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        # The lock's own file stays: whoever has it open already would lock what is no longer there.
        self._owner_file.unlink(missing_ok=True)
        self._release()

    def _acquired(self) -> BaseFileLock:
        lock: BaseFileLock = FileLock(str(self._file), timeout=0)
        try:
            lock.acquire()
        except NotImplementedError:  # a network file system without locks
            lock = SoftFileLock(str(self._file) + ".soft", timeout=0)
            lock.acquire()
        return lock

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def _owner(self) -> str:
        try:
            owner = json.loads(self._owner_file.read_text(encoding="utf-8"))
            return f"process {owner['process']} on {owner['host']}, since {owner['since']},"
        except (OSError, ValueError, KeyError, TypeError):  # it is only just starting, or ending
            return "another process"
