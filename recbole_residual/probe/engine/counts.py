"""Counts from which every figure of a probe is made; they do not depend on batches."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from recbole_residual.evaluator.gains import rank_gains
from recbole_residual.evaluator.recovery_rate import OFFSETS
from recbole_residual.model.architecture.precision import moved

RANKED = ("target", "last", "last_but_one", "listed")
"""What is ranked in every sequence, in this order: three items, by the number of higher scores, and
the target again by its place in RecBole's list, which differs where scores are equal."""


class Counts:
    """What some settings of one model did on the same sequences.

    Ranks are kept as counts, ratios as float64 sums; memory does not depend on the data.

    Args:
        n_settings: number of settings.
        topk: the values of k.
        stages: names of the stages of the mixing ratios.
    """

    def __init__(self, n_settings: int, topk: Sequence[int], stages: Sequence[str]) -> None:
        self.topk = list(topk)
        self.stages = tuple(stages)
        self.layers: tuple[str, ...] = ()
        self.n_sequences = 0
        self._largest = max(topk)
        # By rank: 0 stands for no such item, the last one for all ranks above the largest k. All of
        # it stays on the model's device until a figure is asked for, so that no batch waits for it.
        self._ranks = torch.zeros(n_settings, len(RANKED), self._largest + 2, dtype=torch.int64)
        self._base = torch.zeros(len(topk), dtype=torch.int64)
        self._recovered = torch.zeros(n_settings, len(topk), dtype=torch.int64)
        self._ratios = torch.zeros(n_settings, 0, len(stages), 2, dtype=torch.float64)
        self._positions = torch.zeros(2, dtype=torch.float64)
        self.reads_positions = True

    def add_ranks(self, ranks: torch.Tensor, position_ranks: torch.Tensor | None) -> None:
        """Add the ranks of some sequences.

        Args:
            ranks: those of :data:`RANKED`, 0 for no such item, [S, R, 4].
            position_ranks: of the target, read at L, L-1, L-2, L-3 at alpha = 1, 0 where there is
                no such position, [R, 4]; None if the model cannot be read there.
        """
        self.n_sequences += ranks.shape[1]
        self._to(ranks.device)
        by_item = ranks.clamp(max=self._largest + 1).transpose(1, 2)  # [S, 4, R]
        self._ranks.scatter_add_(2, by_item, torch.ones_like(by_item))
        if position_ranks is None:
            self.reads_positions = False
            return
        for index, k in enumerate(self.topk):
            base = recoverable(position_ranks, k)
            self._base[index] += base.sum()
            self._recovered[:, index] += ((ranks[:, :, 0] <= k) & base).sum(dim=1)

    def _to(self, device: torch.device) -> None:
        for name in ("_ranks", "_base", "_recovered", "_ratios", "_positions"):
            setattr(self, name, moved(getattr(self, name), device))

    def add_ratios(
        self, layers: Sequence[str], sums: torch.Tensor, n_positions: torch.Tensor
    ) -> None:
        """Add mixing ratios.

        Args:
            layers: label of each layer, always the same ones.
            sums: over all valid positions and over last positions, [S, layer, stage, 2].
            n_positions: number of valid positions and of last positions, [2].
        """
        self._to(sums.device)
        if not self.layers:
            self.layers = tuple(layers)
            self._ratios = torch.zeros_like(sums)
        self._ratios += sums
        self._positions += n_positions

    def metrics(self, setting: int) -> dict[str, float]:
        """Every figure of one setting, by the names that this package's evaluation gives them."""
        self._to(torch.device("cpu"))
        _, last, last_but_one, listed = self._ranks[setting].numpy()
        result: dict[str, float] = {}
        for name, gain in rank_gains(np.arange(1, self._largest + 1)).items():
            for k in self.topk:
                result[f"{name}@{k}"] = float(listed[1 : k + 1] @ gain[:k] / listed[1:].sum())
        for name, counts in (("hrli", last), ("hrl2i", last_but_one)):
            for k in self.topk:
                result[f"{name}@{k}"] = _share(counts[1 : k + 1].sum(), counts[1:].sum())
        result.update(self._mixing_ratios(setting))
        for index, k in enumerate(self.topk):
            base = self._base[index].item() if self.reads_positions else 0
            result[f"recoveryrate@{k}"] = _share(self._recovered[setting, index].item(), base)
        for index, k in enumerate(self.topk):
            result[f"recoverybase@{k}"] = self._base[index].item()
        return result

    def _mixing_ratios(self, setting: int) -> dict[str, float]:
        result = {}
        sums = self._ratios[setting].numpy()
        for group, suffix in enumerate(("", "_last")):
            count = self._positions[group].item()
            for index, stage in enumerate(self.stages):
                by_layer = sums[:, index, group]
                name = f"mixingratio_{stage}{suffix}"
                result[name] = _share(by_layer.sum(), count * len(self.layers))
                if len(self.layers) > 1:
                    for label, total in zip(self.layers, by_layer):
                        result[f"{name}_layer_{label}"] = _share(total, count)
        return result


def recoverable(position_ranks: torch.Tensor, k: int) -> torch.Tensor:
    """Which sequences are in the recoverable base: a miss at L, a hit at L-1, L-2 or L-3.

    Args:
        position_ranks: rank of the target read at L, L-1, L-2, L-3 at alpha = 1, 0 for none,
            [R, 4].
        k: the cut-off.

    Example:
        >>> recoverable(torch.tensor([[9, 1, 0, 0], [2, 1, 1, 1], [9, 9, 9, 0]]), 5).tolist()
        [True, False, False]
    """
    hit = (position_ranks > 0) & (position_ranks <= k)
    return ~hit[:, 0] & hit[:, 1 : len(OFFSETS)].any(dim=1)


def _share(count: float, total: float) -> float:
    return float(count / total) if total else float("nan")
