"""The pages of a study in Markdown, with their tables and figures, out of rows alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from recbole_residual.errors import ConfigError
from recbole_residual.files import PathLike, atomic_path, write_text
from recbole_residual.report.record import PROGRAM
from recbole_residual.study import tables
from recbole_residual.study.claims import Verdict, stated, verdicts
from recbole_residual.study.measures import drop, ratio
from recbole_residual.study.plan import MAIN
from recbole_residual.study.row import FOLDER, Row, read_rows
from recbole_residual.study.sentences import sentences
from recbole_residual.study.sets import LEARNED, Set, sets_of

PAGE = "index.md"

_INTERVALS = (
    "In brackets: 95 % intervals over sequences (Wilson for shares, bootstrap for means), the mean "
    "of the seeds' where there are several; they do not speak of other seeds."
)


@dataclass(frozen=True)
class _Content:
    """All that the pages are made of."""

    rows: list[Row]
    sets: list[Set]
    found: list[Verdict]
    frames: dict[str, pd.DataFrame]

    @classmethod
    def of(cls, rows: Sequence[Row]) -> _Content:
        ordered = sorted(rows, key=lambda row: (row.cell.part != MAIN, row.cell.key))
        sets = sets_of(ordered)
        found = verdicts(sets)
        sweeps = [tables.sweep_table(one) for one in sets]
        frames = {
            "claims": tables.claims_table(found),
            "statistics": tables.statistics_table(ordered),
            "accuracy": tables.accuracy_table(ordered),
            "models": tables.models_table(sets),
            "mixing": tables.mixing_table(sets),
            "alpha_sweep": pd.concat(sweeps) if sweeps else pd.DataFrame(),
            "alpha_selection": tables.selection_table(sets),
            "uniform": tables.uniform_table(sets),
            "cells": tables.cells_table(ordered),
        }
        return cls(ordered, sets, found, frames)

    @property
    def learned(self) -> list[Set]:
        """The sets on which the papers' model was trained."""
        return [one for one in self.sets if LEARNED in one.models]


def pages_of_rows(rows: PathLike, output_dir: PathLike | None = None) -> Path:
    """Write the pages of what an earlier study measured; nothing is trained.

    Args:
        rows: its folder, or that of its rows.
        output_dir: where to; by default the folder of the study.

    Returns:
        The page for a reader with one minute.

    Raises:
        ConfigError: if there are no rows.
        CheckpointError: if one of them is broken.

    Example:
        >>> pages_of_rows("output/study-papers")  # doctest: +SKIP
    """
    found = read_rows(rows)
    if not found:
        raise ConfigError(f"there are no rows of a study in {str(rows)!r}.")
    base = Path(rows).expanduser()
    folder = base.parent if base.name == FOLDER else base
    return write_pages(list(found.values()), folder if output_dir is None else output_dir)


def write_pages(rows: Sequence[Row], folder: PathLike) -> Path:
    """Write pages, tables and figures.

    Args:
        rows: what was measured; with none, the pages say so.
        folder: where to.

    Returns:
        The page for a reader with one minute.
    """
    base, content = Path(folder).expanduser(), _Content.of(rows)
    for name, frame in content.frames.items():
        text = frame.to_csv(index=False, lineterminator="\n", float_format="%.6g")
        write_text(base / "tables" / f"{name}.csv", text)
    drawn = _draw(content, base / "figures")
    write_text(base / PAGE, _one_minute(content, drawn))
    write_text(base / "claims.md", _claims(content))
    write_text(base / "tables.md", _tables(content, drawn))
    write_text(base / "models.md", _models(content))
    return base / PAGE


def _draw(content: _Content, folder: Path) -> set[str]:
    """Draw what there are numbers for; the names of the figures."""
    # Here, because matplotlib is slow to import
    from recbole_residual.report.figures.style import rendered

    drawn = set()
    for name, draw in _figures(content).items():
        with atomic_path(folder / f"{name}.png") as part:
            part.write_bytes(rendered(draw(), "png"))
        drawn.add(name)
    return drawn


