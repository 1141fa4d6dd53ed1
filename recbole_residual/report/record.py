"""What a run left in its folder, read back: the report knows nothing but these files."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass, field
from functools import cached_property
from math import nan
from pathlib import Path
from typing import Any

import pandas as pd

from recbole_residual.config.probe_names import PROBES
from recbole_residual.errors import ConfigError
from recbole_residual.files import CONFIG_FILE, PROBE_FOLDER, RESULT_FILE, read_json, read_yaml
from recbole_residual.report.result_intervals import (
    Intervals,
    mean_intervals,
    share_intervals,
    sweep_intervals,
)

PROGRAM = "recbole-residual"
"""How commands in a report begin."""


@dataclass(frozen=True)
class StoredProbe:
    """The answer of one probe.

    Attributes:
        about: how it was made.
        notes: what its reader must know.
        tables: by name.
    """

    about: dict[str, Any]
    notes: list[str]
    tables: dict[str, pd.DataFrame]


@dataclass(frozen=True)
class RunRecord:
    """One run: configuration, result, and whatever probes were run.

    Attributes:
        folder: where it is.
        config: the resolved configuration.
        result: the content of result.json; empty if the run has not finished.
        probes: by name; those that were not run are not there.
        label: what the run is called among others.
    """

    folder: Path
    config: dict[str, Any]
    result: dict[str, Any]
    probes: dict[str, StoredProbe] = field(default_factory=dict)
    label: str = ""

    @classmethod
    def read(cls, source: Any, label: str = "") -> RunRecord:
        """Read the folder of a run.

        Args:
            source: the folder, a session that was opened from it, or a diagnosis.
            label: what the run is called among others.

        Raises:
            ConfigError: if it is none.
            CheckpointError: if one of its files is broken.
        """
        path = folder_of(source)
        if not (path / CONFIG_FILE).is_file():
            raise ConfigError(
                f"{str(source)!r} is not the folder of a run: it has no {CONFIG_FILE}."
            )
        config = read_yaml(path / CONFIG_FILE)
        result = _json(path / RESULT_FILE) or {}
        probes = {}
        for name in PROBES:
            content = _json(path / PROBE_FOLDER / f"{name}.json")
            if content is not None:
                tables = {key: _frame(rows) for key, rows in content["tables"].items()}
                probes[name] = StoredProbe(content["about"], content["notes"], tables)
        label = label or f"{config['model']}, {config['dataset']}"
        return cls(path, config, result, probes, label)

    @property
    def has_numbers(self) -> bool:
        """Whether the run was evaluated or asked anything."""
        return bool(self.results_by_split or self.probes)

    @property
    def results_by_split(self) -> dict[str, dict[str, float]]:
        """Metrics of validation and test data, unrounded where they were kept."""
        results = {}
        for split, key in (("validation", "valid_result"), ("test", "test_result")):
            values = self.result.get(f"{key}_unrounded") or self.result.get(key)
            if values:
                results[split] = values
        return results

    def n_sequences(self, split: str) -> int | None:
        """How many sequences ``validation`` or ``test`` data holds; None if nothing says so."""
        key = {"validation": "valid", "test": "test"}[split]
        if f"{key}_sequences" in self.result:
            return self.result[f"{key}_sequences"]
        about = [stored.about for stored in self.probes.values()]
        counts = [entry.get(f"n_{key}_sequences") for entry in about]
        if split == "test":
            counts += [entry.get("n_sequences") for entry in about]
        return next((count for count in counts if count is not None), None)

    @cached_property
    def intervals(self) -> dict[str, Intervals]:
        """95 % intervals of the metrics by split, of those for which they can be had."""
        intervals: dict[str, Intervals] = {}
        left_out = self.result.get("test_left_out", {})
        for split, values in self.results_by_split.items():
            n = self.n_sequences(split)
            shares = {} if n is None else share_intervals(values, n, left_out)
            per_user = self.per_user() if split == "test" else None
            if per_user is not None:
                means = mean_intervals(values, per_user)
            else:
                means = sweep_intervals(values, self._sweep(split), self.result.get("alpha"))
            intervals[split] = {**means, **shares}
        return intervals

    def _sweep(self, split: str) -> pd.DataFrame | None:
        """The sweep over alpha on some data; None if it was not run."""
        if split == "test":
            return self.table("alpha_sweep")
        return self.table("alpha_selection", "alpha_selection_valid_sweep")

    @property
    def title(self) -> str:
        """Model and dataset, in words."""
        return f"{self.config['model']} on {self.config['dataset']}"

    @property
    def predicts_at_mask(self) -> bool:
        """Whether the last position holds [MASK], so that a ratio there is not the last item's."""
        return self.result.get("last_position") == "[MASK]"

    def table(self, probe: str, name: str | None = None) -> pd.DataFrame | None:
        """A table of a probe (by default the one that bears its name); None if it was not run."""
        stored = self.probes.get(probe)
        return None if stored is None else stored.tables[name or probe]

    def notes(self, probe: str) -> list[str]:
        """The notes of a probe, none if it was not run."""
        return self.probes[probe].notes if probe in self.probes else []

    @property
    def command(self) -> str:
        """The command that gives the result again."""
        if "command" in self.result:
            return self.result["command"]
        config = shlex.quote(str(self.folder / CONFIG_FILE))
        return f"{PROGRAM} --config_files={config} --output_dir=NEW_FOLDER"

    def probe_command(self, probe: str) -> str:
        """The command that runs a probe on this run."""
        return f"{PROGRAM} --mode=probe --run={shlex.quote(str(self.folder))} --probes={probe}"

    def per_user(self) -> pd.DataFrame | None:
        """Values per user of the test, None if they were not exported."""
        parquet, csv = (self.folder / f"per_user.{kind}" for kind in ("parquet", "csv"))
        if parquet.is_file():
            return pd.read_parquet(parquet)
        if csv.is_file():
            user = pd.read_csv(csv, nrows=0).columns[0]
            # Tokens stay text: "01" is not "1".
            return pd.read_csv(csv, index_col=0, dtype={user: str, "target": str})
        return None


