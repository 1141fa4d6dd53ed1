"""What an evaluation has to find out."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Wanted:
    """What the metrics of a configuration need.

    Attributes:
        topk, lists, mean_rank: RecBole's rec.topk, rec.items and rec.meanrank.
        n_back: input items to rank, counted back from the last, by the name of their ranks.
        positions: the target's rank at earlier positions.
        ratios: mixing ratios.
        largest: the largest k.
    """

    topk: bool
    lists: bool
    mean_rank: bool
    n_back: dict[str, int]
    positions: bool
    ratios: bool
    largest: int

    @property
    def ours(self) -> bool:
        """Whether a metric of this package is among them: they refuse scores that are NaN."""
        return bool(self.n_back) or self.positions or self.ratios
