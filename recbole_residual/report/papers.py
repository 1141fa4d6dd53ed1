"""The papers' numbers, and whether ours agree with them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from importlib import resources
from typing import Any

import yaml

from recbole_residual.report.cell import UNDEFINED
from recbole_residual.report.measured import Measured
from recbole_residual.report.table import NOT_RUN


@lru_cache(maxsize=1)
def reference() -> dict[str, Any]:
    """The numbers of the papers, with their sources: the package's ``papers.yaml``."""
    text = (resources.files(__package__) / "papers.yaml").read_text(encoding="utf-8")
    return yaml.safe_load(text)


def plain_model(name: str) -> str:
    """The model of the papers that a class stands for.

    Example:
        >>> plain_model("SASRecResidual"), plain_model("GRU4Rec")
        ('SASRec', 'GRU4Rec')
    """
    return name[: -len("Residual")] if name.endswith("Residual") else name


def verdict(finding: Mapping[str, Any], ours: Measured | None) -> str:
    """Our value, and where it lies in the range of the papers if they give one.

    Args:
        finding: with ``low`` and ``high`` if the papers give a range, and with ``least`` if that is
            a range of differences, which only a larger difference leaves.
        ours: with its 95 % interval if it has one; None if it was not run.

    Example:
        >>> ratio = {"low": 0.12, "high": 0.4}
        >>> verdict(ratio, Measured(0.25, 0.24, 0.26)), verdict(ratio, Measured(0.05))
        ('0.2500 (0.240 to 0.260), within', '0.0500, outside')
        >>> verdict({"low": 0.0032, "high": 0.0186, "least": True}, Measured(0.001))
        '0.0010, smaller than any of theirs'
    """
    if ours is None:
        return NOT_RUN
    if not ours.known:
        return UNDEFINED
    text, low, high = f"{ours.value:.4f}", finding.get("low"), finding.get("high")
    if ours.has_interval:
        text += f" ({ours.low:.3f} to {ours.high:.3f})"
    if low is None or high is None:
        return text
    if ours.value < low and finding.get("least"):
        return f"{text}, smaller than any of theirs"
    return f"{text}, {'within' if low <= ours.value <= high else 'outside'}"
