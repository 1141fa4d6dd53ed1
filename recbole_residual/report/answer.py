"""What a run answers, in a few sentences and one small table, made from its numbers."""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan, nan
from typing import Any

import pandas as pd

from recbole_residual.report.cell import cell_text
from recbole_residual.report.intervals import HIGH, LOW, with_intervals
from recbole_residual.report.measures import MEASURES
from recbole_residual.report.metric_names import drop_k, main_k
from recbole_residual.report.papers import reference
from recbole_residual.report.record import RunRecord
from recbole_residual.report.runs import (
    Runs,
    certain_frame,
    chosen_alpha,
    samples_of_choice,
    sweep_of,
)


@dataclass(frozen=True)
class Quantity:
    """One number of the answer.

    Attributes:
        name: in words.
        value: NaN if it is not defined.
        low, high: ends of its 95 % interval, NaN if there is none.
    """

    name: str
    value: float
    low: float = nan
    high: float = nan

    def __str__(self) -> str:
        """The number with its interval, as a sentence says it."""
        text = cell_text(self.value)
        if isnan(self.low + self.high):
            return text
        return f"{text} ({cell_text(self.low)} to {cell_text(self.high)})"

    @property
    def may_be_none(self) -> bool:
        """Of a difference: whether its interval holds 0."""
        return self.low <= 0 <= self.high


@dataclass(frozen=True)
class Answer:
    """The sentences, and the numbers they are made of.

    Attributes:
        sentences: four to six.
        quantities: by a short name; those that were not run are not there.
    """

    sentences: list[str]
    quantities: dict[str, Quantity]


def answer(record: RunRecord) -> Answer:
    """What one run says of its last-item reliance."""
    numbers = quantities(record)
    sentences = [
        _last_item(record, numbers),
        _shuffles(record, numbers),
        _residual(record, numbers),
        _turned_down(record, numbers),
        _papers(record),
        _uncertain(record, numbers),
    ]
    return Answer([sentence for sentence in sentences if sentence], numbers)


# Numbers ---------------------------------------------------------------------------------------


def quantities(record: RunRecord) -> dict[str, Quantity]:
    """The numbers of the answer that the run has."""
    values, ends = record.results_by_split.get("test", {}), record.intervals.get("test", {})
    k = main_k([*values, "hit@10"]) if values else 10
    named = {
        "hrli": ("hrli@1", "HRLI@1: last item ranked first"),
        "hit@1": ("hit@1", "HR@1: target ranked first"),
        "hit": (f"hit@{k}", f"HR@{k}: target in the top {k}"),
        "ndcg": (f"ndcg@{k}", f"NDCG@{k}"),
        "attn": ("mixingratio_attn", "mixing ratio, attention alone"),
        "res": ("mixingratio_res", "mixing ratio, with the residual"),
        "gate": ("mixingratio_gate", "mixing ratio, update gate"),
    }
    numbers = {
        short: Quantity(name, _number(values[key]), *ends.get(key, (nan, nan)))
        for short, (key, name) in named.items()
        if key in values
    }
    return {**numbers, **_drops(record), **_choice(record)}


def _number(value: Any) -> float:
    return nan if value is None else float(value)


def _cell(row: pd.Series, name: str, words: str) -> Quantity:
    has_ends = name + LOW in row and name + HIGH in row
    ends = (row[name + LOW], row[name + HIGH]) if has_ends else (nan, nan)
    return Quantity(words, _number(row[name]), *map(_number, ends))


def _drops(record: RunRecord) -> dict[str, Quantity]:
    """What of NDCG is lost by shuffling all but the last item, and by shuffling it too."""
    frame = certain_frame(record, "shuffle")
    if frame is None:
        return {}
    name = f"ndcg@{drop_k(frame)}_drop"
    metric = name.partition("_")[0].upper()
    rows = frame.set_index("mode")
    words = {
        "shuffle_prefix": f"{metric} lost, all but the last item shuffled",
        "shuffle_all": f"{metric} lost, the last item shuffled too",
    }
    return {
        mode: _cell(rows.loc[mode], name, text)
        for mode, text in words.items()
        if mode in rows.index
    }


