"""The ranking read at earlier positions."""

from __future__ import annotations

import pandas as pd

from recbole_residual.report.metric_names import MIXING, main_k, renamed
from recbole_residual.report.runs import Runs
from recbole_residual.report.section import Section


def positions_section(runs: Runs) -> Section:
    """Accuracy and mixing ratio at L, L-1, L-2 and L-3."""
    return Section(
        "positions",
        "Earlier positions",
        "The ranking read at L, L-1, L-2 and L-3 on the full input, and how often it holds a "
        "target that the last position misses.",
        [runs.probe_table("positions", "Accuracy and mixing ratio by position", shown=_shown)],
    )


def _shown(frame: pd.DataFrame) -> pd.DataFrame:
    k = main_k(list(frame.columns))
    names = {
        "run": "run",
        "position": "position",
        "n_sequences": "sequences",
        f"hit@{k}": f"HR@{k}",
        f"ndcg@{k}": f"NDCG@{k}",
        **MIXING,
        f"n_missed@{k}": f"targets missed at L (top {k})",
        f"recovers@{k}": "share of the missed found here",
    }
    return renamed(frame, names)
