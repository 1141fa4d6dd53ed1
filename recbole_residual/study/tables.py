"""The tables of a study, made of rows: for csv files, and as Markdown."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd
from tabulate import tabulate

from recbole_residual.report.cell import cell_text, cell_writer
from recbole_residual.report.intervals import ENDS, HIGH, LOW, has_interval
from recbole_residual.report.measured import Measured
from recbole_residual.report.papers import plain_model, reference
from recbole_residual.study.claims import Verdict, stated
from recbole_residual.study.measures import (
    at_alpha,
    drop,
    metric,
    ratio,
    selection,
    uniform_loss,
)
from recbole_residual.study.row import Row
from recbole_residual.study.sets import LEARNED, UNIFORM, Set

_STAGES = ("attn", "res", "ln", "gate")


def cells_table(rows: Sequence[Row]) -> pd.DataFrame:
    """What was trained: each cell, what it took, and the command that measures it again."""
    return pd.DataFrame(
        {
            **_named(row),
            "seed": row.cell.seed,
            "epochs": row.content["epochs_trained"],
            "seconds": row.content["seconds"],
            "validation NDCG@10": row.content["best_valid_score"],
            "torch": row.content["environment"]["torch"],
            "command": row.content["command"],
        }
        for row in rows
    )


def statistics_table(rows: Sequence[Row]) -> pd.DataFrame:
    """Every dataset after preprocessing, beside the papers' numbers."""
    named: dict[tuple[Any, ...], dict[str, Any]] = {}
    papers = stated()["statistics"]
    for row in rows:
        found = row.content["dataset_statistics"]
        line = {"dataset": row.cell.dataset, "users": found["users"], "items": found["items"]}
        line["interactions"] = found["interactions"]
        line["average length"] = found["avg_length"]
        line["density"] = found["density"]
        theirs = papers.get(row.cell.dataset)
        ours = [found[name] for name in ("users", "items", "interactions")]
        line["the papers"] = (
            "" if theirs is None else "the same" if ours == theirs else " / ".join(map(str, theirs))
        )
        named.setdefault(tuple(line.values()), line)
    lines: list[dict[str, Any]] = sorted(named.values(), key=lambda line: str(line["dataset"]))
    return pd.DataFrame(lines)


def accuracy_table(rows: Sequence[Row]) -> pd.DataFrame:
    """Test accuracy with seen items taken out, means over seeds, beside published figures."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault((*_named(row).values(), _size(row)), []).append(row)
    lines = []
    for of_one in groups.values():
        first = of_one[0]
        filtered = Set(first.cell.dataset, first.cell.split, {first.cell.model: of_one})
        line = {**_named(first), "size": _size(first), "seeds": len(of_one)}
        for name, key in (("NDCG@10", "ndcg@10"), ("HR@10", "hit@10")):
            figure = filtered.measured(metric(key, "filtered"), first.cell.model)
            line.update(figure.columns(name))
        theirs = _published(first)
        line["published NDCG@10"] = theirs.get("ndcg", math.nan)
        line["ours / published"] = line["NDCG@10"] / line["published NDCG@10"]
        line["published HR@10"] = theirs.get("hit", math.nan)
        lines.append(line)
    return pd.DataFrame(lines)


def _named(row: Row) -> dict[str, Any]:
    cell = row.cell
    return {
        "dataset": cell.dataset,
        "split": cell.split.replace("_", "-"),
        "model": cell.model,
        "part": cell.part,
    }


def _size(row: Row) -> str:
    """Width, blocks, heads and dropout as they were given; the rest is RecBole's."""
    names = ("hidden_size", "n_layers", "n_heads", "hidden_dropout_prob", "dropout_prob")
    given = row.cell.settings
    return ", ".join(f"{name} {given[name]}" for name in names if name in given) or "default"


def _published(row: Row) -> dict[str, Any]:
    """The entry of papers.yaml for a row's model, dataset and split; empty if there is none."""
    split = {"temporal": "GT", "leave_one_out": "LS"}[row.cell.split]
    for name, dataset in reference()["datasets"].items():
        if row.cell.dataset not in dataset["names"] or not dataset["seen_filtered"]:
            continue
        for entry in reference()["accuracy"]:
            if (entry["dataset"], entry["split"], entry["model"]) == (
                name,
                split,
                plain_model(row.cell.model),
            ):
                return entry
    return {}


def models_table(sets: Sequence[Set]) -> pd.DataFrame:
    """Every model on every set: accuracy, last-item reliance, shuffles and mixing."""
    lines = []
    for one in sets:
        for model, rows in one.models.items():
            line = {**one.columns, "model": model, "seeds": len(rows)}
            figures = {
                "NDCG@10": metric("ndcg@10"),
                "HR@1": metric("hit@1"),
                "HRLI@1": metric("hrli@1"),
                "HRL2I@1": metric("hrl2i@1"),
                "lost: prefix": drop("shuffle_prefix"),
                "lost: all": drop("shuffle_all"),
                **{f"mixing {stage}": ratio(stage) for stage in _STAGES},
            }
            for name, read in figures.items():
                line.update(one.measured(read, model).columns(name))
            line["last position"] = rows[0].content["last_position"]
            lines.append(line)
    return pd.DataFrame(lines).dropna(axis="columns", how="all")


