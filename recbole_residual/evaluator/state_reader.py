"""The states of all rows of a pool, and whether they give the model's own scores."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from recbole.data.interaction import Interaction

from recbole_residual.evaluator.counting import Ranker
from recbole_residual.evaluator.item_product import ItemProduct, NotCountableError
from recbole_residual.evaluator.observation import Observation, SequenceRatios
from recbole_residual.evaluator.recovery_rate import OFFSETS
from recbole_residual.evaluator.rounding import measured_margin, relative_margin
from recbole_residual.evaluator.row_pool import Pool, chunks_by_length, trimmed
from recbole_residual.evaluator.sasrec_ratios import SasrecRatios, has_sasrec_ratios
from recbole_residual.evaluator.states import last_states
from recbole_residual.evaluator.wanted import Wanted
from recbole_residual.model.architecture.positions import POOLS_ITS_POSITIONS
from recbole_residual.model.architecture.window import ModelInput
from recbole_residual.model.residual import is_unscaled, unscaled

_CHECKED_ROWS = 16
"""Rows that are computed in both ways at the start of an evaluation."""

_CHECKED_CANDIDATES = 4
"""Sampled items of each of them: RecBole runs the network once for every item."""

_OTHER_NETWORK = 64
"""Scores that differ by so many margins come from different functions, not from rounding."""


@dataclass
class Read:
    """States of all rows of a pool, and what the forwards showed.

    Attributes:
        product: last positions, [N, D].
        positions: at ``OFFSETS``, under the unscaled model, [len(OFFSETS) * N, D].
        items: input items to rank, [N, len(n_back)].
        n_positions: positions that the model was given, [N].
        ratios: mixing ratios.
    """

    product: list[tuple[torch.Tensor, ItemProduct]] = field(default_factory=list)
    positions: list[tuple[torch.Tensor, ItemProduct]] = field(default_factory=list)
    ratios: list[tuple[torch.Tensor, SequenceRatios]] = field(default_factory=list)


class StateReader:
    """Reads the states of rows, sorted by length and trimmed, a bounded number at a time.

    Args:
        model: in eval mode.
        config: the configuration.
        wanted: what the metrics need.
        observation: watches the model's forwards, or None where nobody needs what it sees.

    Attributes:
        margin: see :class:`~recbole_residual.evaluator.counting.Ranker`; widened to what
            :meth:`check` has measured.
    """

    def __init__(
        self, model: Any, config: Any, wanted: Wanted, observation: Observation | None
    ) -> None:
        self._model, self._wanted, self._observation = model, wanted, observation
        self._item_seq = config["ITEM_ID_FIELD"] + config["LIST_SUFFIX"]
        self.margin = relative_margin(model)
        self._trims: bool | None = None
        self._sasrec: SasrecRatios | None = None
        if wanted.ratios:
            with self._unwatched(True):
                if has_sasrec_ratios(model):
                    self._sasrec = SasrecRatios(model)

    # What can be ranked so -----------------------------------------------------------------------

    def check(self, pool: Pool) -> None:
        """Compute some rows in both ways: are they the same scores, and how near to each other?

        Raises:
            NotCountableError: if the model's scores are no product of states and items, or depend
                on more than the row.
        """
        order = torch.sort(pool.item_seq_len, stable=True).indices
        place = torch.linspace(0, len(pool) - 1, _CHECKED_ROWS, device=order.device).round().long()
        rows = torch.unique(order[place])
        with self._unwatched(), self.paused():
            expected = self._expected(pool, rows)
            limit = _OTHER_NETWORK * max(self.margin, torch.finfo(torch.float32).tiny)
            for trims in (True, False):
                self._trims = trims
                try:
                    apart = self._apart(pool, rows, expected)
                except (IndexError, RuntimeError):
                    if trims:  # a network that is built for one width, as FEARec
                        continue
                    raise
                if apart <= limit:
                    self.margin = max(self.margin, apart)
                    return
        raise NotCountableError("trimmed and sorted batches give other scores")

    def _expected(self, pool: Pool, rows: torch.Tensor) -> torch.Tensor:
        """The model's own scores of everything that is ranked, [R, C]."""
        if pool.candidates is not None:
            batch = pool.candidates.of_rows(rows, _CHECKED_CANDIDATES)
            return self._model.predict(batch).view(len(rows), -1)
        try:
            scores = self._model.full_sort_predict(pool.interaction[rows])
        except NotImplementedError as error:
            raise NotCountableError("the model has no full_sort_predict") from error
        return scores.view(len(rows), -1)[:, 1:]

    def _apart(self, pool: Pool, rows: torch.Tensor, expected: torch.Tensor) -> float:
        largest = 0.0
        # Short rows apart from long ones, so that something is trimmed.
        for part in chunks_by_length(pool.item_seq_len[rows], 2 * self._width(pool)):
            product, _ = self._last_states(self._batch(pool, rows[part]), (0,))
            ranker = Ranker(product.items, product.bias)
            size = ranker.size(product.states)
            if pool.candidates is not None:
                items = pool.candidates.items[rows[part], :_CHECKED_CANDIDATES]
                scores = ranker.scores(product.states, items)
            else:
                scores = product.states @ product.items[1:].t()
                if product.bias is not None:
                    scores = scores + product.bias[1:]
            apart = measured_margin(expected[part], scores, size)
            if not apart < float("inf"):  # NaN too
                raise NotCountableError("a score is not finite")
            largest = max(largest, apart)
        return largest

    def _width(self, pool: Pool) -> int:
        return pool.interaction[self._item_seq].shape[1]

    def _batch(self, pool: Pool, rows: torch.Tensor) -> Interaction:
        full = self._width(pool)
        width = max(1, int(pool.item_seq_len[rows].max())) if self._trims else full
        return trimmed(pool.interaction[rows], width, full)

    @contextmanager
    def _unwatched(self, always: bool = False) -> Iterator[None]:
        """Inside, nobody watches the model for ratios that come with its states."""
        if self._observation is None or not (always or self._sasrec is not None):
            yield
            return
        with self._observation.without_ratios():
            yield

    def paused(self) -> Any:
        """Inside, forwards of the model leave nothing behind for whoever observes it."""
        return (self._observation or Observation(self._model)).paused()

    # The states ----------------------------------------------------------------------------------

    def read(self, pool: Pool, items: torch.Tensor, n_positions: torch.Tensor) -> Read:
        """The states of every row.

        Args:
            pool: the rows.
            items: gets the input items to rank, from its second column on, [N, 1 + n].
            n_positions: gets the numbers of positions that the model was given, [N].

        Raises:
            NotCountableError: if the model's scores are no product of states and items.
        """
        with self._unwatched():
            return self._read(pool, items, n_positions)

    def _read(self, pool: Pool, items: torch.Tensor, n_positions: torch.Tensor) -> Read:
        read, wanted = Read(), self._wanted
        same = self._reads_in_one_forward()
        for rows in self._chunks(pool):
            batch = self._batch(pool, rows)
            product, ratios = self._last_states(batch, OFFSETS if same else (0,))
            if not bool(product.states.isfinite().all()):
                raise NotCountableError("a state is not finite")
            if same:
                read.positions.append((rows, product))
                states = product.states[: len(rows)]
                product = ItemProduct(states, product.items, product.bias)
            read.product.append((rows, product))
            if ratios is not None:
                read.ratios.append((rows, ratios))
            if self._observation is not None:
                self._look(read, batch, rows, items, n_positions)
            if wanted.positions and not same:
                with self.paused(), unscaled(self._model):
                    read.positions.append((rows, last_states(self._model, batch, OFFSETS)))
        return read

    def _last_states(
        self, batch: Interaction, offsets: tuple[int, ...]
    ) -> tuple[ItemProduct, SequenceRatios | None]:
        """States of a batch, and its ratios where they come with the states."""
        if self._sasrec is None:
            return last_states(self._model, batch, offsets), None
        item_seq_len = batch[self._model.ITEM_SEQ_LEN]
        if int(item_seq_len.min()) < 1:
            raise NotCountableError("a sequence is empty")
        states, ratios = self._sasrec.read(batch[self._model.ITEM_SEQ], item_seq_len, offsets)
        return ItemProduct(states, self._model.item_embedding.weight), ratios

    def _reads_in_one_forward(self) -> bool:
        """Whether the forward under evaluation is the unscaled model's, at every position."""
        pools = isinstance(self._model, POOLS_ITS_POSITIONS)
        return self._wanted.positions and not pools and is_unscaled(self._model)

    def _chunks(self, pool: Pool) -> Iterator[torch.Tensor]:
        if self._trims:
            n_positions = 0 if self._sasrec is None else self._sasrec.n_positions
            return chunks_by_length(pool.item_seq_len, n_positions)
        return chunks_by_length(torch.full_like(pool.item_seq_len, self._width(pool)))

    def _look(
        self,
        read: Read,
        batch: Interaction,
        rows: torch.Tensor,
        items: torch.Tensor,
        n_positions: torch.Tensor,
    ) -> None:
        assert self._observation is not None
        every = torch.arange(len(rows), device=rows.device)
        if self._wanted.ratios and self._sasrec is None:
            read.ratios.append((rows, self._observation.take_ratios(every, len(every))))
        if self._wanted.n_back or self._wanted.positions:
            window: ModelInput = self._observation.take_input(batch, every)
            n_positions[rows] = window.n_positions
            for column, n_back in enumerate(self._wanted.n_back.values(), start=1):
                items[rows, column] = window.item_before_end(n_back)
