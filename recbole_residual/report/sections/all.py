"""The sections of a report on one run, or on several side by side."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pandas as pd

from recbole_residual.probe.engine.one_by_one import MASK_NOTE
from recbole_residual.report.papers import papers_section
from recbole_residual.report.record import RunRecord
from recbole_residual.report.runs import (
    Runs,
    chosen_alpha,
    main_k,
    oracle_alpha,
    probe_frame,
    sweep_of,
)
from recbole_residual.report.section import Plot, Section
from recbole_residual.report.table import NOT_DEFINED, NOT_RUN, Table

ACCURACY = {
    "hit": "HR",
    "recall": "Recall",
    "ndcg": "NDCG",
    "mrr": "MRR",
    "precision": "Precision",
    "map": "MAP",
}
"""RecBole's names of the usual accuracy metrics, and the field's."""

LAST_ITEM = {"hrli": "HRLI", "hrl2i": "HRL2I"}

_OWN = ("hrli", "hrl2i", "mixingratio", "recovery")


def build_sections(records: Sequence[RunRecord]) -> list[Section]:
    """Everything there is to say about some runs.

    Args:
        records: one run, or several to lay over each other.
    """
    runs = Runs(records)
    return [
        _dataset(runs),
        _accuracy(runs),
        _last_item(runs),
        _mixing(runs),
        _maps(runs),
        _alpha(runs),
        _selection(runs),
        _positions(runs),
        _shuffles(runs),
        _reliance(runs),
        papers_section(runs),
        _configuration(runs),
    ]


def _renamed(frame: pd.DataFrame, names: dict[str, str]) -> pd.DataFrame:
    """The columns of ``names`` that are there, under their new names."""
    there = {old: new for old, new in names.items() if old in frame}
    return frame[list(there)].rename(columns=there)


# Result ----------------------------------------------------------------------------------------


def _dataset(runs: Runs) -> Section:
    def of(record: RunRecord) -> pd.DataFrame | None:
        statistics = record.result.get("dataset_statistics")
        if not statistics:
            return None
        return pd.DataFrame([{"dataset": record.config["dataset"], **statistics}])

    table = Table("dataset", "After preprocessing", runs.joined(of), runs.result_command)
    text = "What the model was trained and tested on."
    sources = list(dict.fromkeys(record.result.get("data_source", "") for record in runs.records))
    if any(sources):
        text += f" Read from {'; '.join(filter(None, sources))}."
    return Section("dataset", "Dataset", text, [table])


def _results(record: RunRecord) -> dict[str, dict[str, float]]:
    """Validation and test values, unrounded where they were kept."""
    found = {}
    for part, key in (("validation", "valid_result"), ("test", "test_result")):
        values = record.result.get(f"{key}_unrounded") or record.result.get(key)
        if values:
            found[part] = values
    return found


def _by_cutoff(record: RunRecord, names: Callable[[str], str | None]) -> pd.DataFrame | None:
    """Metrics down, cut-offs across."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for part, values in _results(record).items():
        for key, value in values.items():
            metric, _, k = key.partition("@")
            name = names(metric)
            if name is not None:
                row = rows.setdefault((part, name), {"data": part, "metric": name})
                row[f"@{k}" if k else "value"] = value
    return pd.DataFrame(list(rows.values())) if rows else None


def _accuracy(runs: Runs) -> Section:
    def name(metric: str) -> str | None:
        return None if metric.startswith(_OWN) else ACCURACY.get(metric, metric)

    table = Table(
        "accuracy",
        "Ranking of the target in the whole catalogue",
        runs.joined(lambda record: _by_cutoff(record, name)),
        runs.result_command,
        folded=runs.several,
        notes=[note for record in runs.records for note in record.result.get("notes", [])],
    )
    return Section("accuracy", "Accuracy", "At the residual factor in force.", [table])


