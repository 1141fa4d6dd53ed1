"""One suspect switched off at a time."""

from __future__ import annotations

import pandas as pd

from recbole_residual.report.metric_names import MIXING, main_k, renamed
from recbole_residual.report.runs import Runs
from recbole_residual.report.section import Section


def reliance_section(runs: Runs) -> Section:
    """Last-item reliance without each suspect, in one table."""

    def shown(frame: pd.DataFrame) -> pd.DataFrame:
        k = main_k(list(frame.columns))
        names = {
            "run": "run",
            "condition": "condition",
            "hrli@1": "HRLI@1",
            "hrli@1_change": "relative change of HRLI@1",
            f"hit@{k}": f"HR@{k}",
            f"ndcg@{k}": f"NDCG@{k}",
            f"ndcg@{k}_change": f"relative change of NDCG@{k}",
            **MIXING,
            "mixingratio_res_last": f"mixing res, {runs.last} position",
        }
        return renamed(frame, names)

    title = "Last-item reliance, mixing ratio and accuracy"
    return Section(
        "reliance",
        "Suspects side by side",
        "One thing changed at a time: the residual, the learned attention weights, the position "
        "embedding, the order of the input.",
        [runs.probe_table("reliance", title, shown=shown)],
    )