def mixing_table(sets: Sequence[Set]) -> pd.DataFrame:
    """The mixing ratio of SASRecResidual by stage, everywhere and at the last three positions."""
    lines = []
    for one in sets:
        for stage in _STAGES[:3]:
            line: dict[str, Any] = {**one.columns, "stage": stage}
            places = (("all", "all"), ("last", "L"), ("last-1", "L-1"), ("last-2", "L-2"))
            for position, name in places:
                line.update(one.measured(ratio(stage, position)).columns(name))
            if not math.isnan(line["all"]):
                lines.append(line)
    return pd.DataFrame(lines).dropna(axis="columns", how="all")


def sweep_table(one: Set, model: str = LEARNED) -> pd.DataFrame:
    """The alpha sweep of a model on a set, means over its seeds; empty if it has none."""
    frames = [
        frame
        for row in one.models.get(model, ())
        if (frame := row.table("alpha_sweep")) is not None
    ]
    if not frames:
        return pd.DataFrame()
    names = ["mixingratio_res", "hrli@1", "ndcg@10", "hit@10", "recoveryrate@10", "recoverybase@10"]
    lines = []
    for alpha in frames[0]["alpha"].astype(float):
        line: dict[str, Any] = {**one.columns, "alpha": alpha}
        for name in names:
            line.update(one.measured(at_alpha(alpha, name), model).columns(name))
        lines.append(line)
    return pd.DataFrame(lines).dropna(axis="columns", how="all")


def selection_table(sets: Sequence[Set]) -> pd.DataFrame:
    """Alpha chosen on validation against the test oracle, by epsilon; means over seeds."""
    lines = []
    for one in sets:
        found = [row.table("alpha_selection") for row in one.models.get(LEARNED, ())]
        frames = [frame for frame in found if frame is not None]
        for epsilon in frames[0]["epsilon"].astype(float) if frames else ():
            line: dict[str, Any] = {**one.columns, "epsilon": epsilon}
            for part, words in (("test", "chosen"), ("oracle", "oracle")):
                alpha = "alpha" if part == "test" else "oracle_alpha"
                line[f"alpha, {words}"] = one.measured(selection(alpha, epsilon)).value
                for name, title in (("recoveryrate@10", "recovery"), ("hit@10", "HR@10")):
                    figure = one.measured(selection(f"{part}_{name}", epsilon))
                    line.update(figure.columns(f"{title}, {words}"))
            line["HR@10 at 1"] = one.measured(selection("unscaled_hit@10", epsilon)).value
            lines.append(line)
    return pd.DataFrame(lines).dropna(axis="columns", how="all")


def uniform_table(sets: Sequence[Set]) -> pd.DataFrame:
    """Learned against uniform attention, and the mixing ratio of learned attention, by set."""
    lines = []
    for one in sets:
        loss = uniform_loss(one)
        if loss.known:
            line = {**one.columns, **one.measured(ratio("res")).columns("mixing res")}
            line["NDCG@10 learned"] = one.measured(metric("ndcg@10")).value
            line["NDCG@10 uniform"] = one.measured(metric("ndcg@10"), UNIFORM).value
            lines.append({**line, **loss.columns("share lost")})
    return pd.DataFrame(lines)


def claims_table(found: Sequence[Verdict]) -> pd.DataFrame:
    """One row a claim: what the sets say of it."""
    return pd.DataFrame(
        {
            "claim": verdict.claim["statement"],
            "of": verdict.claim["source"],
            "verdict": verdict.word,
            "sets": _of_sets(verdict),
            **verdict.figure.columns("figure"),
            "is": _what(verdict),
        }
        for verdict in found
    )


def _of_sets(verdict: Verdict) -> str:
    if "across" in verdict.claim:
        return f"over {verdict.n_sets}"
    return f"{verdict.n_agree} of {verdict.n_sets}"


def _what(verdict: Verdict) -> str:
    return verdict.claim["quantity"] + ("" if "across" in verdict.claim else "; median of sets")


def markdown(frame: pd.DataFrame) -> str:
    """A table as Markdown, the interval of a figure in its cell."""
    if frame.empty:
        return "Not measured yet."
    ends = [name + end for name in map(str, frame) if has_interval(frame, name) for end in ENDS]
    shown = frame.drop(columns=[name for name in ends if name in frame])
    columns = {}
    for name in map(str, shown.columns):
        write = _alpha if name.startswith("alpha") else cell_writer(name)
        texts = [write(value) for value in shown[name]]
        if has_interval(frame, name):
            pairs = zip(texts, frame[name + LOW], frame[name + HIGH])
            texts = [_with_ends(*pair) for pair in pairs]
        columns[name] = texts
    rows = list(zip(*columns.values()))
    sides = ["right" if pd.api.types.is_numeric_dtype(shown[name]) else "left" for name in shown]
    return tabulate(
        rows, headers=list(columns), tablefmt="pipe", disable_numparse=True, colalign=sides
    )


def _with_ends(text: str, low: float, high: float) -> str:
    ends = Measured(math.nan, low, high)
    if math.isnan(ends.low + ends.high):
        return text
    return f"{text} ({cell_text(ends.low)} to {cell_text(ends.high)})"


def _alpha(value: float) -> str:
    return cell_text(value) if math.isnan(value) else f"{value:.3g}"