def _last_item(runs: Runs) -> Section:
    def ranks(record: RunRecord) -> pd.DataFrame | None:
        return probe_frame(record, "internals", "internals_ranks")

    notes = []
    for record in runs.records:
        left_out = {
            LAST_ITEM[key]: n for key, n in record.result.get("test_left_out", {}).items() if n
        }
        if left_out:
            told = ", ".join(f"{n} sequences have no {key}" for key, n in left_out.items())
            notes.append(f"{record.label}: {told} (too short, or cut off by the input window).")
    table = Table(
        "last_item",
        "How often the model ranks an item that it was just given among its top k",
        runs.joined(lambda record: _by_cutoff(record, LAST_ITEM.get)),
        runs.result_command,
        folded=runs.several,
        notes=notes,
    )
    found = runs.series(ranks)
    plot = Plot(
        "last_item_ranks",
        "Distribution of the last item's rank",
        "The more to the left, the more the model leans on the item that it was just given.",
        runs.probe_command("internals"),
        partial(_draw, "rank_distribution", found) if found else None,
        runs.missing("internals"),
    )
    return Section(
        "last-item",
        "Last item",
        "HRLI@k: share of sequences whose last input item is in the top k; HRL2I@k: the same for "
        "the item before it. History is not masked.",
        [table, runs.probe_table("internals", "Ranks", "internals_ranks", folded=True)],
        [plot],
    )


def _draw(name: str, *args: Any) -> Any:
    """Draw a figure; matplotlib is imported only now."""
    from recbole_residual.report import figures

    return getattr(figures, name)(*args)


# Inside the model ------------------------------------------------------------------------------


def _mixing(runs: Runs) -> Section:
    def ratios(record: RunRecord) -> pd.DataFrame | None:
        return probe_frame(record, "internals")

    def shown(frame: pd.DataFrame) -> pd.DataFrame:
        if runs.several:
            frame = frame[frame["layer"] == "all"]
        keys = [name for name in ("run", "layer", "position") if name in frame]
        wide = frame.pivot_table(
            index=keys, columns="stage", values="mean", sort=False, observed=True
        )
        return wide[list(dict.fromkeys(frame["stage"]))].rename_axis(columns=None).reset_index()

    found = runs.series(ratios)
    at_mask = [record.label for record in runs.records if record.predicts_at_mask]
    warning = ""
    if at_mask:
        warning = f"{', '.join(at_mask)}: {MASK_NOTE}"
    plot = Plot(
        "mixing_by_stage",
        "Mixing ratio by stage",
        "What the residual does to what a position takes from others; means over all positions, "
        "whiskers: standard deviation.",
        runs.probe_command("internals"),
        partial(_draw, "ratios_by_stage", found) if found else None,
        runs.missing("internals"),
    )
    return Section(
        "mixing",
        "Mixing ratio",
        "0: a position keeps only itself. 1: it takes everything from others. By stage of the "
        "attention block: attn, the attention sum alone; res, with the residual; ln, after the "
        "LayerNorm. Means over sequences, on the test data.",
        [
            runs.probe_table("internals", "By layer, position and stage", shown=shown),
            Table(
                "mixing_by_split",
                "As the evaluation gives it, over all layers",
                runs.joined(_mixing_of_results),
                runs.result_command,
                folded=True,
            ),
        ],
        [plot],
        warning=warning,
    )


def _mixing_of_results(record: RunRecord) -> pd.DataFrame | None:
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for part, values in _results(record).items():
        for key, value in values.items():
            prefix, _, rest = key.partition("_")
            if prefix == "mixingratio":
                stage, _, where = rest.partition("_last")
                position = "last" if key.endswith("_last") else "all"
                row = rows.setdefault((part, position), {"data": part, "position": position})
                row[stage + where] = value
    return pd.DataFrame(list(rows.values())) if rows else None


