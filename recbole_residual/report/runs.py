"""Runs that are reported together, and what their probes left."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pandas as pd

from recbole_residual.report.intervals import doubt_notes, with_intervals
from recbole_residual.report.record import RunRecord
from recbole_residual.report.table import NOT_DEFINED, NOT_RUN, Table


@dataclass(frozen=True)
class Runs:
    """Runs that are reported together."""

    records: Sequence[RunRecord]

    @property
    def several(self) -> bool:
        return len(self.records) > 1

    @property
    def last(self) -> str:
        """What the last position is called: it does not always hold the last item."""
        at_mask = [record.predicts_at_mask for record in self.records]
        return "[MASK]" if all(at_mask) else "last or [MASK]" if any(at_mask) else "last"

    def joined(self, frame_of: Callable[[RunRecord], pd.DataFrame | None]) -> pd.DataFrame | None:
        """The table of the only run, or those of all runs below each other; None if there is
        none."""
        frames = self.series(frame_of)
        if not frames:
            return None
        if not self.several:
            return next(iter(frames.values()))
        labelled = []
        for label, frame in frames.items():
            copy = frame.copy()
            copy.insert(0, "run", label)
            labelled.append(copy)
        return pd.concat(labelled, ignore_index=True)

    def absent(
        self, frame_of: Callable[[RunRecord], pd.DataFrame | None], *probes: str
    ) -> list[str]:
        """Notes that name the runs without a table, where others have one.

        Args:
            frame_of: the table of a run.
            probes: that make it; a run that was asked one has nothing of the kind.
        """
        without = [record for record in self.records if frame_of(record) is None]
        if len(without) == len(self.records):
            return []
        notes = []
        for words, was_asked in ((NOT_RUN, False), ("not defined", True)):
            labels = [
                record.label
                for record in without
                if any(probe in record.probes for probe in probes) == was_asked
            ]
            if labels:
                notes.append(f"{words} for: {'; '.join(labels)}.")
        return notes

    def series(self, frame_of: Callable[[RunRecord], pd.DataFrame | None]) -> dict[str, Any]:
        """The tables of the runs that have one, by label."""
        frames = {record.label: frame_of(record) for record in self.records}
        return {label: frame for label, frame in frames.items() if frame is not None}

    def notes(self, *probes: str) -> list[str]:
        """The notes of some probes; with the label in front if there are several runs."""
        notes = []
        for record in self.records:
            for probe in probes:
                for note in record.notes(probe):
                    text = f"{record.label}: {note}" if self.several else note
                    if text not in notes:
                        notes.append(text)
        return notes

    def command(self, command_of: Callable[[RunRecord], str]) -> str:
        """The commands of all runs, one after the other."""
        return "; ".join(dict.fromkeys(command_of(record) for record in self.records))

    def missing(self, probe: str) -> str:
        """Why a probe has no answer: nobody asked, or the model has nothing of the kind."""
        asked = any(probe in record.probes for record in self.records)
        return NOT_DEFINED if asked else NOT_RUN

    def probe_command(self, probe: str) -> str:
        return self.command(lambda record: record.probe_command(probe))

    @property
    def result_command(self) -> str:
        return self.command(lambda record: record.command)

    def probe_table(
        self,
        probe: str,
        title: str,
        name: str | None = None,
        shown: Callable[[pd.DataFrame], pd.DataFrame] | None = None,
        marked: Callable[[pd.DataFrame], Sequence[int]] | None = None,
        folded: bool = False,
    ) -> Table:
        """A table as a probe left it."""
        frame_of = partial(probe_frame, probe=probe, name=name)
        frame = self.joined(frame_of)
        certain = self.joined(partial(certain_frame, probe=probe, name=name))
        return Table(
            name or probe,
            title,
            frame,
            self.probe_command(probe),
            shown=None if certain is None or shown is None else shown(certain),
            notes=[
                *self.notes(probe),
                *self.absent(frame_of, probe),
                *(() if certain is None else doubt_notes(certain)),
            ],
            marked=() if frame is None or marked is None else marked(frame),
            folded=folded,
            missing=self.missing(probe),
        )


def probe_frame(record: RunRecord, probe: str, name: str | None = None) -> pd.DataFrame | None:
    """A table of a probe; None if it was not run or has no rows."""
    frame = record.table(probe, name)
    return None if frame is None or frame.empty else frame


def certain_frame(record: RunRecord, probe: str, name: str | None = None) -> pd.DataFrame | None:
    """The same with Wilson's interval beside the shares for which the probe left none."""
    frame = probe_frame(record, probe, name)
    return None if frame is None else with_intervals(frame, record.n_sequences("test"))


def sweep_of(record: RunRecord) -> pd.DataFrame | None:
    """The sweep on the test data, from whichever probe made it."""
    frame = certain_frame(record, "alpha_sweep")
    if frame is None:
        frame = probe_frame(record, "alpha_selection", "alpha_selection_test_sweep")
    return frame


def chosen_alpha(record: RunRecord) -> float | None:
    """The alpha chosen on validation, None if the choice was not run or was made layer by layer."""
    sweep = record.table("alpha_selection", "alpha_selection_test_sweep")
    if sweep is None or "alpha" not in sweep:
        return None
    return record.probes["alpha_selection"].about["alpha"]


def samples_of_choice(record: RunRecord) -> pd.DataFrame | None:
    """How often each alpha is chosen over bootstrap samples of the validation users: columns
    ``epsilon``, ``alpha``, ``share``; None if the choice was not run or was made layer by layer."""
    if chosen_alpha(record) is None:
        return None
    frame = record.probes["alpha_selection"].tables.get("alpha_selection_bootstrap")
    return None if frame is None or frame.empty else frame


def oracle_alpha(record: RunRecord) -> float:
    """The alpha that the same rule would choose on the test data."""
    stored = record.probes["alpha_selection"]
    table = stored.tables["alpha_selection"]
    return float(table.loc[table["epsilon"] == stored.about["epsilon"], "oracle_alpha"].iloc[0])
