"""Mixing ratios over a whole dataset, without holding them."""

from __future__ import annotations

from typing import Protocol

import pandas as pd
import torch

from recbole_residual.decomposition.masks import positions_from_end
from recbole_residual.errors import ModelError
from recbole_residual.model.architecture.precision import widened

POSITION_GROUPS = ("all", "last", "last-1", "last-2")
"""Every valid position, and the last three of them counted from the end."""

BIN_WIDTH = 1e-4
"""Width of the histogram behind the median: the median is off by at most half of it."""

_N_BINS = round(1 / BIN_WIDTH) + 1  # centred on 0, BIN_WIDTH, ..., 1, so that 0 and 1 are exact


class LabelledRatios(Protocol):
    """What of a :class:`~recbole_residual.decomposition.result.Decomposition` is counted here."""

    @property
    def layers(self) -> tuple[str, ...]: ...

    @property
    def stages(self) -> tuple[str, ...]: ...

    @property
    def ratios(self) -> torch.Tensor: ...

    @property
    def mask(self) -> torch.Tensor: ...

    @property
    def last_position(self) -> str: ...


class RatioStatistics:
    """Streaming mean, standard deviation, median and count of mixing ratios.

    Kept by layer, stage and position group (:data:`POSITION_GROUPS`); memory does not depend on
    how much has been seen. The order of the batches and of :meth:`merge` matters to rounding only.
    The median comes from a histogram with bins of :data:`BIN_WIDTH`.

    Example:
        >>> from recbole_residual.decomposition import Decomposition
        >>> decomposition = Decomposition(
        ...     layers=("1",), stages=("gate",), mask=torch.tensor([[True, True, False]]),
        ...     ratios=torch.tensor([[[[0.0, 0.5, 0.0]]]]),
        ... )
        >>> statistics = RatioStatistics()
        >>> statistics.update(decomposition)
        >>> frame = statistics.to_frame()
        >>> frame[(frame.layer == "1") & (frame.position == "all")][["statistic", "value"]].values
        array([['mean', 0.25],
               ['median', 0.25],
               ['std', 0.25],
               ['count', 2.0]], dtype=object)
    """

    def __init__(self) -> None:
        self.layers: tuple[str, ...] = ()
        self.stages: tuple[str, ...] = ()
        self.last_position: str | None = None
        self._count = torch.zeros(0)
        self._mean = torch.zeros(0)
        self._square = torch.zeros(0)
        self._histogram = torch.zeros(0)

    def _adopt(self, other: LabelledRatios | RatioStatistics) -> None:
        labels = (other.layers, other.stages, other.last_position)
        if self.last_position is None:
            self.layers, self.stages, self.last_position = labels
        elif labels != (self.layers, self.stages, self.last_position):
            raise ModelError(
                f"Ratios of {labels} cannot be added to those of "
                f"{(self.layers, self.stages, self.last_position)}: layers, stages and what stands "
                "at the last position must be the same."
            )

    def update(self, decomposition: LabelledRatios) -> None:
        """Add the ratios of one batch.

        Raises:
            ValueError: if its layers or stages are not those seen before, or a ratio is not in
                [0, 1] (a NaN, for instance).
        """
        self._adopt(decomposition)
        mask = decomposition.mask
        from_end = positions_from_end(mask)
        batches = []
        for group in range(len(POSITION_GROUPS)):
            chosen = mask if group == 0 else mask & (from_end == group - 1)
            batches.append(_moments(decomposition.ratios[:, :, chosen]))
        count, mean, square, histogram = (torch.stack(tensors) for tensors in zip(*batches))
        self._merge(count, mean, square, histogram)

    def merge(self, other: RatioStatistics) -> None:
        """Add everything that ``other`` has seen.

        Raises:
            ValueError: if its layers or stages are not the same.
        """
        if other.last_position is not None:
            self._adopt(other)
            self._merge(other._count, other._mean, other._square, other._histogram)

    def _merge(
        self,
        count: torch.Tensor,
        mean: torch.Tensor,
        square: torch.Tensor,
        histogram: torch.Tensor,
    ) -> None:
        if not len(self._count):
            self._count, self._mean, self._square = count.clone(), mean.clone(), square.clone()
            self._histogram = histogram.clone()
            return
        merged = _combine((self._count, self._mean, self._square), (count, mean, square))
        self._count, self._mean, self._square = merged
        self._histogram += histogram

    def to_frame(self) -> pd.DataFrame:
        """A tidy table: layer, stage, position, statistic, value, last_position.

        Layer "all" pools every layer. The standard deviation is that of the population; a group
        without any position has count 0 and NaN for the rest.
        """
        rows = []
        host = self._on_host()
        for stage_index, stage in enumerate(self.stages):
            for group_index, group in enumerate(POSITION_GROUPS):
                for layer_index, layer in enumerate((*self.layers, "all")):
                    chosen = slice(None) if layer == "all" else slice(layer_index, layer_index + 1)
                    where = (group_index, chosen, stage_index)
                    values = host._summary(where)
                    rows += [(layer, stage, group, name, value) for name, value in values.items()]
        frame = pd.DataFrame(rows, columns=["layer", "stage", "position", "statistic", "value"])
        return frame.assign(last_position=self.last_position)

    def _on_host(self) -> RatioStatistics:
        """A copy in the host's memory: an accelerator is waited for once and not at each number."""
        host = RatioStatistics()
        for name in ("_count", "_mean", "_square", "_histogram"):
            setattr(host, name, getattr(self, name).cpu())
        return host

    def _summary(self, where: tuple[int, slice, int]) -> dict[str, float]:
        by_layer = list(zip(self._count[where], self._mean[where], self._square[where]))
        count, mean, square = by_layer[0]
        for moments in by_layer[1:]:
            count, mean, square = _combine((count, mean, square), moments)
        if not count:
            mean = square = widened(count) * float("nan")
        return {
            "mean": mean.item(),
            "median": _median(self._histogram[where].sum(dim=0)),
            "std": (square / count).sqrt().item(),
            "count": count.item(),
        }


