"""Any model under many settings: a forward of its own for each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from recbole.data.interaction import Interaction

from recbole_residual.decomposition import Decomposition, observe
from recbole_residual.decomposition.stages import has_ratios, stages_of
from recbole_residual.decomposition.sums import all_and_last, ratio_sums, row_sums
from recbole_residual.errors import NoPositionError
from recbole_residual.evaluator.earlier_ranking import position_scores
from recbole_residual.evaluator.ranks import listed_rank, nan_rows, rank_of, refuse_rows
from recbole_residual.evaluator.recovery_rate import OFFSETS
from recbole_residual.model.architecture.window import ends_in_mask, watching_input
from recbole_residual.probe.engine.counts import Counts
from recbole_residual.probe.engine.outcome import Evaluation
from recbole_residual.probe.engine.rows import Rows
from recbole_residual.probe.engine.sequence_figures import SequenceFigures
from recbole_residual.probe.engine.setting import ScalableResiduals, Setting, applied

MASK_NOTE = (
    "The last position holds [MASK]: the mixing ratio there does not speak of the last item."
)


def evaluate_one_by_one(
    model: Any, settings: Sequence[Setting], topk: Sequence[int], rows: Iterator[Rows]
) -> Evaluation:
    """Any model: one forward per batch and setting, and one more for the earlier positions."""
    counts, notes = Counts(len(settings), topk, stages_of(model)), []
    sequences = SequenceFigures(topk, stages_of(model))
    if not has_ratios(model):
        notes.append(f"{type(model).__name__} has no attention block: no mixing ratios.")
    if ends_in_mask(model):
        notes.append(MASK_NOTE)
    unscaled = ScalableResiduals.of(model).unscaled
    for batch in rows:
        interaction = batch.interaction.to(model.device)
        target = batch.target.to(model.device)
        evaluated = [
            _evaluate(model, setting, interaction, target, max(topk)) for setting in settings
        ]
        position_ranks = None
        if counts.reads_positions:
            try:
                position_ranks = read_positions(model, unscaled, interaction, target)
            except NoPositionError:
                notes.append(
                    f"{type(model).__name__} cannot be read at positions before the last: no "
                    "recoverable base."
                )
        refuse_rows(torch.stack([one.broken for one in evaluated]))
        ranks = torch.stack([one.ranks for one in evaluated])
        counts.add_ranks(ranks, position_ranks)
        ratios = [one.ratios for one in evaluated if one.ratios is not None]
        if ratios:
            counts.add_ratios(
                ratios[0].layers,
                torch.stack([of_setting.sums for of_setting in ratios]),
                ratios[0].n_positions,
            )
            by_row = torch.stack([of_setting.by_row for of_setting in ratios])
            sequences.add_ratios(ratios[0].layers, by_row, ratios[0].row_positions)
        sequences.add_ranks(ranks, position_ranks)
    return Evaluation.of(counts, notes, -1, sequences)


@dataclass(frozen=True)
class _RatioSums:
    layers: tuple[str, ...]
    sums: torch.Tensor
    n_positions: torch.Tensor
    by_row: torch.Tensor
    row_positions: torch.Tensor

    @classmethod
    def of(cls, forwards: Sequence[Decomposition]) -> _RatioSums:
        """Sums [layer, stage, 2] over all forwards of one batch, and those of each row,
        [layer, stage, R, 2]."""
        groups = [all_and_last(forward.mask) for forward in forwards]
        sums = [ratio_sums(forward.ratios, group) for forward, group in zip(forwards, groups)]
        counts = torch.stack([group.sum(dim=(0, 1)) for group in groups]).sum(dim=0)
        by_row = [row_sums(forward.ratios, group) for forward, group in zip(forwards, groups)]
        return cls(
            layers=forwards[0].layers,
            sums=torch.stack(sums).sum(dim=0),
            n_positions=counts,
            by_row=torch.cat(by_row, dim=2),
            row_positions=torch.cat([forward.mask.sum(dim=1) for forward in forwards]),
        )


@dataclass(frozen=True)
class _Evaluated:
    ranks: torch.Tensor
    broken: torch.Tensor
    ratios: _RatioSums | None


def _evaluate(
    model: Any, setting: Setting, interaction: Interaction, target: torch.Tensor, largest: int
) -> _Evaluated:
    forwards: list[Decomposition] = []
    with ExitStack() as stack:
        stack.enter_context(applied(model, setting))
        if has_ratios(model):
            stack.enter_context(observe(model, forwards.append))
        watch = stack.enter_context(watching_input(model))
        scores = model.full_sort_predict(interaction).view(len(target), -1)
    window = watch.take(interaction)
    items = torch.stack([target, window.item_before_end(0), window.item_before_end(1)], dim=1)
    ratios = _RatioSums.of(forwards) if forwards else None
    ranks = rank_of(scores, items)
    listed = listed_rank(scores, target, largest).unsqueeze(1)
    return _Evaluated(torch.cat([ranks, listed], dim=1), nan_rows(scores), ratios)


def read_positions(
    model: Any, unscaled: Setting, interaction: Interaction, target: torch.Tensor
) -> torch.Tensor:
    """Ranks of the target at L, L-1, L-2, L-3, 0 where there is no such position, [R, 4]."""
    ranks = target.new_empty(len(target), len(OFFSETS))
    step = -(-len(target) // len(OFFSETS))
    with ExitStack() as stack:
        stack.enter_context(applied(model, unscaled))
        watch = stack.enter_context(watching_input(model))
        for start in range(0, len(target), step):
            chunk = slice(start, start + step)
            read = position_scores(model, interaction[chunk], OFFSETS)
            refuse_rows(nan_rows(read))
            for offset, scores in zip(OFFSETS, read):
                ranks[chunk, offset] = rank_of(scores, target[chunk])
    n_positions = watch.take(interaction).n_positions
    return ranks * (n_positions.unsqueeze(1) > torch.tensor(OFFSETS, device=ranks.device))