def _figures(content: _Content) -> dict[str, Callable[[], Any]]:
    from recbole_residual.report.figures import alpha_curves
    from recbole_residual.study import figures

    wanted: dict[str, Callable[[], Any]] = {}
    sets = content.learned
    labels = [one.label for one in sets]
    shuffles = {
        "all but the last item shuffled": [one.measured(drop("shuffle_prefix")) for one in sets],
        "the last item too": [one.measured(drop("shuffle_all")) for one in sets],
    }
    stages = {
        "attention alone (attn)": [one.measured(ratio("attn")) for one in sets],
        "with the residual (res)": [one.measured(ratio("res")) for one in sets],
    }
    if sets:
        wanted["shuffles"] = partial(
            figures.bars, labels, shuffles, "share of NDCG@10 lost", (0.0, 1.0)
        )
        wanted["mixing"] = partial(figures.bars, labels, stages, "mixing ratio", (0.0, 1.0))
    sweeps = {one.label: frame for one in sets if not (frame := tables.sweep_table(one)).empty}
    if sweeps:
        wanted["alpha"] = partial(alpha_curves, sweeps, "last")
        wanted["recovery"] = partial(
            figures.lines,
            {label: frame for label, frame in sweeps.items() if "recoveryrate@10" in frame},
            "alpha",
            "recoveryrate@10",
            ("residual factor \N{GREEK SMALL LETTER ALPHA}", "RecoveryRate@10"),
        )
    uniform = content.frames["uniform"]
    if len(uniform):
        named = [f"{row['dataset']}, {row['split']}" for _, row in uniform.iterrows()]
        wanted["uniform"] = partial(figures.against_uniform, named, uniform)
    chosen = content.frames["alpha_selection"]
    if "recovery, chosen" in chosen:
        of_sets = {
            f"{dataset}, {split}": frame
            for (dataset, split), frame in chosen.groupby(["dataset", "split"])
        }
        wanted["epsilon"] = partial(
            figures.lines,
            of_sets,
            "epsilon",
            "recovery, chosen",
            ("share of HR@10 that may be given up (epsilon)", "RecoveryRate@10 of the choice"),
        )
    return wanted


def _head(content: _Content, title: str, before: str = "") -> list[str]:
    commands = sorted({row.content["command"].partition(" --datasets")[0] for row in content.rows})
    block = "\n".join([*commands, f"{PROGRAM} --mode=report --rows={FOLDER} --output_dir=."])
    return [f"# {title}", *([before] if before else []), f"```bash\n{block}\n```"]


def _figure(name: str, caption: str, drawn: set[str]) -> list[str]:
    return [f"![{caption}](figures/{name}.png)", f"*{caption}*"] if name in drawn else []


def _one_minute(content: _Content, drawn: set[str]) -> str:
    parts = _head(
        content,
        "The study in one minute",
        "Written by the second command out of the [rows](tables.md#cells) that the first one "
        "measured; no number and no verdict is typed by hand.",
    )
    parts += [
        "\n".join(
            f"{number}. {text}"
            for number, text in enumerate(sentences(content.rows, content.sets, content.found), 1)
        )
    ]
    parts += _figure("shuffles", "What is lost when the input is shuffled, by set.", drawn)
    parts += _figure("alpha", "What turning the residual down does, by set.", drawn)
    caption = "What uniform attention costs, against how much a set's model mixes."
    parts += _figure("uniform", caption, drawn)
    parts += ["## Every claim", tables.markdown(content.frames["claims"])]
    parts += [
        "[Each claim with its rule and its sets](claims.md), [all tables](tables.md), "
        "[models side by side](models.md)."
    ]
    return _joined(parts)


def _claims(content: _Content) -> str:
    parts = _head(content, "Claim by claim")
    parts += [
        "A set is a dataset under one split. A claim holds if every set says so, holds in part if "
        "some do, and does not hold if none does. " + _INTERVALS
    ]
    parts.append("\n".join(f"- {name}: {text}" for name, text in stated()["sources"].items()))
    for verdict in content.found:
        parts.append(f"## {verdict.claim['source']}: {verdict.claim['statement']}")
        parts.append(f"**{verdict.word.capitalize()}**{_so_many(verdict)}")
        parts.append(f"{verdict.rule} {verdict.claim['about']}")
        parts.append(tables.markdown(verdict.frame))
    return _joined(parts)