Moments = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def _moments(ratios: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Count, mean, sum of squared deviations and histogram of [layer, stage, N]."""
    values = widened(ratios)
    shape = values.shape[:-1]
    count = torch.full(shape, values.shape[-1], dtype=values.dtype, device=values.device)
    if not values.shape[-1]:
        zero = torch.zeros_like(count)
        return count, zero, zero, count.new_zeros((*shape, _N_BINS), dtype=torch.int64)
    if not bool(((values >= 0) & (values <= 1)).all()):
        raise ModelError(
            "A mixing ratio outside of [0, 1], or NaN: the model's numbers are broken."
        )
    mean = values.mean(dim=-1)
    square = (values - mean.unsqueeze(-1)).square().sum(dim=-1)
    bins = (values / BIN_WIDTH).round_().long().flatten(0, -2)
    offset = torch.arange(len(bins), device=bins.device).unsqueeze(-1) * _N_BINS
    histogram = torch.bincount((bins + offset).flatten(), minlength=len(bins) * _N_BINS)
    return count, mean, square, histogram.view(*shape, _N_BINS)


def _combine(first: Moments, second: Moments) -> Moments:
    """Moments of two samples together (Chan et al. 1979), safe where one is empty."""
    count = first[0] + second[0]
    share = second[0] / count.clamp_min(1)
    delta = second[1] - first[1]
    mean = first[1] + delta * share
    square = first[2] + second[2] + delta.square() * first[0] * share
    return count, mean, square


def _median(histogram: torch.Tensor) -> float:
    """Mean of the two middle bins (one bin, if the count is odd); NaN if there is nothing."""
    total = int(histogram.sum())
    if not total:
        return float("nan")
    middle = torch.tensor([(total - 1) // 2, total // 2], device=histogram.device)
    bins = torch.searchsorted(histogram.cumsum(0), middle, right=True)
    return float(widened(bins).mean() * BIN_WIDTH)
