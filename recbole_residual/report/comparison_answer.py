"""What several runs answer together, in a few sentences made from their numbers."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan

import pandas as pd

from recbole_residual.report.answer import Quantity, quantities
from recbole_residual.report.record import RunRecord


def comparison_sentences(records: Sequence[RunRecord]) -> list[str]:
    """Which run leans on the last item most, which is most accurate, and what is uncertain.

    Args:
        records: at least two runs, labelled.
    """
    numbers = {record.label: quantities(record) for record in records}
    sentences = []
    for short, says in (
        ("hrli", "The last input item is ranked first most often"),
        ("res", "The mixing ratio with the residual is highest"),
        ("ndcg", "The target is ranked best"),
        ("shuffle_prefix", "Shuffling all items but the last costs most"),
    ):
        sentence = _extremes(numbers, short, says)
        if sentence:
            sentences.append(sentence)
    return [*sentences, _overlaps(numbers)]


def tests_sentence(tests: pd.DataFrame | None) -> str:
    """What the paired tests say once they are corrected for their number.

    Args:
        tests: the table ``paired_tests``; None if there is none.
    """
    if tests is None:
        return "No two configurations were tested against each other: see the paired tests."
    p = tests["p (Wilcoxon), Holm"]
    clear = tests[p < 0.05]
    counted = f"Of {len(tests)} paired tests across users"
    if clear.empty:
        return f"{counted}, none is below 0.05 after Holm's correction."
    strongest = clear.loc[clear["p (Wilcoxon), Holm"].idxmin()]
    return (
        f"{counted}, {len(clear)} {'is' if len(clear) == 1 else 'are'} below 0.05 after Holm's "
        f"correction; the clearest: {strongest['metric']} of {strongest['a']} against "
        f"{strongest['b']}, {strongest['difference']:+.4f}."
    )


def _known(numbers: dict[str, dict[str, Quantity]], short: str) -> dict[str, Quantity]:
    return {
        label: found[short]
        for label, found in numbers.items()
        if short in found and not isnan(found[short].value)
    }


def _extremes(numbers: dict[str, dict[str, Quantity]], short: str, says: str) -> str:
    known = _known(numbers, short)
    if len(known) < 2:
        return ""
    ordered = sorted(known, key=lambda label: known[label].value)
    least, most = ordered[0], ordered[-1]
    if known[least].value == known[most].value:
        return f"{known[least].name}: the same in all runs, {known[least]}."
    return f"{says} in {most}: {known[most]}; least in {least}: {known[least]}."


def _overlaps(numbers: dict[str, dict[str, Quantity]]) -> str:
    """Quantities of which the intervals of the most and the least overlap."""
    unclear = []
    for short in ("hrli", "ndcg", "res", "shuffle_prefix"):
        known = _known(numbers, short)
        if len(known) >= 2:
            ordered = sorted(known.values(), key=lambda quantity: quantity.value)
            if ordered[0].high >= ordered[-1].low:
                unclear.append(ordered[0].name)
    if unclear:
        return (
            f"Uncertain: the intervals of the most and the least overlap for {'; '.join(unclear)} "
            "(paired tests below are sharper, where users are the same)."
        )
    return "Uncertain: each run is one training; other seeds may give other numbers."
