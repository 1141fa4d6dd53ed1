"""All figures of a model under many settings, in one pass over the data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Callable

import numpy as np
import torch
from recbole.data.interaction import Interaction

from recbole_residual.decomposition.blocks import model_layers
from recbole_residual.decomposition.observer import observe
from recbole_residual.decomposition.result import Decomposition
from recbole_residual.decomposition.stages import ATTENTION_STAGES, GATE_STAGES, stages_of
from recbole_residual.evaluator.model_input import ModelInput, appends_mask, watching_windows
from recbole_residual.evaluator.positions import NoPositionError, position_scores
from recbole_residual.evaluator.ranks import rank_of, refuse_nan
from recbole_residual.evaluator.recovery_rate import OFFSETS
from recbole_residual.model.residual import NoAttentionError, attention_blocks
from recbole_residual.probe.encoder import SweepEncoder, is_plain_sasrec
from recbole_residual.probe.plan import Plan
from recbole_residual.probe.ranking import Ranker
from recbole_residual.probe.rows import Pool, Rows, iterate_rows, pooled
from recbole_residual.probe.setting import Reach, Setting, applied
from recbole_residual.probe.tally import RANKED, Tally

Perturbation = Callable[[Rows], Rows]
"""Changes sequences before the model sees them."""

MASK_NOTE = (
    "The last position holds [MASK]: the mixing ratio there does not speak of the last item."
)

_POOL_ROWS = 8192
_POSITIONS = {"cpu": 1600}
"""Positions that go through the network at once: on a CPU few enough to stay in its cache."""
_POSITIONS_ELSEWHERE = 2**16
_PLAIN_SCORES = 2**24
"""Scores held at once where rows are evaluated by the model itself."""


@dataclass(frozen=True)
class Evaluation:
    """What :func:`evaluate_settings` found.

    Attributes:
        tally: the counts.
        notes: what a reader must know.
        n_plain: how many pairs of a row and a setting the shared pass left to the model itself,
            because another item's score was too near to that of an item asked for; -1 where the
            model did everything itself.
    """

    tally: Tally
    notes: list[str]
    n_plain: int


@torch.no_grad()
def evaluate_settings(
    model: Any,
    data: Any,
    settings: Sequence[Setting],
    topk: Sequence[int],
    *,
    perturbation: Perturbation | None = None,
    title: str = "Probe",
    show_progress: bool = False,
) -> Evaluation:
    """Evaluate a model under many settings.

    A SASRec (RecBole's or this package's) goes through :class:`SharedPass`; every other model
    evaluates each setting with a forward of its own. Both give the same numbers.

    Args:
        model: a RecBole sequential model.
        data: a RecBole loader for full ranking.
        settings: different settings.
        topk: the values of k.
        perturbation: changes the sequences first.
        title: of the progress bar.
        show_progress: whether there is one.

    Raises:
        ProbeDataError: if the data cannot be probed.
        HistoryMaskedError: if items of the input are taken out of the ranking.
        NaNScoreError: if a score is NaN.
    """
    rows: Iterator[Rows] = iterate_rows(data, title, show_progress)
    if perturbation is not None:
        rows = map(perturbation, rows)
    with in_eval_mode(model):
        if is_plain_sasrec(model):
            return SharedPass(model, settings, topk).run(rows)
        return _one_by_one(model, settings, topk, rows)


@contextmanager
def in_eval_mode(model: Any) -> Iterator[None]:
    """Inside, dropout is off."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)


def has_ratios(model: Any) -> bool:
    """Whether mixing ratios are defined for ``model``."""
    if stages_of(model) == GATE_STAGES:
        return True
    try:
        return bool(attention_blocks(model))
    except NoAttentionError:
        return False


