"""A table of one's own turned into a dataset: an atomic file and a yaml, in one step."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from logging import getLogger
from pathlib import Path
from typing import Any, Union

import numpy as np
import pandas as pd

from recbole_residual.data.foreign_table import (
    Source,
    as_seconds,
    as_tokens,
    in_words,
    read_columns,
)
from recbole_residual.errors import DataError
from recbole_residual.files import atomic_path, write_text

_HEADER = ["user_id:token", "item_id:token", "timestamp:float"]
_NOT_A_TOKEN = re.compile(r"[\t\r\n]")

_YAML = """\
# {name}, imported from {source}. Everything here is what it is without this file; change what you
# like and give it to the command: --config_files={path}
USER_ID_FIELD: user_id
ITEM_ID_FIELD: item_id
TIME_FIELD: timestamp
load_col:
    inter: [user_id, item_id, timestamp]

# Who is in training, validation and test: each user's last item is the test target, the one before
# it the validation target. {{GT: [0.9, 0.9]}} in the place of {{LS: ...}} splits by time.
eval_args:
    split: {{LS: valid_and_test}}
    order: TO
    group_by: user
    mode: full

# The papers' preprocessing, if you want it:
# user_inter_num_interval: "[5,inf)"
# item_inter_num_interval: "[5,inf)"
# remove_consecutive_repeats: True
"""


@dataclass(frozen=True)
class ImportOptions:
    """What :func:`import_interactions` need not be told.

    Attributes:
        separator: between the columns of a text file; by default found in its header.
        encoding: of text files; by default UTF-8, or UTF-16 where the file's mark says so.
        item_name: column of ``item_names`` that holds the names; by default the first whose name
            speaks of a title or a name, or else the first besides the item.
        overwrite: replace a dataset of that name.
    """

    separator: str | None = None
    encoding: str | None = None
    item_name: str | None = None
    overwrite: bool = False


@dataclass(frozen=True)
class Imported:
    """What was written.

    Attributes:
        name: the dataset's name, for ``--dataset``.
        data_path: the folder, for ``--data_path``.
        files: the files written.
        users, items, interactions: how many there are.
        dropped: why rows were dropped, and how many.
        notes: what was noticed, such as times in milliseconds.
    """

    name: str
    data_path: Path
    files: tuple[Path, ...]
    users: int
    items: int
    interactions: int
    dropped: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [
            f"{self.name}: {self.interactions:,} interactions of {self.users:,} users with "
            f"{self.items:,} items.",
            *(f"Dropped {n:,} rows: {reason}." for reason, n in self.dropped.items()),
            *(f"Note: {note}." for note in self.notes),
            *(f"Wrote {file}" for file in self.files),
            f"To train: --dataset={self.name} --data_path={self.data_path}",
        ]
        return "\n".join(lines)


def import_interactions(
    source: Source,
    user: str,
    item: str,
    time: str,
    item_names: Source | None = None,
    name: str | None = None,
    data_path: Union[str, os.PathLike[str]] = "dataset",
    **options: Any,
) -> Imported:
    """Turn a table of interactions into a dataset of RecBole's.

    It writes ``<data_path>/<name>/<name>.inter`` and ``<name>.yaml`` beside it, and with
    ``item_names`` a file of items; each whole or not at all. Ids stay as they are written, rows
    keep their order, times become seconds since 1970. Rows are dropped if the user, the item or the
    time is missing or cannot be read; how many is said and returned.

    Args:
        source: a DataFrame, or the path of a csv (any common separator, packed or not) or parquet
            file with a header.
        user: its column of users.
        item: its column of items.
        time: its column of times: numbers, dates, or text that is one of the two.
        item_names: a table of the same kinds with the column ``item`` and one of names.
        name: name of the dataset; by default that of the file.
        data_path: the folder that holds a folder for each dataset.
        **options: what :class:`ImportOptions` lists: ``separator``, ``encoding``, ``item_name``,
            ``overwrite``.

    Returns:
        Imported: what was written; as text, what to type next.

    Raises:
        DataError: if a file or a column is not there, no row is left, or the dataset exists.
        MissingPackageError: if a parquet file needs pyarrow.

    Example:
        >>> import tempfile
        >>> log = pd.DataFrame({"who": [1, 1, 2], "what": ["a", "b", "a"], "when": [10, 20, None]})
        >>> done = import_interactions(
        ...     log, user="who", item="what", time="when", name="mine", data_path=tempfile.mkdtemp()
        ... )
        >>> done.interactions, dict(done.dropped)
        (2, {'no time, or none that can be read': 1})
    """
    chosen = ImportOptions(**options)
    stem = _free_stem(source, name, data_path, chosen)
    table = read_columns(source, (user, item, time), chosen.separator, chosen.encoding)
    rows, dropped, notes = _clean(table, user, item, time)
    _check_left(rows, dropped, in_words(source))
    named = None
    if item_names is not None:
        named = _names(item_names, item, set(rows["item"]), chosen)
        notes += (f"{len(named):,} of {rows['item'].nunique():,} items have a name",)
    files = _write_all(stem, rows, named, in_words(source))
    counts = (rows["user"].nunique(), rows["item"].nunique(), len(rows))
    done = Imported(stem.name, Path(data_path), files, *counts, dropped, notes)
    _log(done, in_words(source))
    return done


def _free_stem(
    source: Source,
    name: str | None,
    data_path: Union[str, os.PathLike[str]],
    options: ImportOptions,
) -> Path:
    """The path of the dataset's files without their suffix, which no other dataset has."""
    name = _dataset_name(source, name)
    stem = Path(data_path).expanduser() / name / name
    if Path(f"{stem}.inter").exists() and not options.overwrite:
        raise DataError(
            f"{stem}.inter exists already: give another name, or overwrite=True to replace it."
        )
    return stem


