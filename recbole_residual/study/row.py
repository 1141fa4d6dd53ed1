"""What a finished cell gave, small enough to keep: pages are made of it, without checkpoints."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from recbole_residual.errors import CheckpointError
from recbole_residual.files import PathLike, read_json, write_text
from recbole_residual.report.intervals import HIGH, LOW
from recbole_residual.study.plan import Cell

FORMAT = 1
"""Of the files; a reader refuses another."""

FOLDER = "rows"
"""Where a study keeps them."""

_DIGITS = 6
_LETTERS = ".123456789A"
"""By the rank of a target, 0 for one that is not in the first ten."""


@dataclass(frozen=True)
class Row:
    """One finished cell, read back.

    Attributes:
        cell: what was trained.
        content: of the file.
    """

    cell: Cell
    content: dict[str, Any]

    @classmethod
    def read(cls, path: PathLike) -> Row:
        """Read a row.

        Raises:
            CheckpointError: if the file is broken, or of another version of this package.
        """
        content = read_json(path)
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise CheckpointError(
                f"{str(path)!r} is not a study's row of format {FORMAT}: remove it, or measure it "
                "again."
            )
        return cls(Cell(**content["cell"]), content)

    def value(self, name: str, of: str = "test") -> float:
        """A metric; NaN if the cell has none of that name.

        Args:
            name: such as ``hrli@1``.
            of: ``test``, ``valid``, or ``filtered``: on the test data, seen items left out.
        """
        value = self.content[of].get(name)
        return math.nan if value is None else float(value)

    def interval(self, name: str, of: str = "test") -> tuple[float, float]:
        """Its 95 % interval over sequences; NaN where there is none."""
        low, high = self.content[f"{of}_intervals"].get(name, (math.nan, math.nan))
        return float(low), float(high)

    def table(self, name: str) -> pd.DataFrame | None:
        """A table of a probe; None if the model could not be asked.

        Args:
            name: ``alpha_sweep``, ``alpha_selection``, ``shuffle`` or ``internals``.
        """
        stored = self.content["tables"].get(name)
        if stored is None:
            return None
        frame = pd.DataFrame(stored["rows"], columns=stored["columns"])
        return frame.assign(
            **{column: np.nan for column in frame.columns if frame[column].isna().all()}
        )

    @property
    def predicts_at_mask(self) -> bool:
        """Whether the last position holds [MASK]: a mixing ratio there is not the last item's."""
        return self.content["last_position"] == "[MASK]"

    @cached_property
    def ndcg10(self) -> np.ndarray:
        """NDCG@10 of every test sequence, in the order of the test data, [n]."""
        gains = {letter: 1 / np.log2(rank + 1) for rank, letter in enumerate(_LETTERS) if rank}
        return np.array([gains.get(letter, 0.0) for letter in self.content["top10"]])


def ranks_in_text(ndcg10: np.ndarray) -> str:
    """The ranks of the targets, one letter each, from NDCG@10 of each sequence.

    Example:
        >>> ranks_in_text(np.array([1.0, 0.0, 1 / np.log2(11)]))
        '1.A'
    """
    with np.errstate(divide="ignore"):
        ranks = np.where(ndcg10 > 0, np.round(2 ** (1 / ndcg10) - 1), 0).astype(int)
    return "".join(_LETTERS[rank] for rank in ranks)


def write_row(path: PathLike, cell: Cell, content: Mapping[str, Any]) -> None:
    """Save what a cell gave; from now on it is finished."""
    whole = {"format": FORMAT, "cell": asdict(cell), **content}
    write_text(path, json.dumps(_plain(whole), allow_nan=False, separators=(",", ":")) + "\n")


def read_rows(*folders: PathLike) -> dict[str, Row]:
    """Every row in some folders, by the key of its cell; of two of one cell the first.

    Args:
        folders: with json files, or with a folder ``rows`` that holds them.
    """
    rows: dict[str, Row] = {}
    for folder in folders:
        base = Path(folder).expanduser()
        base = base / FOLDER if (base / FOLDER).is_dir() else base
        for path in sorted(base.glob("*.json")):
            row = Row.read(path)
            rows.setdefault(row.cell.key, row)
    return rows


def frame_in_row(frame: pd.DataFrame) -> dict[str, Any]:
    """A table as a row keeps it."""
    records = frame.astype(object).where(frame.notna(), None)
    return {"columns": list(map(str, frame.columns)), "rows": records.to_numpy().tolist()}


def with_ends(names: list[str], frame: pd.DataFrame) -> list[str]:
    """Those of some columns that a table has, with their intervals."""
    return [part for name in names for part in (name, name + LOW, name + HIGH) if part in frame]


def _plain(value: Any) -> Any:
    """For JSON: six digits of every number, null for NaN."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None
    return value
