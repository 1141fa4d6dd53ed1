"""Every metric as the residual is scaled, without retraining."""

from __future__ import annotations

import pandas as pd

from recbole_residual.report.intervals import with_intervals
from recbole_residual.report.metric_names import MIXING, main_k, renamed
from recbole_residual.report.plot import Plot, drawing
from recbole_residual.report.record import RunRecord
from recbole_residual.report.runs import Runs, chosen_alpha, oracle_alpha, sweep_of
from recbole_residual.report.section import Section
from recbole_residual.report.sections.learned_alpha import learned_alpha
from recbole_residual.report.table import NOT_DEFINED, NOT_RUN, Table

_CALLED = {"hit": "HR", "ndcg": "NDCG", "hrli": "HRLI", "recoveryrate": "RecoveryRate"}


def alpha_section(runs: Runs) -> Section:
    """The sweep over alpha, and those by layer and around the feed-forward blocks if there are
    any."""
    tables = [_sweep_table(runs)]
    for probe, title in (
        ("layer_grid", "One alpha per layer, every combination"),
        ("feed_forward_sweep", "The residual around the feed-forward blocks scaled instead"),
    ):
        if any(probe in record.probes for record in runs.records):
            tables.append(runs.probe_table(probe, title, shown=_short_grid, folded=True))
    plots = _sweep_plots(runs, missing=NOT_RUN if tables[0].frame is None else NOT_DEFINED)
    text = "z = alpha x + attention(x): alpha = 1 is the usual residual."
    learned_tables, learned_plots = learned_alpha(runs)
    tables, plots = [*tables, *learned_tables], [*plots, *learned_plots]
    return Section("alpha", "Alpha sweep", text, tables, plots)


def _sweep_table(runs: Runs) -> Table:
    frame = runs.joined(_marked_sweep)
    notes = [*runs.notes("alpha_sweep"), *runs.absent(sweep_of, "alpha_sweep", "alpha_selection")]
    for record in runs.records:
        if "alpha_selection" not in record.probes:
            of_run = f" for {record.label}" if runs.several else ""
            command = record.probe_command("alpha_selection")
            notes.append(f"alpha chosen on validation: {NOT_RUN}{of_run} ({command})")
    return Table(
        "alpha_sweep",
        "Every metric as the residual is scaled, without retraining (test data)",
        frame,
        runs.probe_command("alpha_sweep"),
        shown=None if frame is None else _short_sweep(frame, runs.last),
        notes=notes,
        marked=() if frame is None else _chosen_rows(frame),
    )


def _sweep_plots(runs: Runs, missing: str) -> list[Plot]:
    sweeps = runs.series(_scaled_sweep)
    k = min((main_k(list(sweep.columns)) for sweep in sweeps.values()), default=10)
    command = runs.probe_command("alpha_sweep")
    return [
        Plot(
            "alpha_curves",
            "Alpha against mixing ratio and HRLI@1",
            "In the papers, turning the residual down raises the mixing ratio and lowers HRLI. "
            "Bands: 95 % interval.",
            command,
            drawing("alpha_curves", sweeps, runs.last) if sweeps else None,
            missing,
        ),
        Plot(
            "hrli_accuracy",
            "HRLI against accuracy",
            "One point per alpha, which is the number beside it.",
            command,
            drawing("hrli_against_accuracy", sweeps, f"ndcg@{k}", f"NDCG@{k}") if sweeps else None,
            missing,
        ),
    ]


def _scaled_sweep(record: RunRecord) -> pd.DataFrame | None:
    """The sweep of a run if there is something to scale."""
    frame = sweep_of(record)
    if frame is None or "alpha" not in frame:
        return None
    return with_intervals(frame, record.n_sequences("test"))


def _marked_sweep(record: RunRecord) -> pd.DataFrame | None:
    """The sweep with a column that says which row is what."""
    sweep = sweep_of(record)
    if sweep is None or "alpha" not in sweep:
        return sweep
    chosen = chosen_alpha(record)
    in_force = record.result.get("alpha")

    def remark(alpha: float) -> str:
        remarks = []
        if alpha == chosen:
            remarks.append("chosen on validation")
        if chosen is not None and alpha == oracle_alpha(record):
            remarks.append("test oracle")
        if in_force and all(value == alpha for value in in_force):
            remarks.append("this run")
        return ", ".join(remarks)

    sweep = with_intervals(sweep, record.n_sequences("test"))
    return sweep.assign(remark=sweep["alpha"].map(remark))


def _short_sweep(frame: pd.DataFrame, last: str) -> pd.DataFrame:
    k = main_k(list(frame.columns))
    names = {
        "run": "run",
        "alpha": "alpha",
        "remark": "remark",
        f"hit@{k}": f"HR@{k}",
        f"ndcg@{k}": f"NDCG@{k}",
        "hrli@1": "HRLI@1",
        **MIXING,
        "mixingratio_res_last": f"mixing res, {last} position",
        f"recoveryrate@{k}": f"RecoveryRate@{k}",
        f"recoverybase@{k}": f"recoverable base@{k}",
    }
    bases = frame[f"recoverybase@{k}"].unique()
    if len(bases) == 1:  # as it is for one run: a column of its own would say it row after row
        del names[f"recoverybase@{k}"]
        names[f"recoveryrate@{k}"] += f" (of {int(bases[0]):,} sequences)"
    return renamed(frame, names)


def _chosen_rows(frame: pd.DataFrame) -> list[int]:
    if "remark" not in frame:
        return []
    chosen = frame["remark"].str.startswith("chosen").to_numpy()
    return [int(row) for row in chosen.nonzero()[0]]


def _short_grid(frame: pd.DataFrame) -> pd.DataFrame:
    k = main_k(list(frame.columns))
    kept = (f"hit@{k}", f"ndcg@{k}", "hrli@1", "mixingratio_res", f"recoveryrate@{k}")
    names = {}
    for name in map(str, frame):
        if name == "run" or name.startswith(("alpha", "feed_forward")):
            names[name] = name
        elif name in kept:
            metric, at, cutoff = name.partition("@")
            names[name] = MIXING.get(name, f"{_CALLED.get(metric, metric)}{at}{cutoff}")
    return renamed(frame, names)