def _choice(record: RunRecord) -> dict[str, Quantity]:
    """What the alpha chosen on validation gives on the test data."""
    alpha, sweep = chosen_alpha(record), sweep_of(record)
    if alpha is None or sweep is None:
        return {}
    about = record.probes["alpha_selection"].about
    k = about["k"]
    sweep = with_intervals(sweep, record.n_sequences("test"))
    row = sweep[sweep["alpha"] == alpha].iloc[0]
    chosen = _in_samples(record)
    at, base = f"at alpha = {alpha:g}", row[f"recoverybase@{k}"]
    share = chosen.get(alpha, 0.0)
    often = Quantity(f"share of bootstrap samples of validation that choose {alpha:g}", share)
    return {
        **({"chosen": often} if chosen else {}),
        "hrli chosen": _cell(row, "hrli@1", f"HRLI@1 {at}"),
        "hit chosen": _cell(row, f"hit@{k}", f"HR@{k} {at}"),
        "recovery": _cell(
            row, f"recoveryrate@{k}", f"RecoveryRate@{k} {at}, of {int(base)} sequences"
        ),
    }


def _in_samples(record: RunRecord) -> dict[float, float]:
    """How often each alpha is chosen over samples of validation at the epsilon asked for."""
    frame = samples_of_choice(record)
    if frame is None:
        return {}
    at = frame[frame["epsilon"] == record.probes["alpha_selection"].about["epsilon"]]
    return dict(zip(at["alpha"], at["share"]))


# Sentences -------------------------------------------------------------------------------------


def _percent(quantity: Quantity) -> str:
    """A share as a percentage, with its interval."""
    text = f"{100 * quantity.value:.1f}\N{NO-BREAK SPACE}%"
    if isnan(quantity.low + quantity.high):
        return text
    ends = f"{100 * quantity.low:.1f} to {100 * quantity.high:.1f}"
    return f"{text} (95\N{NO-BREAK SPACE}% interval {ends})"


def _last_item(record: RunRecord, numbers: dict[str, Quantity]) -> str:
    if "hrli" not in numbers or isnan(numbers["hrli"].value):
        return "How often the last input item is ranked first (HRLI@1) is not known of this run."
    n = record.n_sequences("test")
    of = f"the {n:,} test sequences" if n else "the test sequences"
    text = f"The last input item is ranked first for {_percent(numbers['hrli'])} of {of}"
    if "hit@1" in numbers:
        text += f", the item that really came next for {_percent(numbers['hit@1'])}"
    return text + "."


def _shuffles(record: RunRecord, numbers: dict[str, Quantity]) -> str:
    if "shuffle_prefix" not in numbers:
        return "What shuffling the input costs was not asked (--probes=shuffle)."
    prefix = numbers["shuffle_prefix"]
    metric = prefix.name.split()[0]
    if isnan(prefix.value):
        return f"What shuffling costs is not defined: {metric} of the input as it is is 0."
    if prefix.value > 0:
        text = f"Shuffling every item but the last costs {_percent(prefix)} of {metric}"
    else:
        gain = (
            f"{-100 * prefix.value:.1f}\N{NO-BREAK SPACE}% higher" if prefix.value else "the same"
        )
        text = f"Shuffling every item but the last costs nothing: {metric} is {gain}"
    if "shuffle_all" in numbers:
        text += f"; shuffling the last one too costs {_percent(numbers['shuffle_all'])}"
    return text + "."


