"""What came out of the trials, as tables."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from tabulate import tabulate

from recbole_residual.tune.folder import FAILED, FINISHED, STOPPED, Manifest, TrialDefinition

WAITING, RUNNING, DIED = "waiting", "running", "died"
"""Where a trial is that has not ended; ``died``: its process did, more often than is tried."""

CHANGING = ("seconds", "node", "process")
"""Columns that differ from one execution of the same trials to the next."""


def results_table(
    manifest: Manifest,
    outcomes: Mapping[str, Mapping[str, Any]],
    others: Mapping[str, Mapping[str, Any]],
) -> pd.DataFrame:
    """One row per trial, in the order of the plan.

    Columns: ``trial``, ``status``, ``model``, ``dataset``, the searched keys, ``seed``,
    ``epochs_trained``, ``best_epoch``, ``best_valid_score``, ``valid_METRIC`` (at alpha_train),
    ``alpha`` and ``alpha_per_layer`` with ``..._valid_METRIC``, where the test data was read
    ``test_METRIC`` and ``alpha_test_METRIC``, ``seconds``, ``node``, ``process``, ``error``.

    Args:
        manifest: of the run.
        outcomes: of the trials that have ended, by key.
        others: of the others: ``status`` and what else is known.
    """
    epsilon = float(manifest.space["alpha_search"]["epsilon"])
    rows = []
    for trial in manifest.trials:
        outcome = outcomes.get(trial.key) or others.get(trial.key) or {"status": WAITING}
        rows.append(_row(trial, outcome, epsilon))
    always = ["trial", "status", "model", "dataset", "error"]  # before the first suggestion, too
    columns = list(dict.fromkeys([*(name for row in rows for name in row), *always]))
    last = [name for name in (*CHANGING, "error") if name in columns]
    return pd.DataFrame(rows, columns=[*(name for name in columns if name not in last), *last])


def _row(trial: TrialDefinition, outcome: Mapping[str, Any], epsilon: float) -> dict[str, Any]:
    row: dict[str, Any] = {
        "trial": trial.key,
        "status": outcome["status"],
        "model": trial.model,
        "dataset": trial.dataset,
    }
    row.update({key: _cell(value) for key, value in trial.point.items() if key not in row})
    for name in ("seed", "epochs_trained", "best_epoch", "best_valid_score"):
        if name in outcome:
            row.setdefault(name, outcome[name])
    row.update(_prefixed("valid_", outcome.get("best_valid_result")))
    row.update(_prefixed("test_", outcome.get("test_result")))
    for answer in outcome.get("alpha", ()):
        if answer["epsilon"] == epsilon:
            name = "alpha" if answer["scope"] == "global" else "alpha_per_layer"
            row[name] = answer["alpha"]
            figures = {k: v for k, v in answer.items() if k not in ("scope", "epsilon", "alpha")}
            row.update(_prefixed(f"{name}_", figures))
    for name in (*CHANGING, "error"):
        if name in outcome:
            row[name] = outcome[name]
    row.setdefault("error", None)
    return row


def _prefixed(prefix: str, values: Mapping[str, Any] | None) -> dict[str, Any]:
    return {f"{prefix}{name}": value for name, value in (values or {}).items()}


def _cell(value: Any) -> Any:
    return value if isinstance(value, (int, float, str, bool)) or value is None else str(value)


def alpha_table(manifest: Manifest, outcomes: Mapping[str, Mapping[str, Any]]) -> pd.DataFrame:
    """One row per trial, scope (``global``, ``per_layer``) and epsilon."""
    rows = [
        {
            "trial": trial.key,
            "model": trial.model,
            "dataset": trial.dataset,
            "seed": outcomes[trial.key].get("seed"),
            **answer,
        }
        for trial in manifest.trials
        if trial.key in outcomes
        for answer in outcomes[trial.key].get("alpha", ())
    ]
    return pd.DataFrame(rows, columns=list(dict.fromkeys(name for row in rows for name in row)))


def summary_table(results: pd.DataFrame) -> pd.DataFrame:
    """Mean and standard deviation over seeds, one row per dataset and model.

    Args:
        results: of a benchmark, from :func:`results_table`.

    Returns:
        ``dataset``, ``model``, ``seeds`` (how many), and for every test figure ``..._mean`` and
        ``..._std`` (n - 1; empty for one seed).
    """
    done = results[results["status"] == FINISHED]
    figures = [
        name
        for name in results.columns
        if name.startswith(("test_", "alpha_test_", "alpha_per_layer_test_", "alpha_unscaled_"))
    ]
    rows = []
    for (dataset, model), of_one in done.groupby(["dataset", "model"], sort=False):
        row: dict[str, Any] = {"dataset": dataset, "model": model, "seeds": len(of_one)}
        for name in figures:
            values = pd.to_numeric(of_one[name])
            row[f"{name}_mean"], row[f"{name}_std"] = values.mean(), values.std()
        rows.append(row)
    return pd.DataFrame(rows)


def best_trials(manifest: Manifest, outcomes: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """The key of the best trial on each dataset, by the validation metric; of equals the first."""
    best: dict[str, str] = {}
    for trial in manifest.trials:
        outcome = outcomes.get(trial.key)
        if outcome is None or outcome["status"] == FAILED:
            continue
        holder = best.get(trial.dataset)
        sign = 1 if manifest.bigger else -1
        score = sign * outcome["best_valid_score"]
        if holder is None or score > sign * outcomes[holder]["best_valid_score"]:
            best[trial.dataset] = trial.key
    return best


def to_csv(frame: pd.DataFrame) -> str:
    """Text of a csv file in which every row is one line."""
    text = io.StringIO()
    frame.replace(r"\s*\n\s*", " ", regex=True).to_csv(
        text, index=False, lineterminator="\n", quoting=csv.QUOTE_MINIMAL
    )
    return text.getvalue()


def short_table(
    results: pd.DataFrame, metric: str, searched: Sequence[str] = (), most: int = 15
) -> pd.DataFrame:
    """What a terminal shows: running trials, failed ones, and the best of those that ended.

    Args:
        results: from :func:`results_table`.
        metric: the validation metric.
        searched: the configuration keys that the search sets; all of them are shown.
        most: number of rows.
    """
    wanted = ("model", "dataset", *searched, "seed")
    keys = [name for name in dict.fromkeys(wanted) if name in results.columns]
    order = {RUNNING: 0, DIED: 1, FAILED: 1}
    rank = results["status"].map(lambda status: order.get(status, 2))
    shown = results.assign(rank=rank)[results["status"] != WAITING]
    by = ["rank"]
    if "best_valid_score" in shown:
        by.append("best_valid_score")
    shown = shown.sort_values(by, ascending=[True, False][: len(by)], kind="stable").head(most)
    test = f"test_{metric.lower()}"
    columns = ["trial", "status", *keys, "epochs_trained", "best_valid_score", "alpha", test]
    columns = [name for name in columns if name in shown]
    names = {"best_valid_score": f"valid {metric}", "epochs_trained": "epoch"}
    table = shown[columns].rename(columns={**names, test: f"test {metric}"})
    if shown["error"].notna().any():
        table["error"] = [
            str(error)[:60] if isinstance(error, str) else "" for error in shown["error"]
        ]
    return table


def in_text(frame: pd.DataFrame) -> str:
    """A table for a terminal; nothing where there is no value."""
    rows = [["" if pd.isna(cell) else cell for cell in row] for row in frame.to_numpy(dtype=object)]
    return tabulate(rows, headers=list(frame.columns), floatfmt=".4g")


def cell_text(cell: Any) -> str:
    """One cell: nothing where there is no value, four digits of a number."""
    if pd.isna(cell):
        return ""
    return f"{cell:.4g}" if isinstance(cell, float) else str(cell)


def states(results: pd.DataFrame) -> str:
    """How many trials are in which state."""
    counts = results["status"].value_counts()
    named: Sequence[str] = (FINISHED, STOPPED, FAILED, DIED, RUNNING, WAITING)
    return ", ".join(f"{counts[name]} {name}" for name in named if name in counts)