def _maps(runs: Runs) -> Section:
    plots = []
    for number, record in enumerate(runs.records, start=1):
        maps = probe_frame(record, "internals", "internals_maps")
        last = "[MASK]" if record.predicts_at_mask else "item"
        suffix = f"_{number}" if runs.several else ""
        plots.append(
            Plot(
                f"maps{suffix}",
                f"{record.label}: who takes from whom, last 15 positions",
                "Averages over test sequences that have both positions; L is the last one. "
                "Contribution: norm of what is taken, after the LayerNorm, the residual on the "
                "diagonal, on a logarithmic scale. Attention: the bare weights, which do not know "
                "of the residual.",
                record.probe_command("internals"),
                None if maps is None else partial(_draw, "heatmaps", maps, last),
                NOT_DEFINED if "internals" in record.probes else NOT_RUN,
            )
        )
    return Section(
        "maps",
        "Contribution and attention",
        "What the norm-based contribution shows and the attention weights do not.",
        [runs.probe_table("internals", "The maps", "internals_maps", folded=True)],
        plots,
    )


# Alpha -----------------------------------------------------------------------------------------


def _scaled_sweep(record: RunRecord) -> pd.DataFrame | None:
    """The same if there is something to scale."""
    frame = sweep_of(record)
    return None if frame is None or "alpha" not in frame else frame


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

    return sweep.assign(remark=sweep["alpha"].map(remark))


def _short_sweep(frame: pd.DataFrame, last: str) -> pd.DataFrame:
    k = main_k(list(frame.columns))
    names = {
        "run": "run",
        "alpha": "alpha",
        f"hit@{k}": f"HR@{k}",
        f"ndcg@{k}": f"NDCG@{k}",
        "hrli@1": "HRLI@1",
        "mixingratio_attn": "mixing attn",
        "mixingratio_res": "mixing res",
        "mixingratio_ln": "mixing ln",
        "mixingratio_res_last": f"res, {last}",
        "mixingratio_gate": "mixing gate",
        f"recoveryrate@{k}": f"RecoveryRate@{k}",
        f"recoverybase@{k}": "of",
        "remark": "remark",
    }
    return _renamed(frame, names)


def _chosen_rows(frame: pd.DataFrame) -> list[int]:
    if "remark" not in frame:
        return []
    chosen = frame["remark"].str.startswith("chosen").to_numpy()
    return [int(row) for row in chosen.nonzero()[0]]


def _alpha(runs: Runs) -> Section:
    frame = runs.joined(_marked_sweep)
    notes = [*runs.notes("alpha_sweep"), *runs.absent(sweep_of)]
    notes += [
        f"alpha chosen on validation: {NOT_RUN}{_for(runs, record)} "
        f"({record.probe_command('alpha_selection')})"
        for record in runs.records
        if "alpha_selection" not in record.probes
    ]
    table = Table(
        "alpha_sweep",
        "Every metric as the residual is scaled, without retraining (test data)",
        frame,
        runs.probe_command("alpha_sweep"),
        shown=None if frame is None else _short_sweep(frame, runs.last),
        notes=notes,
        marked=() if frame is None else _chosen_rows(frame),
    )
    found = runs.series(_scaled_sweep)
    k = min((main_k(list(sweep.columns)) for sweep in found.values()), default=10)
    missing = NOT_RUN if frame is None else NOT_DEFINED
    command = runs.probe_command("alpha_sweep")
    plots = [
        Plot(
            "alpha_curves",
            "Alpha against mixing ratio and HRLI@1",
            "In the papers, turning the residual down raises the mixing ratio and lowers HRLI.",
            command,
            partial(_draw, "alpha_curves", found, runs.last) if found else None,
            missing,
        ),
        Plot(
            "hrli_accuracy",
            "HRLI against accuracy",
            "One point per alpha, which is the number beside it.",
            command,
            partial(_draw, "hrli_against_accuracy", found, f"ndcg@{k}", f"NDCG@{k}")
            if found
            else None,
            missing,
        ),
    ]
    tables = [table]
    for probe, title in (
        ("layer_grid", "One alpha per layer, every combination"),
        ("feed_forward_sweep", "The residual around the feed-forward blocks scaled instead"),
    ):
        if any(probe in record.probes for record in runs.records):
            tables.append(runs.probe_table(probe, title, shown=_short_grid, folded=True))
    return Section(
        "alpha",
        "Alpha sweep",
        "z = alpha x + attention(x): alpha = 1 is the model as it was trained.",
        tables,
        plots,
    )


