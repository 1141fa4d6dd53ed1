"""What every sequence adds to the figures of a probe, for intervals over sequences."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import torch

from recbole_residual.evaluator.gains import rank_gains
from recbole_residual.probe.engine.counts import RANKED, recoverable

MOST_BYTES = 2**31
"""Of memory. What would take more is dropped, and a note says so."""

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
        self._layers: tuple[str, ...] = ()
        self._largest = max(topk)
        self._batches: dict[str, list[np.ndarray]] = {}
        self._n_bytes = 0

    @property
    def complete(self) -> bool:
        """Whether everything was kept."""
        return self._n_bytes <= MOST_BYTES

    @property
    def notes(self) -> list[str]:
        """What a reader must know if not."""
        if self.complete:
            return []
        return [
            f"No bootstrap intervals: what each sequence does under each setting takes more than "
            f"{MOST_BYTES / 2**30:.3g} GiB. A coarser grid has them."
        ]

    def add_ranks(self, ranks: torch.Tensor, position_ranks: torch.Tensor | None) -> None:
        """Add the ranks of some sequences, as to
        :meth:`~recbole_residual.probe.engine.counts.Counts.add_ranks`."""
        fits = self._largest < torch.iinfo(torch.uint8).max
        small = torch.uint8 if fits else torch.int32
        self._keep("ranks", ranks.clamp(max=self._largest + 1).to(small))
        if position_ranks is not None:
            base = [recoverable(position_ranks, k) for k in self._topk]
            self._keep("base", torch.stack(base))

    def add_ratios(
        self, layers: Sequence[str], sums: torch.Tensor, n_positions: torch.Tensor
    ) -> None:
        """Add mixing ratios of the same sequences.

        Args:
            layers: label of each layer, always the same ones.
            sums: over a sequence's positions and over its last one, [S, layer, stage, R, 2].
            n_positions: of each sequence, [R].
        """
        self._layers = tuple(layers)
        self._keep("ratios", sums.transpose(3, 4).float())  # sequences last, as everywhere here
        self._keep("n_positions", n_positions)

    def _keep(self, name: str, values: torch.Tensor) -> None:
        if not self.complete:
            return
        self._n_bytes += values.numel() * values.element_size()
        if self.complete:
            self._batches.setdefault(name, []).append(values.cpu().numpy())
        else:
            self._batches.clear()

    # The weights are the same under all settings, and the same arrays: a bootstrap sums them once.

    @cached_property
    def _ones(self) -> np.ndarray:
        return np.ones(sum(batch.shape[1] for batch in self._batches["ranks"]))

    @cached_property
    def _has_item(self) -> dict[str, np.ndarray]:
        ranks = self._ranks(0)
        return {item: (ranks[item] > 0).astype(float) for item in ("last", "last_but_one")}

    @cached_property
    def _base(self) -> np.ndarray:
        return np.concatenate(self._batches["base"], axis=1).astype(float)

    @cached_property
    def _n_positions(self) -> np.ndarray:
        return np.concatenate(self._batches["n_positions"]).astype(float)

    def _ranks(self, setting: int) -> dict[str, np.ndarray]:
        ranks = np.concatenate([batch[setting] for batch in self._batches["ranks"]])  # [n, 4]
        return dict(zip(RANKED, ranks.T.astype(np.int64)))

    def columns(self, setting: int) -> dict[str, Column]:
        """What sequences add to each figure of one setting, by the names of the figures.

        To be asked when all sequences have been added.
        """
        by_name = self._ranks(setting)
        found: dict[str, Column] = {}
        for name, gain in rank_gains(np.maximum(by_name["listed"], 1)).items():
            found.update(
                {f"{name}@{k}": (gain * (by_name["listed"] <= k), self._ones) for k in self._topk}
            )
        for name, item in (("hrli", "last"), ("hrl2i", "last_but_one")):
            has_item = self._has_item[item]
            for k in self._topk:
                found[f"{name}@{k}"] = (has_item * (by_name[item] <= k), has_item)
        if "ratios" in self._batches:
            found.update(self._ratio_columns(setting))
        if "base" in self._batches:
            for of_k, k in zip(self._base, self._topk):
                found[f"recoveryrate@{k}"] = (of_k * (by_name["target"] <= k), of_k)
        return found

    def _ratio_columns(self, setting: int) -> dict[str, Column]:
        ratios = np.concatenate([batch[setting] for batch in self._batches["ratios"]], axis=3)
        found: dict[str, Column] = {}
        for group, (suffix, weights) in enumerate((("", self._n_positions), ("_last", self._ones))):
            for index, stage in enumerate(self._stages):
                by_layer = ratios[:, index, group].astype(float)
                name = f"mixingratio_{stage}{suffix}"
                found[name] = (by_layer.mean(axis=0), weights)
                if len(self._layers) > 1:
                    for label, of_layer in zip(self._layers, by_layer):
                        found[f"{name}_layer_{label}"] = (of_layer, weights)
        return found
