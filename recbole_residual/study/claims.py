"""Whether the sets that were measured say what the papers say, by the rules of claims.yaml."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any

import numpy as np
import pandas as pd
import yaml

from recbole_residual.probe.uncertainty import N_RESAMPLES, SEED, percentile_interval
from recbole_residual.report.measured import Measured
from recbole_residual.study.measures import MEASURES
from recbole_residual.study.sets import Set

HOLDS, IN_PART, DOES_NOT, NOT_MEASURED = "holds", "holds in part", "does not hold", "not measured"

_FEWEST = 4
"""Sets below which a correlation over sets says nothing."""


@lru_cache(maxsize=1)
def stated() -> dict[str, Any]:
    """The claims, their sources, and the papers' statistics: the package's ``claims.yaml``."""
    text = (resources.files(__package__) / "claims.yaml").read_text(encoding="utf-8")
    return yaml.safe_load(text)


@dataclass(frozen=True)
class Verdict:
    """What the sets say of one claim.

    Attributes:
        claim: as in claims.yaml.
        frame: one row a set: ``dataset``, ``split``, ``figure`` with its interval, ``says so``; of
            a claim across sets the two figures of each.
        n_sets: how many sets have the figure.
        n_agree: how many of them say so; of a claim across sets, all or none.
        figure: the median over sets, or the correlation across them.
        word: one of the four verdicts.
    """

    claim: dict[str, Any]
    frame: pd.DataFrame
    n_sets: int
    n_agree: int
    figure: Measured
    word: str

    @property
    def rule(self) -> str:
        """In words, when a set says so."""
        claim = self.claim
        if "across" in claim:
            return (
                f"Figure: {claim['quantity']}. It holds where the interval lies above 0, in part "
                "where the figure does."
            )
        if "within" in claim:
            limit = "within {:g} to {:g}".format(*claim["within"])
        elif "at_most" in claim:
            limit = f"at most {claim['at_most']:g}"
        else:
            limit = f"above {claim['at_least']:g}"
        what = {"low": "the lower end of its interval", "value": "it"}[claim.get("end", "value")]
        whose = "this package's threshold" if claim.get("ours") else "as in the paper"
        return f"Figure: {claim['quantity']}. A set says so where {what} is {limit} ({whose})."


def verdicts(sets: Sequence[Set]) -> list[Verdict]:
    """Every claim held against the sets, in the order of claims.yaml."""
    return [
        _across(claim, sets) if "across" in claim else _by_set(claim, sets)
        for claim in stated()["claims"]
    ]


def says_so(claim: Mapping[str, Any], figure: Measured) -> bool:
    """Whether the figure of a set agrees with a claim.

    Example:
        >>> says_so({"within": [0.12, 0.4]}, Measured(0.3))
        True
        >>> says_so({"at_least": 0.05, "end": "low"}, Measured(0.2, 0.01, 0.5))
        False
    """
    value = getattr(figure, claim.get("end", "value"))
    if "within" in claim:
        low, high = claim["within"]
        return low <= value <= high
    return value <= claim["at_most"] if "at_most" in claim else value > claim["at_least"]


def _by_set(claim: dict[str, Any], sets: Sequence[Set]) -> Verdict:
    rows: list[dict[str, Any]] = []
    values = []
    for one in sets:
        figure = MEASURES[claim["measure"]](one)
        if figure.known:
            agrees = says_so(claim, figure)
            rows.append({**one.columns, **figure.columns("figure"), "says so": agrees})
            values.append(figure.value)
    agree = sum(row["says so"] for row in rows)
    if not rows:
        return Verdict(claim, pd.DataFrame(), 0, 0, Measured(math.nan), NOT_MEASURED)
    enough = len(rows) / 2 if claim.get("often") else len(rows)
    word = HOLDS if agree >= enough else IN_PART if agree else DOES_NOT
    frame = pd.DataFrame(rows)
    frame["says so"] = ["yes" if one else "no" for one in frame["says so"]]
    return Verdict(claim, frame, len(rows), agree, Measured(float(np.median(values))), word)


def _across(claim: dict[str, Any], sets: Sequence[Set]) -> Verdict:
    rows = []
    for one in sets:
        pair = {name: MEASURES[name](one) for name in claim["across"]}
        if all(figure.known for figure in pair.values()):
            row: dict[str, Any] = dict(one.columns)
            for name, figure in pair.items():
                row.update(figure.columns(name))
            rows.append(row)
    frame, n = pd.DataFrame(rows), len(rows)
    if n < _FEWEST:
        return Verdict(claim, frame, n, 0, Measured(math.nan), NOT_MEASURED)
    found = rank_correlation(*(frame[name].to_numpy() for name in claim["across"]))
    word = HOLDS if found.low > 0 else IN_PART if found.value > 0 else DOES_NOT
    return Verdict(claim, frame, n, n if word == HOLDS else 0, found, word)


def rank_correlation(first: np.ndarray, second: np.ndarray) -> Measured:
    """Spearman's correlation of two figures of the same sets, with a bootstrap over sets.

    Example:
        >>> rank_correlation(np.arange(6.0), np.arange(6.0) ** 2).value
        1.0
    """
    from scipy.stats import spearmanr

    n = len(first)
    generator = np.random.default_rng(SEED)
    drawn = []
    for _ in range(N_RESAMPLES):
        sample = generator.integers(0, n, n)
        a, b = first[sample], second[sample]
        usable = np.ptp(a) > 0 and np.ptp(b) > 0  # else every set drawn is the same one
        drawn.append(float(spearmanr(a, b)[0]) if usable else math.nan)
    low, high = percentile_interval(np.array(drawn)[:, None])
    return Measured(float(spearmanr(first, second)[0]), float(low[0]), float(high[0]))
