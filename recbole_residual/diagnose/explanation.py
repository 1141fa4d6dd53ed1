"""One sequence of items: what a model recommends after it, and which positions made it so."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Union

import pandas as pd
import torch
from recbole.data.interaction import Interaction

from recbole_residual.diagnose.explanation_report import ExplainedTables, explanation_report
from recbole_residual.diagnose.sequence_reading import (
    SequenceReading,
    one_sequence,
    positions_table,
    read_sequence,
    split_score,
)
from recbole_residual.diagnose.what_if import what_if_table
from recbole_residual.errors import ConfigError, DataError, UnknownTokenError
from recbole_residual.model.architecture.window import MASK
from recbole_residual.probe.engine.evaluation import in_eval_mode
from recbole_residual.report.page import Report
from recbole_residual.run.session import Session, Source


@dataclass(frozen=True, repr=False)
class Explanation:
    """What follows a sequence, and why. In a notebook it shows its tables and its figure.

    Attributes:
        top: the best k items: ``rank``, ``item``, ``name``, ``score``.
        positions: one row per position that the model saw, the oldest first: ``position``,
            ``from_end``, ``item``, ``name``; ``rank``, where the item stands in the ranking;
            ``mixing_attn``, ``mixing_res``, ``mixing_ln`` (means over layers; ``mixing_gate`` for a
            GRU); ``attention``, what the last position pays to it in the last layer;
            ``contribution``, its share of the last position's output, norms rolled out through all
            layers; ``score_share``, what it adds to the score of ``scored_item`` through the last
            attention block, the residual counted with the last position.
        score_parts: the score of ``scored_item``, part by part; None where scores do not split.
        what_if: the best k items as the model is, without the last item, at other alphas and with
            uniform attention, a column each, one row per rank.
        moved: for each of these changes, which items came into the top k and which left it.
        last_item_rank: rank of the last item; None if the model did not see it.
        scored_item: token of the item whose score is split.
        notes: what a reader must know.
        report: the same as tables and a figure.
    """

    top: pd.DataFrame
    positions: pd.DataFrame
    score_parts: pd.DataFrame | None
    what_if: pd.DataFrame
    moved: pd.DataFrame
    last_item_rank: int | None
    scored_item: str
    notes: list[str] = field(default_factory=list)
    report: Report = field(default_factory=lambda: Report("", "", []))

    @property
    def figure(self) -> Any:
        """The matplotlib figure: a bar per position for each kind of share."""
        return self.report.figures["positions"]

    def save(self, folder: Union[str, os.PathLike[str]], latex: bool = False) -> list[Path]:
        """Write page, figure and tables, as :meth:`Report.save` does."""
        return self.report.save(folder, latex)

    def __repr__(self) -> str:
        best = ", ".join(self.top["item"].head(3))
        return (
            f"Explanation(positions={len(self.positions)}, best=[{best}, ...], "
            f"last_item_rank={self.last_item_rank})"
        )

    def _repr_html_(self) -> str:
        return self.report._repr_html_()

    def __str__(self) -> str:
        return str(self.report)


def explain(
    source: Source,
    item_ids: Union[str, int, Iterable[Any]],
    *,
    k: int = 10,
    scored_item: Any = None,
    user: Any = None,
    dataset: Any = None,
    config_dict: Mapping[str, Any] | None = None,
) -> Explanation:
    """Rank the catalogue after a sequence and say which positions had which share in it.

    Args:
        source: what :meth:`Session.open <recbole_residual.run.session.Session.open>` takes: a
            session, the folder of a run, a checkpoint, or a RecBole model (which needs ``dataset``
            beside it).
        item_ids: tokens of items as in the dataset's files, the oldest first; a text or a number is
            one item. Of more than the model's ``MAX_ITEM_LIST_LENGTH``, it sees the latest.
        k: how many items to recommend.
        scored_item: token of the item whose score is split; the best one by default.
        user: token of a user, for the few models that know users; a new user by default.
        dataset: RecBole's Dataset of a model.
        config_dict: for a folder or a checkpoint, such as ``data_path``.

    Raises:
        UnknownTokenError: naming the items (or the user) that the dataset does not hold.
        ConfigError: if ``k`` is no number of items, or the source cannot be opened.
        DataError: if there is no item.

    Example:
        >>> explain("output/SASRecResidual-ml-100k-...", ["242", "302", "377"])  # doctest: +SKIP
    """
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise ConfigError(f"k = {k!r} is not usable: how many items to recommend, at least 1.")
    session = Session.open(source, config_dict=config_dict, dataset=dataset)
    tokens = _tokens(item_ids)
    model = session.model
    wanted = tokens if scored_item is None else [*tokens, str(scored_item)]
    ids = _ids(session.dataset, session.dataset.iid_field, wanted, "items")
    notes: list[str] = []
    n_seen = min(len(tokens), model.max_seq_length)
    if n_seen < len(tokens):
        notes.append(f"The model takes {n_seen} items: the {len(tokens) - n_seen} oldest are cut.")
    interaction = one_sequence(model, ids[: len(tokens)][-n_seen:])
    if user is not None:
        (user_id,) = _ids(session.dataset, session.dataset.uid_field, [str(user)], "users")
        interaction[model.USER_ID] = torch.tensor([user_id])
    with torch.no_grad(), in_eval_mode(model):
        return _explained(
            session,
            interaction.to(model.device),
            k,
            ids[-1] if scored_item is not None else None,
            notes,
        )


def _explained(
    session: Session, interaction: Interaction, k: int, scored: int | None, notes: list[str]
) -> Explanation:
    model = session.model
    names = session.item_names

    def token_of(item: int) -> str:
        return _token(session, item)

    reading = read_sequence(model, interaction, notes)
    if scored is None:
        scored = int(reading.scores[0, 1:].argmax()) + 1
    split = split_score(model, interaction, scored, notes)
    top = _top_table(reading, k, token_of, names)
    positions = positions_table(reading, token_of, names)
    score_parts = None
    if split is not None:
        positions["score_share"] = split.by_position
        score_parts = pd.DataFrame({"part": list(split.parts), "share": list(split.parts.values())})
    what_if, moved = what_if_table(model, interaction, len(top), token_of)
    ranks = positions["rank"].dropna()
    last_rank = int(ranks.iloc[-1]) if len(ranks) else None
    if not names:
        top, positions = top.drop(columns="name"), positions.drop(columns="name")
    tables = ExplainedTables(top, positions, score_parts, what_if, moved)
    scored_token = token_of(scored)
    return Explanation(
        *tables,
        last_item_rank=last_rank,
        scored_item=scored_token,
        notes=notes,
        report=explanation_report(
            type(model).__name__, tables, scored_token, names, last_rank, notes
        ),
    )


def _tokens(item_ids: Union[str, int, Iterable[Any]]) -> list[str]:
    if isinstance(item_ids, (str, int)):
        return [str(item_ids)]
    tokens = [str(item) for item in item_ids]
    if not tokens:
        raise DataError("there is no item to explain: item_ids is empty.")
    return tokens


def _ids(dataset: Any, name: str, tokens: Sequence[str], kind: str) -> list[int]:
    known = dataset.field2token_id[name]
    unknown = [token for token in tokens if token not in known or not known[token]]
    if unknown:
        raise UnknownTokenError(kind, list(dict.fromkeys(unknown)), dataset.dataset_name)
    return [int(known[token]) for token in tokens]


def _token(session: Session, item: int) -> str:
    if item == getattr(session.model, "mask_token", None):
        return MASK
    return str(session.dataset.id2token(session.dataset.iid_field, item))


def _top_table(
    reading: SequenceReading, k: int, token_of: Any, names: Mapping[str, str]
) -> pd.DataFrame:
    best = reading.scores[0, 1:].topk(min(k, reading.scores.shape[1] - 1))
    items = [token_of(int(index) + 1) for index in best.indices]
    return pd.DataFrame(
        {
            "rank": range(1, len(items) + 1),
            "item": items,
            "name": [names.get(item, "") for item in items],
            "score": best.values.tolist(),
        }
    )
