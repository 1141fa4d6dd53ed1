"""The same model on inputs that were shuffled, reversed or cut."""

from __future__ import annotations

import pandas as pd

from recbole_residual.report.intervals import whiskers_are
from recbole_residual.report.metric_names import drop_k, renamed
from recbole_residual.report.plot import Plot, drawing
from recbole_residual.report.runs import Runs, certain_frame
from recbole_residual.report.section import Section


def shuffles_section(runs: Runs) -> Section:
    """Accuracy on perturbed inputs and what of it is lost."""
    shuffles = runs.series(lambda record: certain_frame(record, "shuffle"))
    k = min((drop_k(table) for table in shuffles.values()), default=10)

    def shown(frame: pd.DataFrame) -> pd.DataFrame:
        names = {
            "run": "run",
            "mode": "mode",
            "n_runs": "seeds",
            f"ndcg@{k}": f"NDCG@{k}",
            f"ndcg@{k}_drop": f"relative drop of NDCG@{k}",
            f"ndcg@{k}_drop_std": "std of that drop over seeds",
            f"hit@{k}": f"HR@{k}",
            f"hit@{k}_drop": f"relative drop of HR@{k}",
            f"hit@{k}_drop_std": "std of the drop of HR over seeds",
            "hrli@1": "HRLI@1",
        }
        return renamed(frame, names)

    whiskers = whiskers_are(shuffles.values(), f"ndcg@{k}_drop", "standard deviation over seeds")
    plot = Plot(
        "shuffle_bars",
        "Relative drop under perturbed inputs",
        "Where shuffle prefix costs little and shuffle all costs much, the model leans on the last "
        f"item. {whiskers}",
        runs.probe_command("shuffle"),
        drawing("shuffle_bars", shuffles, k) if shuffles else None,
    )
    return Section(
        "shuffles",
        "Shuffles",
        "The same model on inputs that were shuffled, reversed or cut, at inference only.",
        [runs.probe_table("shuffle", "Accuracy on perturbed inputs", shown=shown)],
        [plot],
    )
