"""The alpha that validation chooses, and what it gives on the test data."""

from __future__ import annotations

import pandas as pd

from recbole_residual.report.intervals import with_intervals
from recbole_residual.report.metric_names import renamed
from recbole_residual.report.plot import Plot, drawing
from recbole_residual.report.record import RunRecord
from recbole_residual.report.runs import (
    Runs,
    chosen_alpha,
    oracle_alpha,
    probe_frame,
    samples_of_choice,
)
from recbole_residual.report.section import Section
from recbole_residual.report.table import Table


def selection_section(runs: Runs) -> Section:
    """The choice by epsilon, the oracle beside it."""
    chosen = [record for record in runs.records if chosen_alpha(record) is not None]
    k = chosen[0].probes["alpha_selection"].about["k"] if chosen else 10
    chosen = [record for record in chosen if record.probes["alpha_selection"].about["k"] == k]
    text = (
        "Alpha is chosen on validation: the highest RecoveryRate among those that keep "
        f"(1 - epsilon) of HR@{k}. The test data is read once, afterwards; the oracle applies the "
        "same rule to the test data, for comparison only."
    )
    for record in chosen:
        about = record.probes["alpha_selection"].about
        text += (
            f" {record.label}: alpha = {about['alpha']:g} at epsilon = {about['epsilon']:g} "
            f"({about['reason']})."
        )
    missing = runs.missing("alpha_selection")
    frame = runs.joined(_selection)
    table = Table(
        "alpha_selection",
        "Chosen alpha by epsilon",
        frame,
        runs.probe_command("alpha_selection"),
        shown=None if frame is None else _shown(frame, k),
        notes=[*runs.notes("alpha_selection"), *runs.absent(_selection, "alpha_selection")],
        missing=missing,
    )
    tables = [table, _samples_table(Runs(chosen), table.command, missing)]
    plots = _selection_plots(Runs(chosen), k, table.command, missing)
    return Section("selection", "Choosing alpha", text, tables, plots)


def _samples_table(runs: Runs, command: str, missing: str) -> Table:
    """How often each alpha is chosen over samples of the validation users."""
    frame = runs.joined(_over_samples)
    marked = []
    if frame is not None and not runs.several:
        marked = _chosen_rows(frame, chosen_alpha(runs.records[0]))
    return Table(
        "alpha_selection_bootstrap",
        "Share of 1,000 bootstrap samples of the validation users in which an alpha is chosen",
        frame,
        command,
        notes=runs.absent(_over_samples, "alpha_selection"),
        marked=marked,
        folded=runs.several,
        missing=missing,
    )


def _over_samples(record: RunRecord) -> pd.DataFrame | None:
    """Alphas down, the nearest to 1 first, epsilons across; 0 for an alpha that is not chosen."""
    frame = samples_of_choice(record)
    if frame is None:
        return None
    wide = frame.pivot(index="alpha", columns="epsilon", values="share").fillna(0.0)
    wide = wide.sort_index(ascending=False)
    wide.columns = pd.Index([f"epsilon = {epsilon:g}" for epsilon in wide.columns])
    return wide.reset_index()


def _chosen_rows(frame: pd.DataFrame, alpha: float | None) -> list[int]:
    return [row for row, of_row in enumerate(frame["alpha"]) if of_row == alpha]


def _selection_plots(runs: Runs, k: int, command: str, missing: str) -> list[Plot]:
    chosen = {record.label: chosen_alpha(record) for record in runs.records}
    oracle = {record.label: oracle_alpha(record) for record in runs.records}
    sweeps, tables = runs.series(_test_sweep), runs.series(_selection)
    return [
        Plot(
            "recovery_accuracy",
            "Recovery against accuracy",
            "One point per alpha, which is the number beside it, on the test data.",
            command,
            drawing("recovery_against_accuracy", sweeps, chosen, oracle, k) if chosen else None,
            missing,
        ),
        Plot(
            "outcome_epsilon",
            "Outcome against epsilon",
            "What is recovered and what is kept, as more accuracy may be given up.",
            command,
            drawing("outcome_against_epsilon", tables, k) if chosen else None,
            missing,
        ),
    ]


def _selection(record: RunRecord) -> pd.DataFrame | None:
    frame = probe_frame(record, "alpha_selection")
    if frame is None or frame["alpha"].isna().all():
        return None
    return with_intervals(frame, record.n_sequences("test"))


def _test_sweep(record: RunRecord) -> pd.DataFrame | None:
    return probe_frame(record, "alpha_selection", "alpha_selection_test_sweep")


def _shown(frame: pd.DataFrame, k: int) -> pd.DataFrame:
    names = {
        "run": "run",
        "epsilon": "epsilon",
        "alpha": "alpha",
        f"test_hit@{k}": f"HR@{k}",
        f"test_recoveryrate@{k}": f"RecoveryRate@{k}",
        "test_hrli@1": "HRLI@1",
        "oracle_alpha": "oracle alpha",
        f"oracle_hit@{k}": f"oracle HR@{k}",
        f"oracle_recoveryrate@{k}": f"oracle RecoveryRate@{k}",
        f"unscaled_hit@{k}": f"unchanged HR@{k}",
    }
    return renamed(frame, names)
