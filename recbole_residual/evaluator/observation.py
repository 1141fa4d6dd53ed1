"""What is seen of the model while RecBole's Trainer evaluates it, in the Trainer's own forwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from recbole.data.interaction import Interaction

from recbole_residual.decomposition import Decomposition, observe
from recbole_residual.model.architecture.positions import last_valid_position
from recbole_residual.model.architecture.precision import widened
from recbole_residual.model.architecture.window import (
    InputWatch,
    ModelInput,
    copies_of_a_row,
    watching_input,
)


@dataclass(frozen=True)
class SequenceRatios:
    """Mixing ratios of R sequences by stage, means over layers, float64.

    Attributes:
        mean: over a sequence's valid positions, [R, n_stages].
        last: at its last valid position, [R, n_stages].
        n_positions: number of its valid positions, [R].
    """

    mean: torch.Tensor
    last: torch.Tensor
    n_positions: torch.Tensor

    @classmethod
    def of(cls, seen: Decomposition) -> SequenceRatios:
        """From one forward. Sums are in float64 and by row: who shares the batch changes nothing
        but rounding of the ratios themselves."""
        return cls.of_positions(seen.ratios, seen.mask)

    @classmethod
    def of_positions(cls, ratios: torch.Tensor, mask: torch.Tensor) -> SequenceRatios:
        """From the ratios of every position.

        Args:
            ratios: [n_layers, n_stages, R, L].
            mask: valid positions, [R, L].
        """
        over_layers = widened(ratios).mean(dim=0) * mask  # [n_stages, R, L]
        n_positions = mask.sum(dim=1)
        last = last_valid_position(mask).view(1, -1, 1).expand(len(over_layers), -1, 1)
        return cls(
            mean=(over_layers.sum(dim=2) / n_positions.clamp(min=1)).T,
            last=over_layers.gather(2, last).squeeze(2).T,
            n_positions=n_positions,
        )


class Observation:
    """One evaluation of one model: what its forwards have shown since the last batch.

    Attributes:
        model: the model under evaluation.
        n_score_rows: rows of scores collected so far, for who counts them.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self.n_score_rows = 0
        self._ratios: list[SequenceRatios] = []
        self._input = InputWatch(model)
        self._paused = False
        self._ratio_hooks = ExitStack()
        self._watches_ratios = False

    @contextmanager
    def watching(self, ratios: bool, windows: bool) -> Iterator[None]:
        """Watch every forward of the model.

        Args:
            ratios: keep its mixing ratios, for :meth:`take_ratios`.
            windows: keep what it is given where that is not ``item_seq``, for :meth:`take_input`.
        """
        with ExitStack() as stack:
            if ratios:
                self._watch_ratios()
                stack.callback(self._unwatch_ratios)
            if windows:
                self._input = stack.enter_context(watching_input(self.model))
            yield

    def _watch_ratios(self) -> None:
        self._ratio_hooks.enter_context(observe(self.model, self._keep_ratios))
        self._watches_ratios = True

    def _unwatch_ratios(self) -> None:
        self._ratio_hooks.close()
        self._watches_ratios = False

    @contextmanager
    def without_ratios(self) -> Iterator[None]:
        """Inside, nothing watches the model for its mixing ratios: somebody else reads them."""
        watched = self._watches_ratios
        self._unwatch_ratios()
        try:
            yield
        finally:
            if watched:
                self._watch_ratios()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Inside, forwards leave nothing behind."""
        self._paused = self._input.paused = True
        try:
            yield
        finally:
            self._paused = self._input.paused = False

    def _keep_ratios(self, seen: Decomposition) -> None:
        if not self._paused:
            self._ratios.append(SequenceRatios.of(seen))

    def forget(self) -> None:
        """Forget what the forwards since the last batch have shown."""
        self._ratios = []
        self._input.forget()

    def take_ratios(self, rows: torch.Tensor, n_rows: int) -> SequenceRatios:
        """The ratios of some rows of the batch, which may have taken several forwards.

        Args:
            rows: which of them, [P].
            n_rows: number of rows of the batch.
        """
        parts, self._ratios = self._ratios, []
        n_seen = sum(len(part.mean) for part in parts)
        rows = rows.to(parts[0].mean.device) * copies_of_a_row(n_seen, n_rows)
        return SequenceRatios(
            mean=torch.cat([part.mean for part in parts])[rows],
            last=torch.cat([part.last for part in parts])[rows],
            n_positions=torch.cat([part.n_positions for part in parts])[rows],
        )

    def take_input(self, interaction: Interaction, rows: torch.Tensor) -> ModelInput:
        """What the model was given for some rows of the batch.

        Args:
            interaction: the whole batch, R rows.
            rows: which of them, [P].
        """
        return self._input.take(interaction).rows(rows)
