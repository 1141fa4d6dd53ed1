"""What stands at the positions before the last: mixing ratio and accuracy read from each.

Reference:
    Kozaki et al. "Residual Dominance as a Structural Account of Last-Item Reliance in Causal
    Self-Attention Recommenders", 2026 (recovery).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import torch

from recbole_residual.decomposition.observer import observe
from recbole_residual.decomposition.stages import has_ratios, stages_of
from recbole_residual.decomposition.sums import counted_from_end
from recbole_residual.evaluator.gains import rank_gains
from recbole_residual.evaluator.recovery_rate import OFFSETS
from recbole_residual.model.architecture.positions import POOLS_ITS_POSITIONS
from recbole_residual.model.architecture.window import ends_in_mask
from recbole_residual.probe.alpha_sweep import DEFAULT_TOPK
from recbole_residual.probe.arguments import check_topk
from recbole_residual.probe.engine.counts import recoverable
from recbole_residual.probe.engine.evaluation import in_eval_mode
from recbole_residual.probe.engine.one_by_one import MASK_NOTE, read_positions
from recbole_residual.probe.engine.row_ratios import RowRatios
from recbole_residual.probe.engine.rows import iterate_rows
from recbole_residual.probe.engine.sequence_figures import Column
from recbole_residual.probe.engine.setting import ScalableResiduals, applied
from recbole_residual.probe.intervals import Columns, Intervals, figure
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
    batches, ratios = [], RowRatios(partial(counted_from_end, offsets=OFFSETS))
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
    nothing = np.zeros(len(ranks))

    def ratio(stage: str, offset: int) -> Column:
        return ratios.column("all", stage, offset) if observed else (nothing, nothing)

    by_position = [
        _columns(
            ranks.numpy(),
            offset,
            ks,
            {f"mixingratio_{stage}": ratio(stage, offset) for stage in stages_of(model)},
        )
        for offset in OFFSETS
    ]
    together = {**dict.fromkeys(by_position[0], (nothing, nothing)), **_any_columns(ranks, ks)}
    columns = [*by_position, together]
    names = [*(f"L-{offset}" if offset else "L" for offset in OFFSETS), ANY]
    sizes = [*(ranks > 0).sum(dim=0).tolist(), int((ranks[:, 1] > 0).sum())]
    notes = [MASK_NOTE] if ends_in_mask(model) else []
    if not observed:
        notes.append(f"{type(model).__name__} has no attention block: no mixing ratios.")
    return PositionReading(
        frame=pd.DataFrame([_row(*row) for row in zip(names, sizes, columns)]),
        about={
            "model": type(model).__name__,
            "n_sequences": len(ranks),
            "topk": list(ks),
        },
        notes=notes,
        intervals=Intervals(pd.DataFrame({"position": names}), columns),
    )


def _columns(
    ranks: np.ndarray, offset: int, topk: Sequence[int], ratios: Columns
) -> dict[str, Column]:
    """What each sequence adds to the figures of one position.

    Args:
        ranks: of the target, read at each of the positions, 0 where there is none, [n, 4].
        offset: of the position, back from the last.
        topk: the values of k.
        ratios: those of the mixing ratios there.
    """
    here, has_position = ranks[:, offset], (ranks[:, offset] > 0).astype(float)
    columns: Columns = {}
    for name, gain in rank_gains(np.maximum(here, 1)).items():
        columns.update(
            {f"{name}@{k}": (gain * (here <= k) * has_position, has_position) for k in topk}
        )
    columns.update(ratios)
    for k in topk:
        missed = has_position * (ranks[:, 0] > k)
        columns[f"recovers@{k}"] = (missed * (here <= k), missed)
    return columns


def _any_columns(ranks: torch.Tensor, topk: Sequence[int]) -> Columns:
    """The same of the positions before the last together."""
    columns: Columns = {}
    for k in topk:
        missed = ((ranks[:, 1] > 0) & (ranks[:, 0] > k)).double().numpy()
        columns[f"recovers@{k}"] = (missed * recoverable(ranks, k).numpy(), missed)
    return columns


def _row(name: str, n_sequences: int, columns: Columns) -> dict[str, Any]:
    """The figures of one position, and what each share of the missed is of."""
    row: dict[str, Any] = {"position": name, "n_sequences": n_sequences}
    for column in columns:
        if column.startswith("recovers"):
            row[column.replace("recovers", "n_missed")] = int(columns[column][1].sum())
        row[column] = figure(columns[column])
    return row
