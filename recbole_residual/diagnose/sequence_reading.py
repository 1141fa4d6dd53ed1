"""What a model made of one sequence: scores, shares of its positions, ratios."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Callable

import pandas as pd
import torch
from recbole.data.interaction import Interaction

from recbole_residual.decomposition import Decomposition, decompose, rollout, score_shares
from recbole_residual.decomposition.stages import GATE_STAGES, stages_of
from recbole_residual.errors import NoAttentionError, NonlinearScoreError
from recbole_residual.evaluator.ranks import rank_of, refuse_nan
from recbole_residual.model.architecture.window import ends_in_mask, watching_input
from recbole_residual.probe.engine.one_by_one import MASK_NOTE

RATINGS_NOTE = "The model reads ratings, and here are none: every item is taken as rated average."


def one_sequence(model: Any, ids: list[int]) -> Interaction:
    """A batch of one sequence, padded to the length of the model's input; for a model that reads
    ratings, every item with the average one."""
    item_seq = torch.zeros(1, model.max_seq_length, dtype=torch.long)
    item_seq[0, : len(ids)] = torch.tensor(ids)
    columns = {
        model.USER_ID: torch.zeros(1, dtype=torch.long),
        model.ITEM_SEQ: item_seq,
        model.ITEM_SEQ_LEN: torch.tensor([len(ids)]),
    }
    rating_seq = getattr(model, "rating_seq_field", None)
    if rating_seq is not None:
        columns[rating_seq] = torch.full(item_seq.shape, float(model.rating.mean))
    return Interaction(columns)


@dataclass(frozen=True)
class SequenceReading:
    """What the model saw and made of it.

    Attributes:
        items: ids at the valid positions, [n].
        scores: of the catalogue, [1, n_items].
        decomposition: None for a model without attention or gates.
    """

    items: torch.Tensor
    scores: torch.Tensor
    decomposition: Decomposition | None


def read_sequence(model: Any, interaction: Interaction, notes: list[str]) -> SequenceReading:
    """What the model sees of a sequence and makes of it; what it cannot say goes to ``notes``."""
    with watching_input(model) as watch:
        scores = model.full_sort_predict(interaction).view(1, -1)
    if ends_in_mask(model):
        notes.append(MASK_NOTE)
    if getattr(model, "rating_seq_field", None) is not None:
        notes.append(RATINGS_NOTE)
    refuse_nan(scores)
    seen_items = watch.take(interaction).item_seq[0]
    decomposition = None
    try:
        gated = stages_of(model) == GATE_STAGES
        decomposition = decompose(model, interaction, stages_of(model), maps=not gated)
    except NoAttentionError:
        notes.append(f"{type(model).__name__} has no attention block: no shares of positions.")
    return SequenceReading(seen_items[seen_items != 0], scores, decomposition)


@dataclass(frozen=True)
class SplitScore:
    """The score of one item, by position and by part of the model."""

    by_position: list[float]
    parts: dict[str, float]


def split_score(
    model: Any, interaction: Interaction, item: int, notes: list[str]
) -> SplitScore | None:
    """The score of an item; None, with a note, where scores do not split into positions."""
    try:
        shares = score_shares(model, interaction, torch.tensor([[item]]))
    except NonlinearScoreError as error:
        notes.append(f"The score is not split: {error}")
        return None
    except NoAttentionError:
        return None
    by_position = shares.positions[0, 0][shares.mask[0]]
    by_position[-1] += shares.residual[0, 0]
    parts = {"positions": float(by_position.sum())}
    for name in ("feed_forward", "bias", "padding"):
        parts[name] = float(getattr(shares, name)[0, 0])
    parts["score"] = float(shares.score[0, 0])
    return SplitScore(by_position.tolist(), parts)


def positions_table(
    reading: SequenceReading, token_of: Callable[[int], str], names: Mapping[str, str]
) -> pd.DataFrame:
    """One row per position that the model saw, the oldest first."""
    n = len(reading.items)
    items = [token_of(int(item)) for item in reading.items]
    is_item = reading.items < reading.scores.shape[1]  # [MASK] stands behind the catalogue
    ranks = rank_of(reading.scores, (reading.items * is_item)[None])[0]
    frame = pd.DataFrame(
        {
            "position": range(1, n + 1),
            "from_end": range(n - 1, -1, -1),
            "item": items,
            "name": [names.get(item, "") for item in items],
            "rank": pd.array(ranks.tolist(), dtype="Int64"),
        }
    )
    frame.loc[~is_item.cpu().numpy(), "rank"] = pd.NA
    if reading.decomposition is not None:
        _add_shares(frame, reading.decomposition)
    return frame


def _add_shares(frame: pd.DataFrame, decomposition: Decomposition) -> None:
    """Mixing ratios, attention and contributions of each position, as columns."""
    valid = decomposition.mask[0]
    for index, stage in enumerate(decomposition.stages):
        frame[f"mixing_{stage}"] = decomposition.ratios[:, index, 0, valid].mean(dim=0).tolist()
    if decomposition.contributions is not None and decomposition.attention is not None:
        encoder = decomposition.layers[0].rpartition(".")[0] or None
        last = [
            number
            for number, layer in enumerate(decomposition.layers)
            if encoder is None or layer.startswith(f"{encoder}.")
        ][-1]
        frame["attention"] = decomposition.attention[last, 0][valid][-1, valid].tolist()
        frame["contribution"] = rollout(decomposition, encoder).contribution[0, valid].tolist()