def _json(path: Path) -> dict[str, Any] | None:
    """The content of a file, None if there is none."""
    return read_json(path) if path.is_file() else None


def _frame(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """A table out of JSON, in which null stands for NaN."""
    names = rows[0] if rows else ()
    columns = {name: [row[name] for row in rows] for name in names}
    for name, values in columns.items():
        if all(value is None for value in values):
            columns[name] = [nan] * len(values)
    return pd.DataFrame(columns)


def folder_of(source: Any) -> Path:
    """The folder of the run that a source is about, for those who read what it holds.

    Args:
        source: the folder; or a session that was opened from one, or a diagnosis.

    Raises:
        ConfigError: if there is no folder.
    """
    folder = source if isinstance(source, (str, os.PathLike)) else getattr(source, "folder", None)
    if folder is None:
        raise ConfigError(
            f"{source!r} has no folder of a run whose results could be read: give the folder, a "
            "session that was opened from it, or what diagnose() returned."
        )
    return Path(folder).expanduser().absolute()


def relative_command(command: str, base: Path) -> str:
    """A command with the paths in it as seen from a folder.

    Example:
        >>> relative_command("recbole-residual --run='/a b/run' --probes=shuffle", Path("/a b/run"))
        'recbole-residual --run=. --probes=shuffle'
    """
    if str(base) not in command:
        return command
    words = []
    for word in shlex.split(command):
        name, equals, value = word.partition("=")
        path = Path(value if equals else name)
        if path.is_absolute() and (path == base or base in path.parents):
            path_text = path.relative_to(base).as_posix()
            word = f"{name}={path_text}" if equals else path_text
        words.append(shlex.quote(word))
    return " ".join(words)