def _residual(record: RunRecord, numbers: dict[str, Quantity]) -> str:
    if "attn" in numbers and "res" in numbers:
        text = (
            f"By attention alone a position takes {_percent(numbers['attn'])} from other "
            f"positions; with the residual added it is {_percent(numbers['res'])}"
        )
        if record.predicts_at_mask:
            text += ", where the last position holds [MASK], so that this does not speak of an item"
        return text + "."
    if "gate" in numbers:
        share = _percent(numbers["gate"])
        return f"By its update gate the last state takes {share} from the states before it."
    return "There is no mixing ratio of this run."


def _turned_down(record: RunRecord, numbers: dict[str, Quantity]) -> str:
    alpha = chosen_alpha(record)
    if alpha is None or "recovery" not in numbers:
        if "alpha_selection" in record.probes:
            return "This model has no residual around attention that could be turned down."
        asked = "--probes=alpha_selection"
        return f"What turning the residual down gives and costs was not asked ({asked})."
    often = _how_often(numbers)
    if alpha == 1:
        return (
            f"Validation chooses alpha = 1{often}: no smaller one gives enough for what it costs."
        )
    hit, recovery = numbers["hit chosen"], numbers["recovery"]
    text = f"Turned down to alpha = {alpha:g}, as validation chooses{often}, the residual gives "
    if not isnan(recovery.value):
        text += (
            f"{_percent(recovery)} of the {recovery.name.split()[-2]} targets that an earlier "
            "position would have found, and"
        )
    else:
        text += "nothing (no earlier position finds a target that the last one misses), and"
    text += f" HRLI@1 becomes {_percent(numbers['hrli chosen'])}"
    if "hit" in numbers and hit.name.startswith(numbers["hit"].name.partition(":")[0] + " "):
        before = numbers["hit"].value
        text += f"; {hit.name.split()[0]} goes from {before:.4f} to {hit.value:.4f}"
    return text + "."


def _how_often(numbers: dict[str, Quantity]) -> str:
    """In how many samples of the validation users the alpha is chosen, in brackets."""
    if "chosen" not in numbers:
        return ""
    share = _percent(numbers["chosen"])
    return f" (and does in {share} of bootstrap samples of its users)"


def _papers(record: RunRecord) -> str:
    """How many of the ranges in the papers hold ours."""
    inside: list[str] = []
    outside: list[str] = []
    for finding in reference()["findings"]:
        low, high = finding.get("low"), finding.get("high")
        ours = MEASURES[finding["measure"]](record, Runs([record]))
        if low is not None and ours is not None and ours.known:
            value = ours.value
            fits = value <= high if finding.get("least") else low <= value <= high
            (inside if fits else outside).append(finding["short"])
    if not inside and not outside:
        return ""
    if not outside:
        return f"As in the papers: {', '.join(inside)}."
    text = f"Outside the papers' ranges: {', '.join(outside)}"
    return text + (f"; within them: {', '.join(inside)}." if inside else ".")


def _uncertain(record: RunRecord, numbers: dict[str, Quantity]) -> str:
    """What these numbers cannot tell."""
    doubts = ["one training run, so nothing is known of other seeds"]
    prefix = numbers.get("shuffle_prefix")
    if prefix is not None and prefix.may_be_none:
        doubts.append("whether shuffling all but the last item costs anything")
    often = _in_samples(record)
    if often and "chosen" in numbers and numbers["chosen"].value < 0.5:
        likely = sorted(alpha for alpha, share in often.items() if share >= 0.05)
        doubts.append(
            f"which alpha to choose: samples of the validation users choose {likely[0]:g} to "
            f"{likely[-1]:g}"
        )
    recovery = numbers.get("recovery")
    if recovery is not None and recovery.high - recovery.low > recovery.value:
        doubts.append("how much is recovered, as its interval is wider than the rate itself")
    before, after = numbers.get("hit"), numbers.get("hit chosen")
    if before is not None and after is not None and before.low <= after.value <= before.high:
        doubts.append("whether the chosen alpha costs accuracy: the change is within the interval")
    return f"Uncertain: {'; '.join(doubts)}."
