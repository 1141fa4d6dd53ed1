"""What the item at each distance from the end is worth."""

from __future__ import annotations

import pandas as pd

from recbole_residual.report.metric_names import renamed
from recbole_residual.report.plot import Plot, drawing
from recbole_residual.report.record import RunRecord
from recbole_residual.report.runs import Runs, probe_frame
from recbole_residual.report.section import Section

_TABLE = "faithfulness_reliance"


def reliance_curve_section(runs: Runs) -> Section:
    """The fall of NDCG and of the target's log-probability by the position that is taken out."""
    curves = {}
    for label, frame in runs.series(_reliance).items():
        for alpha, rows in _of_one_ablation(frame).groupby("alpha", sort=False):
            name = f"alpha = {alpha}"
            curves[f"{label}, {name}" if runs.several else name] = rows
    k = min((_k(frame) for frame in curves.values()), default=10)
    plot = Plot(
        "reliance_curve",
        "The reliance curve",
        "The mean fall when the item at L - o is taken out, o = 0 being the last one: the steeper "
        "the cliff, the more the model leans on it. Bands: 95 % interval.",
        runs.probe_command("faithfulness"),
        drawing("reliance_curve", curves, f"ndcg@{k}_fall", f"fall of NDCG@{k}")
        if curves
        else None,
        runs.missing("faithfulness"),
    )
    return Section(
        "reliance-curve",
        "The reliance curve",
        "Each of the latest items taken out by itself: what of the ranking goes with it.",
        [runs.probe_table("faithfulness", "By distance from the end", _TABLE, _shown, folded=True)],
        [plot],
    )


def _reliance(record: RunRecord) -> pd.DataFrame | None:
    return probe_frame(record, "faithfulness", _TABLE)


def _of_one_ablation(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of the first way to take an item out, which every model knows."""
    return frame[frame["ablation"] == frame["ablation"].iloc[0]]


def _k(frame: pd.DataFrame) -> int:
    (name,) = (name for name in map(str, frame) if name.startswith("ndcg@") and "_" not in name)
    return int(name[len("ndcg@") :])


def _shown(frame: pd.DataFrame) -> pd.DataFrame:
    k = _k(frame)
    names = {
        "run": "run",
        "alpha": "alpha",
        "ablation": "ablation",
        "from_end": "position, back from L",
        "n_sequences": "sequences",
        f"ndcg@{k}_fall": f"fall of NDCG@{k}",
        "log_probability_fall": "fall of the target's log-probability",
        "rank_change_target": "change of the target's rank",
    }
    return renamed(frame, names)
