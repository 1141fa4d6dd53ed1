"""What a run left in its folder, read back: the report knows nothing but these files."""

from __future__ import annotations

import json
import os
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Union

import numpy as np
import pandas as pd

from recbole_residual.config.probe_names import PROBES
from recbole_residual.probe.run_probes import FOLDER
from recbole_residual.run.folder import RunFolder

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
    def read(cls, folder: Union[str, os.PathLike[str]], label: str = "") -> RunRecord:
        """Read the folder of a run.

        Raises:
            ConfigError: if it is none.
        """
        run = RunFolder.existing(folder)
        probes = {}
        for name in PROBES:
            path = run.path / FOLDER / f"{name}.json"
            if path.is_file():
                content = json.loads(path.read_text(encoding="utf-8"))
                tables = {key: _frame(rows) for key, rows in content["tables"].items()}
                probes[name] = StoredProbe(content["about"], content["notes"], tables)
        config = run.read_config()
        name = label or f"{config['model']}, {config['dataset']}"
        return cls(run.path, config, run.read_result() or {}, probes, name)

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
        config = shlex.quote(str(RunFolder(self.folder).config_file))
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


def _frame(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """A table out of JSON, in which null stands for NaN."""
    frame = pd.DataFrame(rows)
    for name in frame.columns:
        if frame[name].isna().all():
            frame[name] = np.nan
    return frame
