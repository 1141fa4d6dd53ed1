"""What the papers report, with ours beside it."""

from __future__ import annotations

from math import nan
from typing import Any

import pandas as pd

from recbole_residual.report.measured import Measured
from recbole_residual.report.measures import MEASURES, of_test
from recbole_residual.report.papers import plain_model, reference, verdict
from recbole_residual.report.record import RunRecord
from recbole_residual.report.runs import Runs
from recbole_residual.report.section import Section
from recbole_residual.report.table import Table

SPLITS = {"LS": "leave-one-out", "GT": "global temporal"}


def papers_section(runs: Runs) -> Section:
    """Findings and accuracies of the papers, and what these runs give."""
    sources = "; ".join(f"{key}: {text}" for key, text in reference()["sources"].items())
    of_sasrec = [
        record for record in runs.records if plain_model(record.config["model"]) == "SASRec"
    ]
    notes = []
    others = [record.label for record in runs.records if record not in of_sasrec]
    if others:
        notes.append(f"RD speaks of SASRec; ours is another model in: {'; '.join(others)}.")
    findings = pd.DataFrame([row for record in runs.records for row in _findings(record, runs)])
    accuracies = [row for record in runs.records for row in _accuracies(record)]
    return Section(
        "papers",
        "The papers' numbers",
        f"Ranges that the papers report, ours beside them. {sources}.",
        [
            Table(
                "papers_findings",
                "Findings",
                findings,
                runs.result_command,
                shown=_side_by_side(findings),
                notes=notes,
            ),
            Table(
                "papers_accuracy",
                "Accuracy on the test data, same dataset and split",
                pd.DataFrame(accuracies) if accuracies else None,
                runs.result_command,
                notes=["Published with tuned sizes, on the dataset's own filtering of seen items."],
                missing="no published number for this dataset, model and split",
            ),
        ],
    )


def _findings(record: RunRecord, runs: Runs) -> list[dict[str, Any]]:
    rows = []
    for finding in reference()["findings"]:
        low, high = finding.get("low"), finding.get("high")
        rows.append(
            {
                "run": record.label,
                "source": finding["source"],
                "finding": finding["statement"],
                "ours is": finding["ours"],
                "paper": "in words" if low is None else f"{low:g} to {high:g}",
                "ours": verdict(finding, MEASURES[finding["measure"]](record, runs)),
            }
        )
    return rows


def _side_by_side(findings: pd.DataFrame) -> pd.DataFrame:
    """One column per run."""
    keys = ["source", "finding", "ours is", "paper"]
    wide = findings.pivot(index=keys, columns="run", values="ours")
    wide = wide.reindex(pd.MultiIndex.from_frame(findings[keys].drop_duplicates()))
    wide = wide[list(dict.fromkeys(findings["run"]))]
    if wide.shape[1] == 1:
        wide.columns = pd.Index(["ours"])
    return wide.rename_axis(columns=None).reset_index()


def _accuracies(record: RunRecord) -> list[dict[str, Any]]:
    config = record.config
    split = next(iter((config.get("eval_args") or {}).get("split") or {"": None}))
    rows = []
    for published in reference()["accuracy"]:
        about = reference()["datasets"][published["dataset"]]
        filtered = about["seen_filtered"]
        if (
            str(config["dataset"]).lower() in about["names"]
            and plain_model(config["model"]) == published["model"]
            and split == published["split"]
        ):
            rows.append(
                {
                    "run": record.label,
                    "source": published["source"],
                    "dataset": published["dataset"],
                    "split": SPLITS[split],
                    "paper filters seen items": "yes" if filtered else "no",
                    "ours filters seen items": "yes" if config.get("filter_seen") else "no",
                    "paper NDCG@10": published["ndcg"],
                    **_ours(record, "ndcg@10").columns("our NDCG@10"),
                    "paper HR@10": published.get("hit"),
                    **_ours(record, "hit@10").columns("our HR@10"),
                }
            )
    return rows


def _ours(record: RunRecord, key: str) -> Measured:
    """A metric of the test data; NaN if the run does not have it."""
    return of_test(record, key) or Measured(nan)
