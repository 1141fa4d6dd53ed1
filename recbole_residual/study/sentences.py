"""The five sentences of a study, made of its numbers."""

from __future__ import annotations

from collections.abc import Sequence

from recbole_residual.study.claims import DOES_NOT, HOLDS, IN_PART, NOT_MEASURED, Verdict
from recbole_residual.study.row import Row
from recbole_residual.study.sets import Set


def sentences(rows: Sequence[Row], sets: Sequence[Set], found: Sequence[Verdict]) -> list[str]:
    """What a reader with one minute should know.

    Args:
        rows: all of them.
        sets: what they are of.
        found: what the sets say of each claim.
    """
    by_name = {verdict.claim["name"]: verdict for verdict in found}
    return [
        _measured(rows, sets),
        f"{_range(by_name['prefix'], True)} of NDCG@10 is lost when every item but the last is "
        f"shuffled, and {_range(by_name['collapse'], True)} when the last one is shuffled too.",
        f"By attention alone a position takes {_range(by_name['attn'])} from other positions "
        f"(mixing ratio); with the residual added it is {_range(by_name['res'])}.",
        f"Lowering alpha raises the mixing ratio on {_count(by_name['alpha_mixing'])} sets and "
        f"lowers last-item reliance on {_count(by_name['alpha_hrli'])}; at 0.1 to 0.3 it recovers "
        f"{_range(by_name['recovery'], True)} of what an earlier position would have found.",
        _claims(found),
    ]


def _measured(rows: Sequence[Row], sets: Sequence[Set]) -> str:
    datasets = {one.dataset for one in sets}
    models = {row.cell.model for row in rows}
    return (
        f"Trained and asked: {_counted(len(models), 'model')} on "
        f"{_counted(len(datasets), 'dataset')}, {_counted(len(sets), 'set')} (a dataset under one "
        f"split), {len(rows)} in all."
    )


def _counted(number: int, name: str) -> str:
    return f"{number} {name}{'s' * (number != 1)}"


def _range(verdict: Verdict, percent: bool = False) -> str:
    """The median over sets, and the least and the largest."""
    if not verdict.n_sets:
        return "(not measured)"

    def text(value: float) -> str:
        return f"{100 * value:.0f}\N{NO-BREAK SPACE}%" if percent else f"{value:.2f}"

    values = verdict.frame["figure"]
    if len(values) == 1:
        return text(values.iloc[0])
    return f"{text(values.median())} ({text(values.min())} to {text(values.max())})"


def _count(verdict: Verdict) -> str:
    return f"{verdict.n_agree} of {verdict.n_sets}"


def _claims(found: Sequence[Verdict]) -> str:
    words = [verdict.word for verdict in found]
    counts = [
        f"{words.count(word)} {plural}"
        for word, plural in (
            (HOLDS, "hold"),
            (IN_PART, "hold in part"),
            (DOES_NOT, "do not hold"),
            (NOT_MEASURED, "are not measured yet"),
        )
        if word in words
    ]
    of = f"Of {len(found)} claims of the papers"
    return f"{of}, {', '.join(counts)}, by the rules that stand beside them."
