"""What the papers report, with ours beside it."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from importlib import resources
from typing import Any

import numpy as np
import pandas as pd
import yaml

from recbole_residual.report.record import RunRecord
from recbole_residual.report.runs import Runs, chosen_alpha, oracle_alpha, probe_frame, sweep_of
from recbole_residual.report.section import Section
from recbole_residual.report.table import NOT_RUN, UNDEFINED, Table

SPLITS = {"LS": "leave-one-out", "GT": "global temporal"}


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


def papers_section(runs: Runs) -> Section:
    """Findings and accuracies of the papers, and what these runs give."""
    sources = "; ".join(f"{key}: {text}" for key, text in reference()["sources"].items())
    speaks = [record for record in runs.records if plain_model(record.config["model"]) == "SASRec"]
    notes = []
    others = [record.label for record in runs.records if record not in speaks]
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
                notes=["Published with seen items filtered (here: filter_seen) and tuned sizes."],
                missing="no published number for this dataset, model and split",
            ),
        ],
    )


# Findings --------------------------------------------------------------------------------------


def _test(record: RunRecord, key: str) -> float | None:
    return record.result.get("test_result_unrounded", {}).get(key)


def _difference(first: float | None, second: float | None) -> float | None:
    return None if first is None or second is None else first - second


def _position_spread(record: RunRecord) -> float | None:
    ratios = probe_frame(record, "internals")
    if ratios is None:
        return None
    if record.predicts_at_mask:
        return float("nan")
    chosen = (ratios["stage"] == "res") & (ratios["layer"] == "all") & (ratios["position"] != "all")
    values = ratios.loc[chosen, "mean"]
    return float(values.max() - values.min()) if len(values) else None


def _correlation(record: RunRecord, column: str) -> float | None:
    frame = sweep_of(record)
    if frame is None or "alpha" not in frame or column not in frame:
        return None
    alpha, values = frame["alpha"].rank(), frame[column].rank()
    return float(alpha.corr(values)) if values.nunique() > 1 else float("nan")


def _recovery(record: RunRecord) -> float | None:
    frame = sweep_of(record)
    if frame is None or "alpha" not in frame or "recoveryrate@10" not in frame:
        return None
    near = frame["alpha"].between(0.1 - 1e-9, 0.3 + 1e-9)
    return float(frame.loc[near, "recoveryrate@10"].max())


def _chosen_minus_oracle(record: RunRecord) -> float | None:
    chosen, frame = chosen_alpha(record), sweep_of(record)
    if chosen is None or frame is None:
        return None
    k = record.probes["alpha_selection"].about["k"]
    rate = frame.set_index("alpha")[f"recoveryrate@{k}"]
    return float(rate[chosen] - rate[oracle_alpha(record)])


def _uniform_minus_learned(record: RunRecord, runs: Runs) -> float | None:
    if record.config["model"] != "SASRecUniform":
        return None
    ignored = {"model", "attention", "output_dir", "checkpoint_dir"}
    for other in runs.records:
        same = all(
            record.config.get(key) == value
            for key, value in other.config.items()
            if key not in ignored
        )
        if other.config["model"] == "SASRecResidual" and same:
            return _difference(_test(record, "ndcg@10"), _test(other, "ndcg@10"))
    return None


_MEASURES: dict[str, Callable[[RunRecord, Runs], float | None]] = {
    "mixing_attn": lambda record, runs: _test(record, "mixingratio_attn"),
    "mixing_res": lambda record, runs: _test(record, "mixingratio_res"),
    "ln_minus_res": lambda record, runs: _difference(
        _test(record, "mixingratio_ln"), _test(record, "mixingratio_res")
    ),
    "position_spread": lambda record, runs: _position_spread(record),
    "alpha_mixing": lambda record, runs: _correlation(record, "mixingratio_res"),
    "alpha_hrli": lambda record, runs: _correlation(record, "hrli@1"),
    "recovery": lambda record, runs: _recovery(record),
    "chosen_minus_oracle": lambda record, runs: _chosen_minus_oracle(record),
    "uniform_minus_learned": _uniform_minus_learned,
}


def _findings(record: RunRecord, runs: Runs) -> list[dict[str, Any]]:
    rows = []
    for finding in reference()["findings"]:
        ours = _MEASURES[finding["measure"]](record, runs)
        low, high = finding.get("low"), finding.get("high")
        text = NOT_RUN if ours is None else UNDEFINED if np.isnan(ours) else f"{ours:.4f}"
        if low is not None and ours is not None and not np.isnan(ours):
            text += ", within" if low <= ours <= high else ", outside"
        rows.append(
            {
                "run": record.label,
                "source": finding["source"],
                "finding": finding["statement"],
                "ours is": finding["ours"],
                "paper": "in words" if low is None else f"{low:g} to {high:g}",
                "ours": text,
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


# Accuracy --------------------------------------------------------------------------------------


def _accuracies(record: RunRecord) -> list[dict[str, Any]]:
    config = record.config
    split = next(iter((config.get("eval_args") or {}).get("split") or {"": None}))
    rows = []
    for published in reference()["accuracy"]:
        names = reference()["datasets"][published["dataset"]]
        if (
            str(config["dataset"]).lower() in names
            and plain_model(config["model"]) == published["model"]
            and split == published["split"]
        ):
            rows.append(
                {
                    "run": record.label,
                    "source": published["source"],
                    "dataset": published["dataset"],
                    "split": SPLITS[split],
                    "filter_seen": str(bool(config.get("filter_seen"))),
                    "paper NDCG@10": published["ndcg"],
                    "our NDCG@10": _test(record, "ndcg@10"),
                    "paper HR@10": published.get("hit"),
                    "our HR@10": _test(record, "hit@10"),
                }
            )
    return rows
