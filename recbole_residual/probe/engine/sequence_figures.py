"""What every sequence adds to the figures of a probe, for intervals over sequences."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from recbole_residual.evaluator.gains import rank_gains
from recbole_residual.probe.engine.counts import RANKED, recoverable

MOST_SETTINGS = 200
"""With more settings than this nothing is kept: the memory would grow with their number."""

Column = tuple[np.ndarray, np.ndarray]
"""Of each sequence, what it adds to the sum and what it counts for; the figure is the ratio of the
two sums, [n] each."""


class SequenceFigures:
    """Ranks and mixing ratios of every sequence under S settings, in a few bytes each.

    Args:
        topk: the values of k.
        stages: names of the stages of the mixing ratios.
    """

    def __init__(self, topk: Sequence[int], stages: Sequence[str]) -> None:
        self._topk, self._stages = list(topk), tuple(stages)
        self._largest = max(topk)
        self._batches: dict[str, list[np.ndarray]] = {}

    def add_ranks(self, ranks: torch.Tensor, position_ranks: torch.Tensor | None) -> None:
        """Add the ranks of some sequences, as to
        :meth:`~recbole_residual.probe.engine.counts.Counts.add_ranks`."""
        self._keep("ranks", ranks.clamp(max=self._largest + 1).int())
        if position_ranks is not None:
            base = [recoverable(position_ranks, k) for k in self._topk]
            self._keep("base", torch.stack(base))

    def add_ratios(self, sums: torch.Tensor, n_positions: torch.Tensor) -> None:
        """Add mixing ratios of the same sequences, means over layers.

        Args:
            sums: over a sequence's positions and over its last one, [S, stage, R, 2].
            n_positions: of each sequence, [R].
        """
        self._keep("ratios", sums.transpose(2, 3).float())  # sequences last, as everywhere here
        self._keep("n_positions", n_positions)

    def _keep(self, name: str, values: torch.Tensor) -> None:
        self._batches.setdefault(name, []).append(values.cpu().numpy())

    def columns(self, setting: int) -> dict[str, Column]:
        """What sequences add to each figure of one setting, by the names of the figures."""
        ranks = np.concatenate([batch[setting] for batch in self._batches["ranks"]])  # [n, 4]
        by_name = dict(zip(RANKED, ranks.T))
        found: dict[str, Column] = {}
        ones = np.ones(len(ranks))
        for name, gain in rank_gains(np.maximum(by_name["listed"], 1)).items():
            found.update(
                {f"{name}@{k}": (gain * (by_name["listed"] <= k), ones) for k in self._topk}
            )
        for name, item in (("hrli", "last"), ("hrl2i", "last_but_one")):
            has_item = (by_name[item] > 0).astype(float)
            for k in self._topk:
                found[f"{name}@{k}"] = (has_item * (by_name[item] <= k), has_item)
        found.update(self._ratio_columns(setting))
        if "base" in self._batches:
            base = np.concatenate(self._batches["base"], axis=1).astype(float)
            for index, k in enumerate(self._topk):
                hits = base[index] * (by_name["target"] <= k)
                found[f"recoveryrate@{k}"] = (hits, base[index])
        return found

    def _ratio_columns(self, setting: int) -> dict[str, Column]:
        if "ratios" not in self._batches:
            return {}
        ratios = np.concatenate([batch[setting] for batch in self._batches["ratios"]], axis=2)
        n_positions = np.concatenate(self._batches["n_positions"]).astype(float)
        found: dict[str, Column] = {}
        for index, stage in enumerate(self._stages):
            of_all, of_last = ratios[index].astype(float)
            found[f"mixingratio_{stage}"] = (of_all, n_positions)
            found[f"mixingratio_{stage}_last"] = (of_last, np.ones(len(of_last)))
        return found
