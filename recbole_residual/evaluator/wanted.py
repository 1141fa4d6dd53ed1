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
        ks: every k. Of input items and of positions a metric asks only whether the rank is above.
    """

    topk: bool
    lists: bool
    mean_rank: bool
    n_back: dict[str, int]
    positions: bool
    ratios: bool
    ks: list[int]

    @property
    def largest(self) -> int:
        """The largest k."""
        return max(self.ks)

    @property
    def ours(self) -> bool:
        """Whether a metric of this package is among them: they refuse scores that are NaN."""
        return bool(self.n_back) or self.positions or self.ratios
