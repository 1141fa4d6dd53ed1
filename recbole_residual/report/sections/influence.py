"""Which weights carry accuracy and last-item reliance."""

from __future__ import annotations

from functools import partial

import pandas as pd

from recbole_residual.report.metric_names import main_k, renamed
from recbole_residual.report.plot import Plot, drawing
from recbole_residual.report.runs import Runs, probe_frame
from recbole_residual.report.section import Section

MODULES = "influence_modules"
REMOVAL = "influence_removal"

RANKINGS = {
    "none": "nothing",
    "accuracy": "of most influence on the target",
    "last_item": "of most influence on the last item",
    "weight": "of largest size",
    "gradient": "of largest gradient",
    "random": "at random",
}
"""Which weights are taken out, in words."""


def influence_section(runs: Runs) -> Section:
    """Where influence sits, and what is left without the weights that have most of it."""
    frames = runs.series(partial(probe_frame, probe="influence", name=MODULES))
    return Section(
        "influence",
        "Influence",
        "Which weights the target's log-probability hangs on, and which the last input item's: "
        "|w| times the gradient of each, added up. The check is to set the top of a ranking to "
        f"zero, beside as many others. {_halves(runs)}".rstrip(),
        [
            runs.probe_table("influence", "By layer and module", MODULES, shown=_modules),
            runs.probe_table("influence", "With some weights set to zero", REMOVAL, shown=_removal),
        ],
        [
            Plot(
                "influence",
                "Share of the influence by module",
                "On the last item, and, for one run, on the target.",
                runs.probe_command("influence"),
                drawing("influence_bars", frames) if frames else None,
                runs.missing("influence"),
            )
        ],
    )


def _halves(runs: Runs) -> str:
    """In how few weights half of it sits."""
    texts = []
    for record in runs.records:
        if "influence" in record.probes:
            about = record.probes["influence"].about
            of = f" ({record.label})" if runs.several else ""
            texts.append(
                f"{100 * about['half_accuracy']:.1f} % of the weights hold half of the influence "
                f"on the target, {100 * about['half_last_item']:.1f} % half of that on the last "
                f"item{of}."
            )
    return " ".join(texts)


def _modules(frame: pd.DataFrame) -> pd.DataFrame:
    names = {
        "run": "run",
        "layer": "layer",
        "module": "module",
        "n_weights": "weights",
        "accuracy_share": "share of the influence on the target",
        "last_item_share": "share of the influence on the last item",
        "last_item_density": "the latter over the share of the weights",
    }
    return renamed(frame.assign(layer=frame["layer"].replace("", "none")), names)


def _removal(frame: pd.DataFrame) -> pd.DataFrame:
    k = main_k(list(frame.columns), "ndcg")
    names = {
        "run": "run",
        "ranking": "weights set to zero",
        "share": "share of all",
        "n_weights": "number",
        f"ndcg@{k}": f"NDCG@{k}",
        "hrli@1": "HRLI@1",
    }
    return renamed(frame.assign(ranking=frame["ranking"].map(RANKINGS)), names)
