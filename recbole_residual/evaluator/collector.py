"""RecBole's Collector with what this package's metrics need, and without its faults."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from recbole.data.interaction import Interaction
from recbole.evaluator.collector import Collector, DataStruct

from recbole_residual import processes
from recbole_residual.decomposition.stages import stages_of
from recbole_residual.errors import HistoryMaskedError, NotObservedError
from recbole_residual.evaluator.earlier_ranking import position_scores
from recbole_residual.evaluator.observation import Observation
from recbole_residual.evaluator.ranks import rank_of, refuse_nan
from recbole_residual.evaluator.recovery_rate import OFFSETS
from recbole_residual.evaluator.row_pool import Pool
from recbole_residual.evaluator.wanted import Wanted
from recbole_residual.model.architecture.window import ModelInput
from recbole_residual.model.residual import is_unscaled, unscaled


class BatchedStruct(DataStruct):
    """A DataStruct whose batches stay apart until they are asked for.

    What comes in by :meth:`update_tensor` belongs to one evaluation, what comes in by ``set``
    (numbers of items, counts) stays from one to the next.
    """

    def __init__(self) -> None:
        super().__init__()
        self._batches: dict[str, list[torch.Tensor]] = {}

    def update_tensor(self, name: str, value: torch.Tensor) -> None:
        """Add one batch to a tensor that :meth:`take` will put together."""
        self._batches.setdefault(name, []).append(value.detach().clone())

    def clear(self) -> None:
        """Forget the batches."""
        self._batches = {}

    def take(self) -> DataStruct:
        """Everything, tensors concatenated and on the CPU; the batches are forgotten.

        Of several processes that have evaluated a part each, everybody gets everything: the rows of
        the first process first.
        """
        taken, rows = DataStruct(), {}
        for name, value in self._data_dict.items():
            taken.set(name, value.cpu() if isinstance(value, torch.Tensor) else value)
        while self._batches:
            name, batches = self._batches.popitem()
            rows[name] = torch.cat(batches).cpu()
        by_process = processes.gathered(rows)
        for name in dict.fromkeys(name for of_one in by_process for name in of_one):
            parts = [of_one[name] for of_one in by_process if name in of_one]
            taken.set(name, parts[0] if len(parts) == 1 else torch.cat(parts))
        return taken

    def add_to(self, name: str, number: int) -> None:
        """Add a number to all rows of a tensor."""
        if name in self._batches:
            self._batches[name] = [batch + number for batch in self._batches[name]]


def sequence_rows(user: torch.Tensor, positive_u: torch.Tensor, n_score_rows: int) -> torch.Tensor:
    """The row of the batch that holds the sequence of each target.

    In full ranking that is the row of its scores. In sampled evaluation RecBole's batch holds, one
    user after the other, the user's sequences as often as there are sampled items plus one, the
    true targets first.

    Args:
        user: user id of each row of the batch, [R].
        positive_u: row of the scores of each target, [P].
        n_score_rows: number of rows of scores.

    Returns:
        torch.Tensor: rows of the batch, [P].

    Example:
        >>> user = torch.tensor([7, 7, 7, 7, 9, 9])  # two targets of user 7, one of 9, one sampled
        >>> sequence_rows(user, torch.tensor([0, 0, 1]), 2)
        tensor([0, 1, 4])
    """
    if len(user) == n_score_rows:
        return positive_u
    _, n_rows = torch.unique_consecutive(user, return_counts=True)
    first_row = n_rows.cumsum(0) - n_rows
    n_targets = torch.bincount(positive_u, minlength=n_score_rows)
    first_target = n_targets.cumsum(0) - n_targets
    order = torch.arange(len(positive_u), device=positive_u.device)
    return first_row[positive_u] + order - first_target[positive_u]


class ResidualCollector(Collector):
    """RecBole's Collector for RecBole's metrics and this package's.

    Against RecBole's: batches are concatenated once, not at every batch; values that are not
    tensors are left alone, so ItemCoverage, AveragePopularity and their like work; nothing of an
    evaluation is left for the next one. Only what the metrics in the configuration need is kept.

    Keys beside RecBole's, one row per evaluated sequence:
        rec.last_rank, rec.last_but_one_rank: rank of these input items, 0 where there is none, [P].
        rec.target_rank: rank of the target under the alpha in force, [P].
        rec.position_rank: its rank read at L, L-1, L-2, L-3 at alpha = 1, 0 where there is no such
            position, [P, 4].
        rec.mixing_stages: names of the columns of the next two, a tuple.
        rec.mixing_ratio, rec.mixing_ratio_last, rec.mixing_positions: see
            :class:`~recbole_residual.evaluator.observation.SequenceRatios`.
        eval.user, eval.target, eval.sequence_length, eval.score_row: with ``export_per_user``, [P].

    Config keys:
        metrics, topk, eval_args, export_per_user.
    """

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.data_struct = BatchedStruct()
        self.observation: Observation | None = None
        self._item_seq = config["ITEM_ID_FIELD"] + config["LIST_SUFFIX"]
        self._item_seq_len = config["ITEM_LIST_LENGTH_FIELD"]
        self._input_columns = {
            name: n_back
            for n_back, name in enumerate(("rec.last_rank", "rec.last_but_one_rank"))
            if self.register.need(name)
        }
        self._ranks_positions = self.register.need("rec.position_rank")
        self._reads_input = bool(self._input_columns) or self._ranks_positions
        self._ratios = self.register.need("rec.mixing_ratio")
        self._per_user = bool(config["export_per_user"])

    @contextmanager
    def observing(self, model: Any) -> Iterator[None]:
        """Watch ``model`` during one evaluation. A context inside another one does nothing."""
        if self.observation is not None:
            yield
            return
        self.data_struct.clear()
        self.observation = Observation(model)
        if self._ratios:
            self.data_struct.set("rec.mixing_stages", stages_of(model))
        try:
            with self.observation.watching(ratios=self._ratios, windows=self._reads_input):
                yield
        finally:
            self.observation = None

    @property
    def wanted(self) -> Wanted:
        """What the metrics need of a full ranking."""
        return Wanted(
            topk=self.register.need("rec.topk"),
            lists=self.register.need("rec.items"),
            mean_rank=self.register.need("rec.meanrank"),
            n_back=dict(self._input_columns),
            positions=self._ranks_positions,
            ratios=self._ratios,
            ks=self.topk,
        )

    def collect_rows(self, values: Mapping[str, torch.Tensor], pool: Pool) -> None:
        """Take over what a :class:`~recbole_residual.evaluator.counting_pass.CountingPass` found.

        Args:
            values: by key, one row per sequence of the pool.
            pool: the sequences.
        """
        for name, value in values.items():
            self.data_struct.update_tensor(name, value)
        rows = torch.arange(len(pool), device=pool.target.device)
        if self._per_user:
            self._collect_sequences(pool.interaction, rows, rows, pool.target)
        self._observed().n_score_rows += len(pool)

    def _observed(self) -> Observation:
        if self.observation is None:
            raise NotObservedError
        return self.observation

    @torch.no_grad()
    def eval_batch_collect(
        self,
        scores_tensor: torch.Tensor,
        interaction: Interaction,
        positive_u: torch.Tensor,
        positive_i: torch.Tensor,
    ) -> None:
        """Collect from one batch what the metrics need.

        Args:
            scores_tensor: scores of the whole catalogue, [n_score_rows, n_items].
            interaction: the batch, R rows.
            positive_u: row of the scores of each target, [P].
            positive_i: the targets, [P].

        Raises:
            NaNScoreError: if a score is NaN.
            HistoryMaskedError: if HRLI's item was masked out of the ranking.
            NotObservedError: outside :meth:`observing`.
        """
        super().eval_batch_collect(scores_tensor, interaction, positive_u, positive_i)
        if not (self._reads_input or self._ratios or self._per_user):
            return
        observation = self._observed()
        refuse_nan(scores_tensor)
        device = scores_tensor.device
        score_row, target = positive_u.to(device), positive_i.to(device)
        rows = sequence_rows(
            interaction[self.config["USER_ID_FIELD"]].to(device), score_row, len(scores_tensor)
        )
        if self._ratios:
            ratios = observation.take_ratios(rows, len(interaction))
            self.data_struct.update_tensor("rec.mixing_ratio", ratios.mean)
            self.data_struct.update_tensor("rec.mixing_ratio_last", ratios.last)
            self.data_struct.update_tensor("rec.mixing_positions", ratios.n_positions)
        if self._reads_input:
            window = observation.take_input(interaction, rows)
            if self._input_columns:
                self._collect_input_ranks(scores_tensor, window)
            if self._ranks_positions:
                sequences = interaction[rows.cpu()]
                self._collect_position_ranks(scores_tensor, sequences, score_row, target, window)
        if self._per_user:
            self._collect_sequences(interaction, rows, score_row, target)
        observation.n_score_rows += len(scores_tensor)

    def _collect_input_ranks(self, scores: torch.Tensor, window: ModelInput) -> None:
        items = torch.stack(
            [window.item_before_end(n) for n in self._input_columns.values()], dim=1
        )
        masked = (scores.gather(1, items) == -torch.inf) & (items > 0)
        if masked.any():
            raise HistoryMaskedError(int(masked.any(dim=1).sum()))
        for name, ranks in zip(self._input_columns, rank_of(scores, items).unbind(dim=1)):
            self.data_struct.update_tensor(name, ranks)

    def _collect_position_ranks(
        self,
        scores: torch.Tensor,
        sequences: Interaction,
        score_row: torch.Tensor,
        target: torch.Tensor,
        window: ModelInput,
    ) -> None:
        observation = self._observed()
        model = observation.model
        target_rank = torch.empty_like(target)
        ranks = target.new_zeros(len(target), len(OFFSETS))
        # At alpha = 1 the evaluation itself has just read the last position.
        offsets = OFFSETS[1:] if is_unscaled(model) else OFFSETS
        # As many rows at once as give no more scores than the evaluation itself holds.
        step = -(-len(target) // len(offsets))
        with observation.paused(), unscaled(model):
            for start in range(0, len(target), step):
                part = slice(start, start + step)
                evaluated = scores[score_row[part]]
                target_rank[part] = ranks[part, 0] = rank_of(evaluated, target[part])
                out_of_ranking = evaluated == -torch.inf
                read = position_scores(model, sequences[part].to(scores.device), offsets)
                for offset, at_position in zip(offsets, read):
                    refuse_nan(at_position)
                    at_position.masked_fill_(out_of_ranking, -torch.inf)
                    ranks[part, offset] = rank_of(at_position, target[part])
        reached = window.n_positions.unsqueeze(1) > torch.tensor(OFFSETS, device=ranks.device)
        self.data_struct.update_tensor("rec.target_rank", target_rank)
        self.data_struct.update_tensor("rec.position_rank", ranks * reached)

    def _collect_sequences(
        self,
        interaction: Interaction,
        rows: torch.Tensor,
        score_row: torch.Tensor,
        target: torch.Tensor,
    ) -> None:
        rows = rows.cpu()
        user = interaction[self.config["USER_ID_FIELD"]].cpu()
        length = interaction[self._item_seq_len].cpu()
        self.data_struct.update_tensor("eval.user", user[rows])
        self.data_struct.update_tensor("eval.sequence_length", length[rows])
        self.data_struct.update_tensor("eval.target", target)
        self.data_struct.update_tensor("eval.score_row", score_row + self._observed().n_score_rows)

    def get_data_struct(self) -> DataStruct:
        """Everything collected since the last call, by all processes, on the CPU."""
        if self._per_user and processes.count() > 1:
            n_rows = processes.gathered(self._observed().n_score_rows)
            self.data_struct.add_to("eval.score_row", sum(n_rows[: processes.number()]))
        return self.data_struct.take()


@contextmanager
def observing(trainer: Any) -> Iterator[None]:
    """Let the metrics of ``trainer`` see its model during ``trainer.evaluate``.

    What they see are the Trainer's own forwards. The Trainers of this package do so themselves,
    :func:`recbole_residual.register` puts it around the ``evaluate`` of RecBole's.

    Args:
        trainer: a RecBole Trainer whose ``eval_collector`` is a :class:`ResidualCollector`.
    """
    with trainer.eval_collector.observing(trainer.model):
        yield