def _for(runs: Runs, record: RunRecord) -> str:
    return f" for {record.label}" if runs.several else ""


def _short_grid(frame: pd.DataFrame) -> pd.DataFrame:
    k = main_k(list(frame.columns))
    shown = [
        name
        for name in map(str, frame)
        if name == "run"
        or name.startswith(("alpha", "feed_forward"))
        or name in (f"hit@{k}", f"ndcg@{k}", "hrli@1", "mixingratio_res", f"recoveryrate@{k}")
    ]
    return frame[shown]


def _selection(runs: Runs) -> Section:
    def selection(record: RunRecord) -> pd.DataFrame | None:
        frame = probe_frame(record, "alpha_selection")
        return None if frame is None or frame["alpha"].isna().all() else frame

    def test_sweep(record: RunRecord) -> pd.DataFrame | None:
        return probe_frame(record, "alpha_selection", "alpha_selection_test_sweep")

    def shown(frame: pd.DataFrame) -> pd.DataFrame:
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
        return _renamed(frame, names)

    found = [record for record in runs.records if chosen_alpha(record) is not None]
    k = found[0].probes["alpha_selection"].about["k"] if found else 10
    found = [record for record in found if record.probes["alpha_selection"].about["k"] == k]
    chosen = {record.label: chosen_alpha(record) for record in found}
    oracle = {record.label: oracle_alpha(record) for record in found}
    text = (
        "Alpha is chosen on validation: the highest RecoveryRate among those that keep "
        f"(1 - epsilon) of HR@{k}. The test data is read once, afterwards; the oracle applies the "
        "same rule to the test data, for comparison only."
    )
    for record in found:
        about = record.probes["alpha_selection"].about
        text += (
            f" {record.label}: alpha = {about['alpha']:g} at epsilon = {about['epsilon']:g} "
            f"({about['reason']})."
        )
    command, missing = runs.probe_command("alpha_selection"), runs.missing("alpha_selection")
    drawn = Runs(found)
    plots = [
        Plot(
            "recovery_accuracy",
            "Recovery against accuracy",
            "One point per alpha, which is the number beside it, on the test data.",
            command,
            partial(_draw, "recovery_against_accuracy", drawn.series(test_sweep), chosen, oracle, k)
            if found
            else None,
            missing,
        ),
        Plot(
            "outcome_epsilon",
            "Outcome against epsilon",
            "What is recovered and what is kept, as more accuracy may be given up.",
            command,
            partial(_draw, "outcome_against_epsilon", drawn.series(selection), k)
            if found
            else None,
            missing,
        ),
    ]
    frame = runs.joined(selection)
    table = Table(
        "alpha_selection",
        "Chosen alpha by epsilon",
        frame,
        command,
        shown=None if frame is None else shown(frame),
        notes=[*runs.notes("alpha_selection"), *runs.absent(selection)],
        missing=missing,
    )
    return Section("selection", "Choosing alpha", text, [table], plots)


# Other probes ----------------------------------------------------------------------------------


def _positions(runs: Runs) -> Section:
    def shown(frame: pd.DataFrame) -> pd.DataFrame:
        k = main_k(list(frame.columns))
        names = {
            "run": "run",
            "position": "position",
            "n_sequences": "sequences",
            f"hit@{k}": f"HR@{k}",
            f"ndcg@{k}": f"NDCG@{k}",
            "mixingratio_attn": "mixing attn",
            "mixingratio_res": "mixing res",
            "mixingratio_ln": "mixing ln",
            "mixingratio_gate": "mixing gate",
            f"n_missed@{k}": "missed at L",
            f"recovers@{k}": "of these found here",
        }
        return _renamed(frame, names)

    return Section(
        "positions",
        "Earlier positions",
        "The ranking read at L, L-1, L-2 and L-3 on the full input, and how often it holds a "
        "target that the last position misses.",
        [runs.probe_table("positions", "Accuracy and mixing ratio by position", shown=shown)],
    )


