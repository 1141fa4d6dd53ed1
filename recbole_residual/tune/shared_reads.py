"""Data files are read once and handed to every trial through Ray's object store."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from logging import getLogger
from typing import Any, Callable

import pandas as pd
from recbole.data.dataset import Dataset

from recbole_residual.compat import replaced
from recbole_residual.data import create_dataset, reading
from recbole_residual.data.download import ensure_dataset_files


class _FilesReadError(Exception):
    """All files of a dataset are read: leave it there."""


def _leave(dataset: Any) -> None:
    raise _FilesReadError


@dataclass
class SharedReads:
    """Tables that were read from files, by file and way of reading.

    Inside :meth:`in_force` a file that is known is taken from here and every other one is read as
    ever. A file that has changed since is not known.

    Attributes:
        put: stores a table and returns what :attr:`get` takes.
        get: the table back; it may share its memory, so its user gets a copy.
        tables: what ``put`` returned.
    """

    put: Callable[[Any], Any]
    get: Callable[[Any], Any]
    tables: dict[str, Any] = field(default_factory=dict)

    def read(self, config: Any) -> str:
        """Read the files of a dataset that are not known yet.

        Args:
            config: the configuration of a trial.

        Returns:
            In words, where the data is.

        Raises:
            DatasetNotFoundError: if there are none.
            AtomicFileError: if one cannot be read.
        """
        source = ensure_dataset_files(config)
        only_read = replaced(Dataset, "_data_processing", _leave)
        with self._serving(self._read_once), only_read, suppress(_FilesReadError):
            create_dataset(config)
        return source

    @contextmanager
    def in_force(self) -> Iterator[None]:
        """Inside, this process reads known files from here."""
        with self._serving(self._look_up):
            yield

    @contextmanager
    def _serving(self, serve: Callable[..., pd.DataFrame]) -> Iterator[None]:
        read_atomic_file, read_csv = reading.read_atomic_file, pd.read_csv

        def atomic(path: str, *args: Any, **options: Any) -> pd.DataFrame:
            return serve(read_atomic_file, path, *args, **options)

        def csv(path: Any, **options: Any) -> Any:
            if not isinstance(path, str):
                return read_csv(path, **options)  # an open file: a part of the above
            return serve(read_csv, path, **options)

        with (
            replaced(reading, "read_atomic_file", atomic),
            replaced(pd, "read_csv", csv),
        ):
            yield

    def _read_once(self, read: Callable[..., Any], path: str, *args: Any, **options: Any) -> Any:
        key = _key(read, path, args, options)
        if key not in self.tables:
            self.tables[key] = self.put(read(path, *args, **options))
        return self._look_up(read, path, *args, **options)

    def _look_up(self, read: Callable[..., Any], path: str, *args: Any, **options: Any) -> Any:
        key = _key(read, path, args, options)
        if key not in self.tables:
            return read(path, *args, **options)
        getLogger().info("%s is read already, and taken from memory.", path)
        return self.get(self.tables[key]).copy()


def _key(read: Callable[..., Any], path: str, args: Any, options: Any) -> str:
    state = os.stat(path)
    return repr(
        (
            read.__name__,
            os.path.abspath(path),
            state.st_size,
            state.st_mtime_ns,
            args,
            sorted(options.items()),
        )
    )
