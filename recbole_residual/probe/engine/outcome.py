"""What an evaluation of many settings found."""

from __future__ import annotations

from dataclasses import dataclass

from recbole_residual.probe.engine.counts import Counts
from recbole_residual.probe.engine.sequence_figures import SequenceFigures


@dataclass(frozen=True)
class Evaluation:
    """What one pass over the data found.

    Attributes:
        counts: the counts.
        notes: what a reader must know.
        sequences: what each sequence adds to the figures; None where nothing was kept.
        n_plain: how many pairs of a row and a setting were left to the model itself, because
            another item's score was too near to that of an item asked for; -1 where the model did
            everything itself.
    """

    counts: Counts
    notes: list[str]
    n_plain: int
    sequences: SequenceFigures | None = None

    @classmethod
    def of(
        cls, counts: Counts, notes: list[str], n_plain: int, sequences: SequenceFigures
    ) -> Evaluation:
        """An evaluation, without what each sequence adds if there was too much of that."""
        kept = sequences if sequences.complete else None
        return cls(counts, [*notes, *sequences.notes], n_plain, kept)
