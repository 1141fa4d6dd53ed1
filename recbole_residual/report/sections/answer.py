"""The first section: the answer in words, in a small table, and where it lies."""

from __future__ import annotations

import pandas as pd

from recbole_residual.report.answer import Answer, answer
from recbole_residual.report.comparison_answer import comparison_sentences
from recbole_residual.report.intervals import HIGH, LOW
from recbole_residual.report.neighbours import neighbouring_results
from recbole_residual.report.papers import reference
from recbole_residual.report.plot import Plot
from recbole_residual.report.runs import Runs
from recbole_residual.report.section import Section
from recbole_residual.report.table import Table

_SCALES = {
    "hrli": ("HRLI@1", "hrli@1", None),
    "attn": ("mixing ratio, attention alone", "mixingratio_attn", "mixing_attn"),
    "res": ("mixing ratio, with residual", "mixingratio_res", "mixing_res"),
    "shuffle_prefix": ("lost: all but the last shuffled", None, None),
    "shuffle_all": ("lost: the last shuffled too", None, None),
    "recovery": ("RecoveryRate, chosen alpha", None, None),
}
"""Quantities on a scale: name, key in a result, measure of the papers' range."""

_STROKES = " Strokes: other runs on this dataset in the folder beside this one."


def answer_section(runs: Runs) -> Section:
    """The answer, made from the numbers of the runs."""
    answers = {record.label: answer(record) for record in runs.records}
    if runs.several:
        sentences = comparison_sentences(runs.records)
    else:
        (only,) = answers.values()
        sentences = only.sentences
    frame = _numbers(answers, runs.several)
    table = Table("answer", "The numbers", frame, runs.result_command, folded=runs.several)
    plot = _gauges(runs, answers)
    return Section("answer", "The answer", "", [table], [plot], points=sentences)


def _numbers(answers: dict[str, Answer], several: bool) -> pd.DataFrame | None:
    rows = [
        {
            **({"run": label} if several else {}),
            "quantity": quantity.name,
            "number": quantity.value,
            f"number{LOW}": quantity.low,
            f"number{HIGH}": quantity.high,
        }
        for label, found in answers.items()
        for quantity in found.quantities.values()
    ]
    return pd.DataFrame(rows) if rows else None


def _gauges(runs: Runs, answers: dict[str, Answer]) -> Plot:
    there = {short for found in answers.values() for short in found.quantities}
    return Plot(
        "gauges",
        "Where it lies",
        "Each on a scale from 0 to 1, with its 95 % interval. Band: the range that the papers "
        "report." + ("" if runs.several else _STROKES),
        runs.result_command,
        (lambda: _draw(runs, answers)) if there & set(_SCALES) else None,
    )


def _draw(runs: Runs, answers: dict[str, Answer]) -> object:
    from recbole_residual.report.figures.gauge import Scale, gauges

    ranges = {finding["measure"]: finding for finding in reference()["findings"]}
    others = [] if runs.several else neighbouring_results(runs.records[0])
    scales = []
    for short, (name, key, measure) in _SCALES.items():
        values = {
            label: (
                found.quantities[short].value,
                found.quantities[short].low,
                found.quantities[short].high,
            )
            for label, found in answers.items()
            if short in found.quantities
        }
        if values:
            paper = ranges.get(measure, {})
            scales.append(
                Scale(
                    name,
                    values,
                    [result[key] for result in others if key in result],
                    paper.get("low"),
                    paper.get("high"),
                )
            )
    return gauges(scales)