def _check_left(rows: pd.DataFrame, dropped: Mapping[str, int], source: str) -> None:
    if rows.empty:
        reasons = ", ".join(f"{n:,} rows: {reason}" for reason, n in dropped.items())
        raise DataError(f"{source}: no interaction is left ({reasons or 'no rows'}).")


def _write_all(
    stem: Path, rows: pd.DataFrame, named: pd.DataFrame | None, source: str
) -> tuple[Path, ...]:
    inter, settings, items = (Path(f"{stem}.{suffix}") for suffix in ("inter", "yaml", "item"))
    if named is None:
        items.unlink(missing_ok=True)  # of a dataset that this one replaces
    else:
        _write(items, named.set_axis(["item_id:token", "item_name:token_seq"], axis=1))
    _write(inter, rows.set_axis(_HEADER, axis=1))
    source = " ".join(source.split())
    write_text(settings, _YAML.format(name=stem.name, source=source, path=settings))
    return (inter, settings) if named is None else (inter, settings, items)


def _log(done: Imported, source: str) -> None:
    for reason, n in done.dropped.items():
        getLogger().warning("%s: dropped %s rows: %s.", source, f"{n:,}", reason)
    for note in done.notes:
        getLogger().warning("%s: %s.", source, note)


def _dataset_name(source: Source, name: str | None) -> str:
    if name is None:
        if isinstance(source, pd.DataFrame):
            raise DataError("a DataFrame has no name: give the dataset one, name='mine'.")
        name = Path(source).name.split(".")[0]
    if not re.fullmatch(r"[^\s/\\:*?\"<>|.][^/\\:*?\"<>|\r\n\t]*", name):
        raise DataError(
            f"name = {name!r} cannot be the name of a dataset: letters, digits, '-' and '_'."
        )
    return name


def _clean(
    table: pd.DataFrame, user: str, item: str, time: str
) -> tuple[pd.DataFrame, dict[str, int], tuple[str, ...]]:
    """Rows that can be used, why others were dropped, and what was noticed."""
    users, items = as_tokens(table[user]), as_tokens(table[item])
    seconds, notes = as_seconds(table[time])
    rows = pd.DataFrame({"user": users.to_numpy(), "item": items.to_numpy(), "time": seconds})
    dropped: dict[str, int] = {}
    for reason, bad in (
        ("no user", rows["user"].isna()),
        ("no item", rows["item"].isna()),
        ("no time, or none that can be read", rows["time"].isna()),
        ("a tab or a line break in the user", _unwritable(rows["user"])),
        ("a tab or a line break in the item", _unwritable(rows["item"])),
    ):
        bad = bad.reindex(rows.index)
        if bad.any():
            dropped[reason] = int(bad.sum())
            rows = rows[~bad]
    repeated = int(rows.duplicated().sum())
    if repeated:
        notes += (
            f"{repeated:,} rows repeat another one's user, item and time; they are kept, and "
            "rm_dup_inter: first drops them",
        )
    few = int((rows.groupby("user")["item"].size() < 3).sum())
    if few:
        notes += (f"{few:,} users have fewer than three interactions, too few for a test",)
    return rows, dropped, notes


def _unwritable(tokens: pd.Series) -> pd.Series:
    return tokens.map(lambda token: bool(_NOT_A_TOKEN.search(token)), na_action="ignore").eq(True)


def _names(source: Source, item: str, wanted: set[str], options: ImportOptions) -> pd.DataFrame:
    """The items that occur, each once, with their names on one line."""
    table = read_columns(
        source,
        [item, options.item_name] if options.item_name else None,
        options.separator,
        options.encoding,
    )
    if item not in table:
        raise DataError(
            f"{in_words(source)}: there is no column {item!r} to find the items by. There are: "
            f"{', '.join(map(str, table.columns))}."
        )
    others = [column for column in table.columns if column != item]
    speaking = [c for c in others if re.search("title|name", str(c), re.IGNORECASE)]
    if not others:
        raise DataError(f"{in_words(source)}: there is no column of names beside {item!r}.")
    column = options.item_name or (speaking or others)[0]
    named = pd.DataFrame(
        {"item": as_tokens(table[item]).to_numpy(), "name": as_tokens(table[column]).to_numpy()}
    )
    named = named[named["item"].isin(wanted)].dropna().drop_duplicates("item")
    return named.assign(name=[" ".join(text.split()) for text in named["name"]])


def _write(path: Path, rows: pd.DataFrame) -> None:
    """Write an atomic file, every token to the letter."""
    rows = rows.copy()
    for column in rows:
        if rows[column].dtype.kind == "f":
            times = rows[column].to_numpy()
            whole = np.abs(times) < 2**53
            whole &= times == np.floor(times)
            rows[column] = [str(int(t)) if w else repr(float(t)) for t, w in zip(times, whole)]
    with atomic_path(path) as new_file:
        rows.to_csv(new_file, sep="\t", index=False, quoting=csv.QUOTE_NONE, encoding="utf-8")
