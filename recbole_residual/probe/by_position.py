"""What stands at the positions before the last: mixing ratio and accuracy read from each.

Reference:
    Kozaki et al. "Residual Dominance as a Structural Account of Last-Item Reliance in Causal
    Self-Attention Recommenders", 2026 (recovery).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import torch

from recbole_residual.decomposition.observer import observe
from recbole_residual.decomposition.result import Decomposition
from recbole_residual.decomposition.stages import has_ratios, stages_of
from recbole_residual.decomposition.sums import counted_from_end, ratio_sums
from recbole_residual.evaluator.gains import rank_gains
from recbole_residual.evaluator.recovery_rate import OFFSETS
from recbole_residual.model.architecture.positions import POOLS_ITS_POSITIONS
from recbole_residual.model.architecture.window import ends_in_mask
from recbole_residual.probe.alpha_sweep import DEFAULT_TOPK
from recbole_residual.probe.arguments import check_topk
from recbole_residual.probe.engine.counts import recoverable
from recbole_residual.probe.engine.evaluation import in_eval_mode
from recbole_residual.probe.engine.one_by_one import MASK_NOTE, read_positions
from recbole_residual.probe.engine.rows import iterate_rows
from recbole_residual.probe.engine.setting import ScalableResiduals, applied
from recbole_residual.probe.result import ProbeResult
from recbole_residual.probe.source import model_and_data
from recbole_residual.run.session import Source

ANY = "any of L-1 to L-3"
"""The row that takes the positions before the last together."""


@dataclass(frozen=True, repr=False)
class PositionReading(ProbeResult):
    """One row per position: L, L-1, L-2, L-3, and the three before the last together.

    Columns: ``position``; ``n_sequences`` that have it; ``hit@k``, ``ndcg@k``, ``mrr@k`` of the
    ranking read there; ``mixingratio_attn``, ``mixingratio_res``, ``mixingratio_ln`` there;
    ``n_missed@k``, how many sequences that have the position are missed at L; ``recovers@k``, the
    share of those that are hit here. In the last row ``recovers@k * n_missed@k`` is the size of the
    recoverable base.
    """

    name: ClassVar[str] = "positions"

    def short_frame(self) -> pd.DataFrame:
        """Accuracy and recovery at one k, and the mixing ratios."""
        topk = self.about["topk"]
        k = 10 if 10 in topk else topk[-1]
        shown = [name for name in self.columns if "@" not in name or name.endswith(f"@{k}")]
        return self.frame[shown]


@torch.no_grad()
def positions(
    source: Source,
    data: Any = None,
    *,
    topk: Sequence[int] = DEFAULT_TOPK,
    show_progress: bool = False,
) -> PositionReading:
    """Read mixing ratio and ranking at L, L-1, L-2 and L-3, on the full input, at alpha = 1.

    Args:
        source: a RecBole sequential model with ``data`` beside it; or a session, the folder of a
            run, or a checkpoint.
        data: a RecBole loader for full ranking; by default the session's ``test_data``.
        topk: the values of k.
        show_progress: show a progress bar.

    Raises:
        NoPositionError: if the model cannot be read at earlier positions.
        ProbeDataError, HistoryMaskedError, NaNScoreError: as
            :func:`~recbole_residual.probe.sweep_alpha`.
    """
    model, data = model_and_data(source, data)
    ks = check_topk(topk, model)
    observed = has_ratios(model)
    unscaled = ScalableResiduals.of(model).unscaled
    batches, ratios = [], _RatiosByPosition(stages_of(model))
    with in_eval_mode(model):
        for rows in iterate_rows(data, "Positions", show_progress):
            interaction = rows.interaction.to(model.device)
            target = rows.target.to(model.device)
            if not observed:
                read = read_positions(model, unscaled, interaction, target)
            elif isinstance(model, POOLS_ITS_POSITIONS):
                # Read from shortened inputs; the ratios are those of the full input.
                with applied(model, unscaled), observe(model, ratios.add):
                    model.full_sort_predict(interaction)
                read = read_positions(model, unscaled, interaction, target)
            else:
                with observe(model, ratios.add):
                    read = read_positions(model, unscaled, interaction, target)
            batches.append(read)
    ranks = torch.cat(batches).cpu()
    by_position = ratios.means()
    table = [_row(ranks, offset, ks, by_position[offset]) for offset in OFFSETS]
    notes = [MASK_NOTE] if ends_in_mask(model) else []
    if not observed:
        notes.append(f"{type(model).__name__} has no attention block: no mixing ratios.")
    return PositionReading(
        frame=pd.DataFrame([*table, _any_row(ranks, ks)]),
        about={
            "model": type(model).__name__,
            "n_sequences": len(ranks),
            "topk": list(ks),
        },
        notes=notes,
    )


class _RatiosByPosition:
    """Sums of mixing ratios, means over layers, by distance from the end."""

    def __init__(self, stages: Sequence[str]) -> None:
        self._stages = stages
        self._sums: list[torch.Tensor] = []
        self._counts: list[torch.Tensor] = []

    def add(self, forward: Decomposition) -> None:
        """Add one batch; what is kept stays on its device, so that nothing waits for it."""
        groups = counted_from_end(forward.mask, OFFSETS)
        self._sums.append(ratio_sums(forward.ratios.double().mean(dim=0), groups).T)
        self._counts.append(groups.sum(dim=(0, 1)))

    def means(self) -> dict[int, dict[str, float]]:
        """The mean of each stage, by offset; NaN where there is nothing."""
        if not self._sums:
            return {offset: dict.fromkeys(self._names, float("nan")) for offset in OFFSETS}
        values = torch.stack(self._sums).sum(dim=0) / torch.stack(self._counts).sum(dim=0)[:, None]
        return {
            offset: dict(zip(self._names, of_offset))
            for offset, of_offset in zip(OFFSETS, values.tolist())
        }

    @property
    def _names(self) -> list[str]:
        return [f"mixingratio_{stage}" for stage in self._stages]


def _row(
    ranks: torch.Tensor, offset: int, topk: Sequence[int], ratios: dict[str, float]
) -> dict[str, Any]:
    has_position = ranks[:, offset] > 0
    read_here = ranks[has_position, offset].double().numpy()
    row: dict[str, Any] = {
        "position": f"L-{offset}" if offset else "L",
        "n_sequences": len(read_here),
    }
    for name, gain in rank_gains(read_here).items():
        row.update({f"{name}@{k}": _mean(gain * (read_here <= k)) for k in topk})
    row.update(ratios)
    for k in topk:
        missed = has_position & (ranks[:, 0] > k)
        row[f"n_missed@{k}"] = int(missed.sum())
        row[f"recovers@{k}"] = _mean((ranks[missed, offset] <= k).double().numpy())
    return row


def _any_row(ranks: torch.Tensor, topk: Sequence[int]) -> dict[str, Any]:
    longer = ranks[:, 1] > 0
    row: dict[str, Any] = {"position": ANY, "n_sequences": int(longer.sum())}
    for k in topk:
        missed = longer & (ranks[:, 0] > k)
        row[f"n_missed@{k}"] = int(missed.sum())
        row[f"recovers@{k}"] = _mean(recoverable(ranks[missed], k).double().numpy())
    return row


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else float("nan")