class SharedPass:
    """One pass of a SASRec over the data for all settings.

    Args:
        model: a model for which ``is_plain_sasrec`` holds, in eval mode.
        settings: different settings.
        topk: the values of k.
    """

    def __init__(self, model: Any, settings: Sequence[Setting], topk: Sequence[int]) -> None:
        self._model = model
        self._settings = list(settings)
        unscaled = Reach.of(model).unscaled
        # The recoverable base is fixed at alpha = 1, also where that is not asked for.
        self._all = self._settings + [unscaled] * (unscaled not in self._settings)
        self._base = self._all.index(unscaled)
        self._encoder = SweepEncoder(model, Plan.of(self._all), self._base, len(OFFSETS) - 1)
        self._ranker = Ranker(model.item_embedding.weight)
        self._layers = [layer.label for layer in model_layers(model)]
        self._tally = Tally(len(self._settings), topk, ATTENTION_STAGES)
        self._n_plain = 0

    def run(self, rows: Iterator[Rows]) -> Evaluation:
        """Evaluate all rows."""
        for pool in pooled(rows, self._model, _POOL_ROWS):
            ranks, position_ranks = self.rank(pool)
            self._tally.add_ranks(ranks[: len(self._settings)], position_ranks)
        return Evaluation(self._tally, [], self._n_plain)

    def rank(self, pool: Pool) -> tuple[torch.Tensor, torch.Tensor]:
        """Ranks of some rows; their mixing ratios go into the tally.

        Returns:
            The ranks of the items of ``RANKED``, [S, R, 3], and those of the target at L, L-1,
            L-2, L-3 under the unchanged model, 0 where there is no such position, [R, 4].
        """
        given = ModelInput.of(pool.item_seq, pool.item_seq_len)
        items = torch.stack([pool.target, given.item_before_end(0), given.item_before_end(1)], 1)
        n_rows, n_back = len(items), len(OFFSETS) - 1
        ranks = items.new_empty(len(self._all), n_rows, len(RANKED))
        position_ranks = items.new_empty(n_rows, len(OFFSETS))
        unsure = torch.zeros(len(self._all), n_rows, dtype=torch.bool, device=items.device)
        unsure_read = torch.zeros(n_rows, dtype=torch.bool, device=items.device)
        for chunk in self._chunks(pool.item_seq_len):
            length = pool.item_seq_len[chunk]
            encoded = self._encoder.encode(pool.item_seq[chunk, : int(length.max())], length)
            wanted = items[chunk]
            counted = self._ranker.count(
                encoded.hidden.flatten(0, 1), wanted.repeat(len(self._all), 1)
            )
            ranks[:, chunk] = counted.ranks.view(len(self._all), len(chunk), -1)
            unsure[:, chunk] = counted.uncertain.view(len(self._all), -1)
            read = self._ranker.count(encoded.read.flatten(0, 1), wanted[:, :1].repeat(n_back, 1))
            position_ranks[chunk, 1:] = read.ranks.view(n_back, -1).t()
            unsure_read[chunk] = read.uncertain.view(n_back, -1).any(dim=0)
            self._add_ratios(encoded.ratio_sums, length)
        self._settle(pool, items, ranks, unsure)
        self._settle_read(pool, position_ranks, unsure_read)
        position_ranks[:, 0] = ranks[self._base, :, 0]
        reached = pool.item_seq_len.unsqueeze(1) > torch.tensor(OFFSETS, device=items.device)
        return ranks, position_ranks * reached

    def _chunks(self, item_seq_len: torch.Tensor) -> Iterator[torch.Tensor]:
        """Rows of nearly the same length, a bounded number of positions at a time."""
        limit = _POSITIONS.get(item_seq_len.device.type, _POSITIONS_ELSEWHERE)
        order = torch.sort(item_seq_len, stable=True).indices
        lengths = item_seq_len[order].cpu().numpy()
        start = 0
        while start < len(lengths):
            tail = lengths[start : start + limit]
            n_positions = tail * np.arange(1, len(tail) + 1)
            end = start + max(1, int(np.searchsorted(n_positions, limit, side="right")))
            yield order[start:end]
            start = end

    def _add_ratios(self, sums: list[torch.Tensor], item_seq_len: torch.Tensor) -> None:
        paths = torch.tensor(self._encoder.plan.paths[: len(self._settings)])
        by_layer = [of_nodes.cpu()[paths[:, layer]] for layer, of_nodes in enumerate(sums)]
        self._tally.add_ratios(
            self._layers, torch.stack(by_layer, dim=1), int(item_seq_len.sum()), len(item_seq_len)
        )

    def _parts(self, rows: torch.Tensor) -> Iterator[torch.Tensor]:
        step = max(1, _PLAIN_SCORES // (self._model.n_items * len(OFFSETS)))
        for start in range(0, len(rows), step):
            yield rows[start : start + step]

    def _interaction(self, pool: Pool, rows: torch.Tensor) -> Interaction:
        return Interaction(
            {
                self._model.ITEM_SEQ: pool.item_seq[rows],
                self._model.ITEM_SEQ_LEN: pool.item_seq_len[rows],
            }
        )

    def _settle(
        self, pool: Pool, items: torch.Tensor, ranks: torch.Tensor, unsure: torch.Tensor
    ) -> None:
        """Where rounding decides, the model's own scores do."""
        for setting, of_setting, at in zip(self._all, ranks, unsure):
            rows = at.nonzero().squeeze(1)
            self._n_plain += len(rows)
            with applied(self._model, setting):
                for part in self._parts(rows):
                    scores = self._model.full_sort_predict(self._interaction(pool, part))
                    refuse_nan(scores)
                    of_setting[part] = rank_of(scores, items[part])

    def _settle_read(self, pool: Pool, position_ranks: torch.Tensor, unsure: torch.Tensor) -> None:
        offsets = OFFSETS[1:]
        with applied(self._model, self._all[self._base]):
            for part in self._parts(unsure.nonzero().squeeze(1)):
                read = position_scores(self._model, self._interaction(pool, part), offsets)
                for offset, scores in zip(offsets, read):
                    refuse_nan(scores)
                    position_ranks[part, offset] = rank_of(scores, pool.target[part])


def _one_by_one(
    model: Any, settings: Sequence[Setting], topk: Sequence[int], rows: Iterator[Rows]
) -> Evaluation:
    """Any model: one forward per batch and setting, and one more for the earlier positions."""
    tally, notes = Tally(len(settings), topk, stages_of(model)), []
    observed = has_ratios(model)
    if not observed:
        notes.append(f"{type(model).__name__} has no attention block: no mixing ratios.")
    if appends_mask(model):
        notes.append(MASK_NOTE)
    unscaled = Reach.of(model).unscaled
    for batch in rows:
        interaction = batch.interaction.to(model.device)
        target = batch.target.to(model.device)
        found = [_evaluate(model, setting, interaction, target, observed) for setting in settings]
        position_ranks = None
        if tally.reads_positions:
            try:
                position_ranks = read_positions(model, unscaled, interaction, target)
            except NoPositionError:
                notes.append(
                    f"{type(model).__name__} cannot be read at positions before the last: no "
                    "recoverable base."
                )
        tally.add_ranks(torch.stack([one.ranks for one in found]), position_ranks)
        ratios = [one.ratios for one in found if one.ratios is not None]
        if ratios:
            tally.add_ratios(
                ratios[0].layers,
                torch.stack([of_setting.sums for of_setting in ratios]),
                ratios[0].n_positions,
                ratios[0].n_last,
            )
    return Evaluation(tally, notes, -1)


@dataclass(frozen=True)
class _RatioSums:
    layers: tuple[str, ...]
    sums: torch.Tensor
    n_positions: int
    n_last: int

    @classmethod
    def of(cls, seen: Sequence[Decomposition]) -> _RatioSums:
        """Sums [layer, stage, 2] over all forwards of one batch."""
        sums, n_positions, n_last = [], 0, 0
        for part in seen:
            order = torch.arange(part.mask.shape[1], device=part.mask.device)
            last = part.mask & (order == (order * part.mask).amax(dim=1, keepdim=True))
            groups = torch.stack([part.mask.flatten(), last.flatten()], dim=1).double()
            sums.append(part.ratios.double().flatten(2) @ groups)
            n_positions += int(part.mask.sum())
            n_last += int(last.sum())
        return cls(seen[0].layers, torch.stack(sums).sum(dim=0), n_positions, n_last)


@dataclass(frozen=True)
class _Evaluated:
    ranks: torch.Tensor
    ratios: _RatioSums | None


def _evaluate(
    model: Any, setting: Setting, interaction: Interaction, target: torch.Tensor, observed: bool
) -> _Evaluated:
    seen: list[Decomposition] = []
    windows: list[torch.Tensor] = []
    with ExitStack() as stack:
        stack.enter_context(applied(model, setting))
        if observed:
            stack.enter_context(observe(model, seen.append))
        if appends_mask(model):
            stack.enter_context(watching_windows(model, windows.append))
        scores = model.full_sort_predict(interaction).view(len(target), -1)
    refuse_nan(scores)
    if windows:
        given = ModelInput.of_masked(torch.cat(windows), model.mask_token)
    else:
        given = ModelInput.of(interaction[model.ITEM_SEQ], interaction[model.ITEM_SEQ_LEN])
    items = torch.stack([target, given.item_before_end(0), given.item_before_end(1)], dim=1)
    return _Evaluated(rank_of(scores, items), _RatioSums.of(seen) if seen else None)


def read_positions(
    model: Any, unscaled: Setting, interaction: Interaction, target: torch.Tensor
) -> torch.Tensor:
    """Ranks of the target at L, L-1, L-2, L-3, 0 where there is no such position, [R, 4]."""
    windows: list[torch.Tensor] = []
    ranks = target.new_empty(len(target), len(OFFSETS))
    step = -(-len(target) // len(OFFSETS))
    with ExitStack() as stack:
        stack.enter_context(applied(model, unscaled))
        if appends_mask(model):
            stack.enter_context(watching_windows(model, windows.append))
        for start in range(0, len(target), step):
            part = slice(start, start + step)
            for offset, scores in zip(OFFSETS, position_scores(model, interaction[part], OFFSETS)):
                refuse_nan(scores)
                ranks[part, offset] = rank_of(scores, target[part])
    if windows:
        n_positions = ModelInput.of_masked(torch.cat(windows), model.mask_token).n_positions
    else:
        n_positions = interaction[model.ITEM_SEQ_LEN]
    return ranks * (n_positions.unsqueeze(1) > torch.tensor(OFFSETS, device=ranks.device))
