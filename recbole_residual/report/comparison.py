"""Several runs side by side: tables, tests across users, and the figures laid over each other."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any, Union

import numpy as np
import pandas as pd

from recbole_residual.errors import ConfigError
from recbole_residual.report.page import Report
from recbole_residual.report.record import PROGRAM, RunRecord
from recbole_residual.report.runs import main_k
from recbole_residual.report.section import Section
from recbole_residual.report.sections.all import build_sections
from recbole_residual.report.table import Table

TERMINAL = ("runs", "over_seeds", "paired_tests")

_NOT_THE_MODEL = frozenset(
    # Where and how much was computed, not what.
    [
        "output_dir",
        "checkpoint_dir",
        "data_path",
        "gpu_id",
        "use_gpu",
        "show_progress",
        "state",
        "worker",
        "probe",
        "report",
        "latex",
        "export_per_user",
        "metrics",
        "topk",
        "eval_batch_size",
        "strict_config",
    ]
)


def compare(folders: Sequence[Union[str, os.PathLike[str]]]) -> Report:
    """Lay several runs beside each other.

    Runs that differ in nothing but their seed are one configuration, of which mean and standard
    deviation are given. Configurations on the same dataset are compared by paired tests across
    users, where the runs kept values per user (``export_per_user: True``).

    Args:
        folders: the folders of at least two runs.

    Raises:
        ConfigError: if one is no run's, or there are fewer than two, or one is given twice.

    Example:
        >>> page = compare(["output/run-a", "output/run-b"])  # doctest: +SKIP
        >>> page.tables["paired_tests"], page.save("output/comparison")  # doctest: +SKIP
    """
    read = [RunRecord.read(folder) for folder in folders]
    if len(read) < 2:
        raise ConfigError("a comparison takes at least two runs: --runs FOLDER FOLDER ...")
    if len({record.folder for record in read}) < len(read):
        raise ConfigError("the same run is given twice.")
    records = _labelled(read)
    groups = _groups(records)
    command = f"{PROGRAM} --mode=compare --runs " + " ".join(
        shlex.quote(str(record.folder)) for record in records
    )
    sections = [
        Section(
            "runs",
            "Runs",
            "Test data, at the residual factor of each run.",
            [Table("runs", "Side by side", _runs_table(records), command)],
        ),
        Section(
            "seeds",
            "Over seeds",
            "Mean and standard deviation (of the sample) over runs that differ only in their seed.",
            [_seeds_table(groups, command)],
        ),
        Section(
            "tests",
            "Paired tests across users",
            "Each user's value under one configuration against the same user's under the other, "
            "averaged over seeds first. p-values of the paired t-test and of Wilcoxon's "
            "signed-rank test, two-sided, not corrected for the number of comparisons.",
            [_tests_table(groups, command)],
        ),
        *build_sections(records),
    ]
    subtitle = f"{len(records)} runs of {len(groups)} configurations"
    return Report("Comparison", subtitle, sections, shown=TERMINAL)


# Labels and groups -----------------------------------------------------------------------------


def _labelled(records: Sequence[RunRecord]) -> list[RunRecord]:
    """Name each run by model, dataset and whatever else tells it from the others."""
    labels = [_label(record, records, with_seed=True) for record in records]
    return [
        replace(
            record,
            label=label if labels.count(label) == 1 else f"{label} ({record.folder.name})",
        )
        for record, label in zip(records, labels)
    ]


def _label(record: RunRecord, records: Sequence[RunRecord], with_seed: bool) -> str:
    alike = [
        other
        for other in records
        if all(other.config[key] == record.config[key] for key in ("model", "dataset"))
    ]
    parts = [record.config["model"], record.config["dataset"]]
    for key in sorted(record.config):
        values = [other.config.get(key) for other in alike]
        if key in _NOT_THE_MODEL or (key == "seed" and not with_seed):
            continue
        if any(value != values[0] for value in values):
            parts.append(f"{key} {record.config[key]}")
    return ", ".join(map(str, parts))


def _groups(records: Sequence[RunRecord]) -> dict[str, list[RunRecord]]:
    """Runs that differ in nothing but their seed, by what they have in common."""
    groups: dict[str, list[RunRecord]] = {}
    for record in records:
        groups.setdefault(_label(record, records, with_seed=False), []).append(record)
    return groups


# Tables ----------------------------------------------------------------------------------------


def _k(records: Sequence[RunRecord]) -> int:
    """The cut-off that all runs have."""
    results = [record.result["test_result"] for record in records if record.result]
    keys = [
        key for key in (results[0] if results else {}) if all(key in other for other in results)
    ]
    return main_k([key for key in keys if key.startswith("hit@")] or ["hit@10"])


def _values(record: RunRecord, k: int) -> dict[str, float | None]:
    found = record.result.get("test_result_unrounded") or record.result.get("test_result") or {}
    names = {
        f"hit@{k}": f"HR@{k}",
        f"ndcg@{k}": f"NDCG@{k}",
        "hrli@1": "HRLI@1",
        "hrl2i@1": "HRL2I@1",
        "mixingratio_attn": "mixing attn",
        "mixingratio_res": "mixing res",
        "mixingratio_ln": "mixing ln",
        "mixingratio_gate": "mixing gate",
    }
    return {new: found[old] for old, new in names.items() if old in found}


def _runs_table(records: Sequence[RunRecord]) -> pd.DataFrame | None:
    k = _k(records)
    rows = [
        {
            "run": record.label,
            "seed": record.config.get("seed"),
            "epochs": record.result.get("epochs_trained"),
            **_values(record, k),
        }
        for record in records
        if record.result
    ]
    return pd.DataFrame(rows) if rows else None


def _seeds_table(groups: Mapping[str, Sequence[RunRecord]], command: str) -> Table:
    k = _k([record for group in groups.values() for record in group])
    rows, shown = [], []
    for label, group in groups.items():
        values = pd.DataFrame([_values(record, k) for record in group if record.result])
        row: dict[str, Any] = {"configuration": label, "runs": len(values)}
        text = dict(row)
        for name in values:
            mean, std = values[name].mean(), values[name].std(ddof=1)
            row[f"{name} mean"], row[f"{name} std"] = mean, std
            # Blanks that do not break keep the two numbers on one line.
            text[str(name)] = f"{mean:.4f}" if len(values) < 2 else f"{mean:.4f}\xa0±\xa0{std:.4f}"
        rows.append(row)
        shown.append(text)
    return Table(
        "over_seeds",
        "Mean ± standard deviation",
        pd.DataFrame(rows),
        command,
        shown=pd.DataFrame(shown).fillna("n/a"),
    )


def _tests_table(groups: Mapping[str, Sequence[RunRecord]], command: str) -> Table:
    k = _k([record for group in groups.values() for record in group])
    metrics = {f"ndcg@{k}": f"NDCG@{k}", f"hit@{k}": f"HR@{k}", "hrli@1": "HRLI@1"}
    notes, rows = [], []
    tables = {}
    for label, group in groups.items():
        table = _values_per_user(group)
        if table is None:
            notes.append(f"not run for {label}: no values per user (--export_per_user=True).")
        else:
            tables[label] = table
    for first, second in combinations(tables, 2):
        datasets = [groups[label][0].config["dataset"] for label in (first, second)]
        if datasets[0] == datasets[1]:
            for metric, name in metrics.items():
                found = paired_test(tables[first], tables[second], metric)
                if found is not None:
                    rows.append({"a": first, "b": second, "metric": name, **found})
    if len(groups) < 2:
        notes.append("There is one configuration only: nothing to test it against.")
    elif not rows and len(tables) > 1:
        notes.append("No two configurations share test users and targets.")
    frame = pd.DataFrame(rows) if rows else None
    return Table("paired_tests", "Difference a - b", frame, command, notes=notes)


def _values_per_user(group: Sequence[RunRecord]) -> pd.DataFrame | None:
    """Mean over the runs of a configuration, by user and target; None unless all have them."""
    tables = []
    for record in group:
        table = record.per_user()
        if table is None:
            return None
        index = pd.MultiIndex.from_arrays([table.index.astype(str), table["target"].astype(str)])
        tables.append(table.drop(columns=["target"]).set_axis(index))
    return pd.concat(tables).groupby(level=[0, 1]).mean()


def paired_test(first: pd.DataFrame, second: pd.DataFrame, metric: str) -> dict[str, Any] | None:
    """Test whether a metric differs between two tables of values per user.

    Args:
        first, second: one row per user and target.
        metric: a column; users for whom it is not defined in both are left out.

    Returns:
        ``users``, ``mean a``, ``mean b``, ``difference``, ``p (t)``, ``p (Wilcoxon)``; None if a
        table lacks the metric or no user is in both. The p-values are NaN where the difference is
        the same for every user.
    """
    from scipy import stats

    if metric not in first or metric not in second:
        return None
    both = pd.concat([first[metric], second[metric]], axis=1, join="inner").dropna().to_numpy()
    if not len(both):
        return None
    a, b = both.T
    result: dict[str, Any] = {
        "users": len(both),
        "mean a": float(a.mean()),
        "mean b": float(b.mean()),
        "difference": float((a - b).mean()),
        "p (t)": float("nan"),
        "p (Wilcoxon)": float("nan"),
    }
    if np.ptp(a - b) > 0:
        result["p (t)"] = float(stats.ttest_rel(a, b).pvalue)
        result["p (Wilcoxon)"] = float(stats.wilcoxon(a, b).pvalue)
    return result
