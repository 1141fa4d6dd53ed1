"""What goes on inside a model on its evaluation data: ratios, average maps, ranks of the last item.

Reference:
    Kozaki et al. "Residual Dominance as a Structural Account of Last-Item Reliance in Causal
    Self-Attention Recommenders", 2026 (mixing ratios, heatmaps, last-item metrics).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import torch

from recbole_residual.decomposition import Decomposition, RatioStatistics, RecentMap, observe
from recbole_residual.decomposition.stages import GATE_STAGES, stages_of
from recbole_residual.decomposition.statistics import POSITION_GROUPS
from recbole_residual.decomposition.sums import counted_from_end
from recbole_residual.errors import NoAttentionError
from recbole_residual.evaluator.ranks import rank_of, refuse_nan
from recbole_residual.model.architecture.precision import widened
from recbole_residual.model.architecture.window import ends_in_mask, watching_input
from recbole_residual.probe.engine.evaluation import in_eval_mode
from recbole_residual.probe.engine.one_by_one import MASK_NOTE
from recbole_residual.probe.engine.row_ratios import RowRatios
from recbole_residual.probe.engine.rows import iterate_rows
from recbole_residual.probe.engine.setting import current_setting
from recbole_residual.probe.intervals import Intervals
from recbole_residual.probe.result import ProbeResult
from recbole_residual.probe.source import model_and_data
from recbole_residual.probe.uncertainty import wilson
from recbole_residual.run.session import Source

RANKED_ITEMS = ("last input item", "target")
"""Whose ranks are counted."""

NORM_NOTE = (
    "attention_norm_p = {order:g}: the attention weights of a position do not sum to 1; they sum "
    "to the more, the more positions weigh alike."
)
"""Of maps of :mod:`~recbole_residual.model.mass_attention`."""

STATISTICS = ("mean", "median", "std", "count")


@dataclass(frozen=True, repr=False)
class Internals(ProbeResult):
    """Mixing ratios by layer, stage and position; no rows for a model without attention.

    Columns: ``layer`` ("all" pools them), ``stage``, ``position`` (all, last, last-1, last-2),
    ``mean``, ``median``, ``std``, ``count``, ``last_position`` (what stands there: item or [MASK]).

    Attributes:
        maps: average contribution and attention of the 15 most recent positions, columns
            ``layer``, ``query``, ``key`` (0 is the last position), ``contribution``, ``attention``,
            ``count``.
        ranks: where the last input item and the target stand in the ranking, columns ``item``,
            ``rank_from``, ``rank_to``, ``n_sequences``, ``share`` and the ends of its interval.
    """

    name: ClassVar[str] = "internals"

    maps: pd.DataFrame = field(default_factory=pd.DataFrame)
    ranks: pd.DataFrame = field(default_factory=pd.DataFrame)

    def tables(self) -> dict[str, pd.DataFrame]:
        """Ratios, maps and ranks."""
        return {
            **super().tables(),
            f"{self.name}_maps": self.maps,
            f"{self.name}_ranks": self.ranks,
        }

    def short_frame(self) -> pd.DataFrame:
        """Means and medians."""
        return self.frame.drop(columns=["std", "count", "last_position"])


@torch.no_grad()
def internals(source: Source, data: Any = None, *, show_progress: bool = False) -> Internals:
    """Look inside a model, as it is, in one pass over the data.

    Args:
        source: a RecBole sequential model with ``data`` beside it; or a session, the folder of a
            run, or a checkpoint.
        data: a RecBole loader for full ranking; by default the session's ``test_data``.
        show_progress: show a progress bar.

    Raises:
        ProbeDataError, HistoryMaskedError, NaNScoreError: as
            :func:`~recbole_residual.probe.sweep_alpha`.
    """
    model, data = model_and_data(source, data)
    statistics, recent, by_row = RatioStatistics(), RecentMap(), RowRatios(_groups)
    has_maps = stages_of(model) != GATE_STAGES
    notes: list[str] = [MASK_NOTE] if ends_in_mask(model) else []
    order = getattr(model, "attention_norm_p", 1.0)
    if order != 1:
        notes.append(NORM_NOTE.format(order=order))
    batches: list[torch.Tensor] = []

    def keep(decomposition: Decomposition) -> None:
        statistics.update(decomposition)
        by_row.add(decomposition)
        if has_maps:
            recent.update(decomposition)

    with in_eval_mode(model), ExitStack() as stack:
        try:
            stack.enter_context(
                observe(model, keep, maps=has_maps, recent=recent.recent if has_maps else None)
            )
        except NoAttentionError:
            notes.append(f"{type(model).__name__} has no attention block: no mixing ratios.")
        watch = stack.enter_context(watching_input(model))
        for rows in iterate_rows(data, "Internals", show_progress):
            interaction, target = rows.interaction.to(model.device), rows.target.to(model.device)
            scores = model.full_sort_predict(interaction).view(len(target), -1)
            refuse_nan(scores)
            items = torch.stack([watch.take(interaction).item_before_end(0), target], dim=1)
            batches.append(rank_of(scores, items))
    ranks = torch.cat(batches).cpu().numpy()
    frame = _wide(statistics)
    return Internals(
        frame=frame,
        about={
            "model": type(model).__name__,
            "n_sequences": len(ranks),
            "alpha": list(current_setting(model).alpha),
        },
        notes=notes,
        intervals=_intervals(frame, by_row),
        maps=recent.to_frame().drop(columns="last_position") if recent.layers else pd.DataFrame(),
        ranks=pd.concat(
            [
                rank_bins(ranks[:, column], model.n_items - 1).assign(item=item)
                for column, item in enumerate(RANKED_ITEMS)
            ],
            ignore_index=True,
        ).pipe(lambda table: table[["item", *table.columns.drop("item")]]),
    )


def _groups(mask: torch.Tensor) -> torch.Tensor:
    """Those of :data:`~recbole_residual.decomposition.statistics.POSITION_GROUPS`, [B, L, 4]."""
    last = counted_from_end(mask, range(len(POSITION_GROUPS) - 1))
    return torch.cat([widened(mask.unsqueeze(-1)), last], dim=-1)


def _intervals(frame: pd.DataFrame, by_row: RowRatios) -> Intervals | None:
    """Those of the means."""
    if frame.empty:
        return None
    keys = frame[["layer", "stage", "position"]]
    rows = [
        {"mean": by_row.column(layer, stage, POSITION_GROUPS.index(position))}
        for layer, stage, position in keys.itertuples(index=False)
    ]
    return Intervals(keys, rows)


def _wide(statistics: RatioStatistics) -> pd.DataFrame:
    """One row per layer, stage and position, in the order of the tidy table."""
    tidy = statistics.to_frame()
    by_statistic = {name: tidy[tidy["statistic"] == name] for name in STATISTICS}
    table = by_statistic["mean"][["layer", "stage", "position"]].reset_index(drop=True)
    for name, rows in by_statistic.items():
        table[name] = rows["value"].to_numpy(dtype=float)
    table["count"] = table["count"].astype(int)
    return table.assign(last_position=statistics.last_position)


def rank_bins(ranks: Sequence[int] | np.ndarray, n_items: int) -> pd.DataFrame:
    """Count ranks in bins that end at 1, 2, 5, 10, 20, 50, ... and at the number of items, with
    Wilson's 95 % interval of each share.

    Args:
        ranks: from 1; 0 stands for no rank and is not counted.
        n_items: size of the catalogue.

    Example:
        >>> rank_bins([1, 1, 4, 0, 30], 40).round(2)
           rank_from  rank_to  n_sequences  share  share_low  share_high
        0          1        1            2   0.50       0.15        0.85
        1          2        2            0   0.00       0.00        0.49
        2          3        5            1   0.25       0.05        0.70
        3          6       10            0   0.00       0.00        0.49
        4         11       20            0   0.00       0.00        0.49
        5         21       40            1   0.25       0.05        0.70
    """
    ends = [step * 10**power for power in range(len(str(n_items))) for step in (1, 2, 5)]
    ends = [end for end in ends if end < n_items] + [n_items]
    ranked = np.asarray(ranks)
    ranked = ranked[ranked > 0]
    counts = np.bincount(np.searchsorted(ends, ranked), minlength=len(ends))
    low, high = wilson(counts, np.full(len(counts), len(ranked)))
    return pd.DataFrame(
        {
            "rank_from": [1, *(end + 1 for end in ends[:-1])],
            "rank_to": ends,
            "n_sequences": counts,
            "share": counts / len(ranked) if len(ranked) else np.nan,
            "share_low": low,
            "share_high": high,
        }
    )