def _shuffles(runs: Runs) -> Section:
    def of(record: RunRecord) -> pd.DataFrame | None:
        return probe_frame(record, "shuffle")

    found = runs.series(of)
    k = min((_drop_k(table) for table in found.values()), default=10)

    def shown(frame: pd.DataFrame) -> pd.DataFrame:
        names = {
            "run": "run",
            "mode": "mode",
            "n_runs": "seeds",
            f"ndcg@{k}": f"NDCG@{k}",
            f"ndcg@{k}_drop": "relative drop",
            f"ndcg@{k}_drop_std": "its std",
            f"hit@{k}": f"HR@{k}",
            f"hit@{k}_drop": "drop of HR",
            f"hit@{k}_drop_std": "std",
            "hrli@1": "HRLI@1",
        }
        return _renamed(frame, names)

    plot = Plot(
        "shuffle_bars",
        "Relative drop under perturbed inputs",
        "Where shuffle prefix costs little and shuffle all costs much, the model leans on the last "
        "item. Whiskers: standard deviation over seeds.",
        runs.probe_command("shuffle"),
        partial(_draw, "shuffle_bars", found, k) if found else None,
    )
    return Section(
        "shuffles",
        "Shuffles",
        "The same model on inputs that were shuffled, reversed or cut, at inference only.",
        [runs.probe_table("shuffle", "Accuracy on perturbed inputs", shown=shown)],
        [plot],
    )


def _drop_k(table: pd.DataFrame) -> int:
    (name,) = (name for name in map(str, table) if re.fullmatch(r"ndcg@\d+_drop", name))
    return int(name[len("ndcg@") : -len("_drop")])


def _reliance(runs: Runs) -> Section:
    def shown(frame: pd.DataFrame) -> pd.DataFrame:
        k = main_k(list(frame.columns))
        names = {
            "run": "run",
            "condition": "condition",
            "hrli@1": "HRLI@1",
            "hrli@1_change": "change of HRLI",
            f"hit@{k}": f"HR@{k}",
            f"ndcg@{k}": f"NDCG@{k}",
            f"ndcg@{k}_change": "change of NDCG",
            "mixingratio_attn": "mixing attn",
            "mixingratio_res": "mixing res",
            "mixingratio_ln": "mixing ln",
            "mixingratio_res_last": f"res, {runs.last}",
            "mixingratio_gate": "mixing gate",
        }
        return _renamed(frame, names)

    return Section(
        "reliance",
        "Suspects side by side",
        "One thing changed at a time: the residual, the learned attention weights, the position "
        "embedding, the order of the input.",
        [
            runs.probe_table(
                "reliance", "Last-item reliance, mixing ratio and accuracy", shown=shown
            )
        ],
    )


def _configuration(runs: Runs) -> Section:
    def settings(record: RunRecord) -> pd.DataFrame | None:
        rows = [{"key": key, "value": str(value)} for key, value in record.config.items()]
        return pd.DataFrame(rows)

    def versions(record: RunRecord) -> pd.DataFrame | None:
        found = dict(record.result.get("environment", {}))
        if not found:
            return None
        for key in ("epochs_trained", "seconds"):
            if key in record.result:
                found[key] = str(record.result[key])
        found["folder"] = str(record.folder)
        return pd.DataFrame([{"key": key, "value": value} for key, value in found.items()])

    return Section(
        "configuration",
        "Configuration",
        "All that it takes to do it again.",
        [
            Table("environment", "Environment", runs.joined(versions), runs.result_command),
            Table(
                "configuration",
                "Resolved configuration",
                runs.joined(settings),
                runs.result_command,
                folded=True,
            ),
        ],
    )