def _so_many(verdict: Verdict) -> str:
    """By how many sets, and the figure."""
    if "across" in verdict.claim:
        text = f" over {verdict.n_sets} sets"
        if verdict.figure.known:
            figure = verdict.figure
            text += f": {figure.value:.2f} ({figure.low:.2f} to {figure.high:.2f})"
        return f"{text}."
    if not verdict.n_sets:
        return "."
    return (
        f": {verdict.n_agree} of {verdict.n_sets} sets say so; {verdict.claim['quantity']}, "
        f"median {verdict.figure.value:.4f}."
    )


def _tables(content: _Content, drawn: set[str]) -> str:
    frames, write = content.frames, tables.markdown
    parts = [*_head(content, "Tables of the study"), _INTERVALS]
    parts += ["## Datasets", "After preprocessing.", write(frames["statistics"])]
    parts += [
        "## Accuracy",
        "Seen items taken out of the ranking, the model of the best validation epoch, at "
        "alpha = 1. Published: *Time to Split* (RecSys 2025), tuned by grid search.",
        write(frames["accuracy"]),
    ]
    parts += ["## Mixing ratios", *_figure("mixing", "Mixing ratios, by set.", drawn)]
    parts += [write(frames["mixing"])]
    sweep = frames["alpha_sweep"]
    if len(sweep):
        sweep = sweep[sweep["alpha"].round(6).isin([0.0, 0.1, 0.3, 0.5, 0.8, 1.0])]
    parts += ["## Alpha", *_figure("recovery", "What is recovered, by set.", drawn)]
    parts += ["Every alpha stands in [the csv](tables/alpha_sweep.csv).", write(sweep)]
    parts += [
        "## Choice of alpha",
        "On validation, beside what the same rule would have chosen on the test data (oracle).",
        *_figure("epsilon", "What the choice recovers, by what it may cost.", drawn),
        write(frames["alpha_selection"]),
    ]
    parts += ["## Learned and uniform attention", write(frames["uniform"])]
    parts += ["## Cells", "[All that was trained, with commands](tables/cells.csv)."]
    parts += [write(frames["cells"].drop(columns=["command", "torch"], errors="ignore"))]
    return _joined(parts)


def _models(content: _Content) -> str:
    frame = content.frames["models"]
    parts = [
        *_head(content, "Models side by side"),
        "Nothing taken out of the ranking. " + _INTERVALS,
    ]
    names = set(frame["model"]) if len(frame) else set()
    masked = {row.cell.model for row in content.rows if row.predicts_at_mask}
    gated = {row.cell.model for row in content.rows if "mixingratio_gate" in row.content["test"]}
    notes = [
        f"{name}: its last position holds [MASK], so a mixing ratio there does not speak of the "
        "last item, and the papers' account does not cover it."
        for name in sorted(masked)
    ]
    notes += [
        f"{name}: it has no attention and no residual; its ratio is that of the update gate and is "
        "not to be compared with the three stages. Its alpha scales an added skip and is 0 at rest."
        for name in sorted(gated)
    ]
    if names - masked - gated - {LEARNED}:
        notes.append(
            f"{', '.join(sorted(names - masked - gated - {LEARNED}))}: blocks as in SASRec, and "
            "the same reading."
        )
    parts += ["\n".join(f"- {note}" for note in notes)] if notes else []
    for dataset in dict.fromkeys(frame["dataset"]) if len(frame) else ():
        of_one = frame[frame["dataset"] == dataset].drop(columns="dataset")
        parts += [f"## {dataset}", tables.markdown(of_one)]
    return _joined(parts)


def _joined(parts: Sequence[str]) -> str:
    return "\n\n".join(parts) + "\n"
