"""One sequence of items: what a model recommends after it, and which positions made it so."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Union

import pandas as pd
import torch
from recbole.data.interaction import Interaction

from recbole_residual.checkpoint.adoption import open_checkpoint
from recbole_residual.data.item_names import item_names
from recbole_residual.decomposition import Decomposition, decompose, rollout, score_shares
from recbole_residual.decomposition.stages import GATE_STAGES, stages_of
from recbole_residual.errors import (
    DataError,
    NoAttentionError,
    NonlinearScoreError,
    UnknownTokenError,
)
from recbole_residual.evaluator.ranks import rank_of, refuse_nan
from recbole_residual.model.architecture.window import MASK, ends_in_mask, watching_input
from recbole_residual.probe.engine.evaluation import in_eval_mode
from recbole_residual.probe.engine.one_by_one import MASK_NOTE
from recbole_residual.report import Report
from recbole_residual.report.plot import Plot
from recbole_residual.report.section import Section
from recbole_residual.report.table import Table
from recbole_residual.run.train import Session, load_run

COMMAND = "recbole_residual.explain(...) in Python"


@dataclass(frozen=True)
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
        last_item_rank: rank of the last item; None if the model did not see it.
        scored_item: token of the item whose score is split.
        notes: what a reader must know.
        report: the same as tables and a figure.
    """

    top: pd.DataFrame
    positions: pd.DataFrame
    score_parts: pd.DataFrame | None
    last_item_rank: int | None
    scored_item: str
    notes: list[str] = field(default_factory=list)
    report: Report = field(repr=False, default_factory=lambda: Report("", "", []))

    @property
    def figure(self) -> Any:
        """The matplotlib figure: a bar per position for each kind of share."""
        return self.report.figures["positions"]

    def save(self, folder: Union[str, os.PathLike[str]], latex: bool = False) -> list[Path]:
        """Write page, figure and tables, as :meth:`Report.save` does."""
        return self.report.save(folder, latex)

    def _repr_html_(self) -> str:
        return self.report._repr_html_()

    def __str__(self) -> str:
        return str(self.report)


def explain(
    model: Union[str, os.PathLike[str], Session, torch.nn.Module],
    item_ids: Iterable[Any],
    *,
    k: int = 10,
    scored_item: Any = None,
    user: Any = None,
    dataset: Any = None,
    config_dict: Mapping[str, Any] | None = None,
    trust_checkpoint: bool = False,
) -> Explanation:
    """Rank the catalogue after a sequence and say which positions had which share in it.

    Args:
        model: a session, the folder of a run, a checkpoint that RecBole wrote, or a RecBole model
            (which needs ``dataset`` beside it).
        item_ids: tokens of items as in the dataset's files, the oldest first. Of more than the
            model's ``MAX_ITEM_LIST_LENGTH``, it sees the latest.
        k: how many items to recommend.
        scored_item: token of the item whose score is split; the best one by default.
        user: token of a user, for the few models that know users; a new user by default.
        dataset: RecBole's Dataset of a model.
        config_dict: for a folder or a checkpoint, such as ``data_path``.
        trust_checkpoint: as in :func:`~recbole_residual.diagnose`.

    Raises:
        UnknownTokenError: naming the items (or the user) that the dataset does not hold.
        ValueError: if there is no item, or a model comes without its dataset.

    Example:
        >>> explain("output/SASRecResidual-ml-100k-...", ["242", "302", "377"])  # doctest: +SKIP
    """
    recommender, data = _resolved(model, dataset, config_dict, trust_checkpoint)
    tokens = [str(item) for item in item_ids]
    if not tokens:
        raise DataError("there is no item to explain: item_ids is empty.")
    wanted = tokens if scored_item is None else [*tokens, str(scored_item)]
    ids = _ids(data, data.iid_field, wanted, "items")
    notes = []
    n_seen = min(len(tokens), recommender.max_seq_length)
    if n_seen < len(tokens):
        notes.append(f"The model takes {n_seen} items: the {len(tokens) - n_seen} oldest are cut.")
    interaction = _interaction(recommender, ids[: len(tokens)][-n_seen:])
    if user is not None:
        (user_id,) = _ids(data, data.uid_field, [str(user)], "users")
        interaction[recommender.USER_ID] = torch.tensor([user_id])
    interaction = interaction.to(recommender.device)
    names = item_names(data.config)
    with torch.no_grad(), in_eval_mode(recommender):
        seen = _look(recommender, interaction, notes)
        best = seen.scores[0, 1:].topk(min(k, seen.scores.shape[1] - 1))
        scored = int(best.indices[0]) + 1 if scored_item is None else ids[-1]
        split = _split(recommender, interaction, scored, notes)
    token_of = partial(_token, recommender, data)
    top = pd.DataFrame(
        {
            "rank": range(1, len(best.values) + 1),
            "item": [token_of(int(index) + 1) for index in best.indices],
            "score": best.values.tolist(),
        }
    )
    top.insert(2, "name", [names.get(item, "") for item in top["item"]])
    positions = _positions(seen, token_of, names)
    parts = None
    if split is not None:
        positions["score_share"] = split.by_position
        parts = pd.DataFrame(
            {"part": list(split.parts), "share": [split.parts[name] for name in split.parts]}
        )
    items = positions[positions["item"] != MASK]
    last_rank = int(items["rank"].iloc[-1]) if len(items) else None
    if not names:
        top, positions = top.drop(columns="name"), positions.drop(columns="name")
    scored_token = token_of(scored)
    return Explanation(
        top=top,
        positions=positions,
        score_parts=parts,
        last_item_rank=last_rank,
        scored_item=scored_token,
        notes=notes,
        report=_report(
            type(recommender).__name__,
            top,
            positions,
            parts,
            _called(scored_token, names),
            last_rank,
            notes,
        ),
    )


# Finding things out ----------------------------------------------------------------------------


def _resolved(
    model: Any, dataset: Any, config_dict: Mapping[str, Any] | None, trust_checkpoint: bool
) -> tuple[Any, Any]:
    """The recommender and its dataset."""
    if isinstance(model, (str, os.PathLike)):
        if Path(model).is_dir():
            model = load_run(model, dict(config_dict or {}))
        else:
            model = open_checkpoint(model, config_dict, trust_checkpoint).session
    if isinstance(model, Session):
        return model.model, model.dataset
    if dataset is None:
        raise DataError("a model alone does not know its items: explain(model, ..., dataset=).")
    return model, dataset


def _ids(dataset: Any, name: str, tokens: Sequence[str], kind: str) -> list[int]:
    known = dataset.field2token_id[name]
    unknown = [token for token in tokens if token not in known or not known[token]]
    if unknown:
        raise UnknownTokenError(kind, list(dict.fromkeys(unknown)), dataset.dataset_name)
    return [int(known[token]) for token in tokens]


def _token(model: Any, dataset: Any, item: int) -> str:
    if item == getattr(model, "mask_token", None):
        return MASK
    return str(dataset.id2token(dataset.iid_field, item))


def _interaction(model: Any, ids: Sequence[int]) -> Interaction:
    item_seq = torch.zeros(1, model.max_seq_length, dtype=torch.long)
    item_seq[0, : len(ids)] = torch.tensor(ids)
    return Interaction(
        {
            model.USER_ID: torch.zeros(1, dtype=torch.long),
            model.ITEM_SEQ: item_seq,
            model.ITEM_SEQ_LEN: torch.tensor([len(ids)]),
        }
    )


@dataclass(frozen=True)
class _Seen:
    """What the model saw and made of it.

    Attributes:
        items: ids at the valid positions, [n].
        scores: of the catalogue, [1, n_items].
        decomposition: None for a model without attention or gates.
    """

    items: torch.Tensor
    scores: torch.Tensor
    decomposition: Decomposition | None


def _look(model: Any, interaction: Interaction, notes: list[str]) -> _Seen:
    with watching_input(model) as watch:
        scores = model.full_sort_predict(interaction).view(1, -1)
    if ends_in_mask(model):
        notes.append(MASK_NOTE)
    refuse_nan(scores)
    shown = watch.take(interaction).item_seq[0]
    decomposition = None
    try:
        gated = stages_of(model) == GATE_STAGES
        decomposition = decompose(model, interaction, stages_of(model), maps=not gated)
    except NoAttentionError:
        notes.append(f"{type(model).__name__} has no attention block: no shares of positions.")
    return _Seen(shown[shown != 0], scores, decomposition)


@dataclass(frozen=True)
class _Split:
    by_position: list[float]
    parts: dict[str, float]


def _split(model: Any, interaction: Interaction, item: int, notes: list[str]) -> _Split | None:
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
    return _Split(by_position.tolist(), parts)


def _positions(seen: _Seen, token_of: Any, names: Mapping[str, str]) -> pd.DataFrame:
    n = len(seen.items)
    items = [token_of(int(item)) for item in seen.items]
    ranked = seen.items[None] * (seen.items < seen.scores.shape[1])  # [MASK] is not ranked
    frame = pd.DataFrame(
        {
            "position": range(1, n + 1),
            "from_end": range(n - 1, -1, -1),
            "item": items,
            "name": [names.get(item, "") for item in items],
            "rank": pd.array(rank_of(seen.scores, ranked)[0].tolist(), dtype="Int64"),
        }
    )
    frame.loc[frame["item"] == MASK, "rank"] = pd.NA
    found = seen.decomposition
    if found is None:
        return frame
    valid = found.mask[0]
    for index, stage in enumerate(found.stages):
        frame[f"mixing_{stage}"] = found.ratios[:, index, 0, valid].mean(dim=0).tolist()
    if found.contributions is not None and found.attention is not None:
        encoder = found.layers[0].rpartition(".")[0] or None
        last = [
            number
            for number, layer in enumerate(found.layers)
            if encoder is None or layer.startswith(f"{encoder}.")
        ][-1]
        frame["attention"] = found.attention[last, 0][valid][-1, valid].tolist()
        frame["contribution"] = rollout(found, encoder).contribution[0, valid].tolist()
    return frame


# Showing them ----------------------------------------------------------------------------------


def _called(token: str, names: Mapping[str, str]) -> str:
    return f"{token} ({names[token]})" if names.get(token) else token


def _draw(panels: dict[str, list[float]], labels: list[str]) -> Any:
    from recbole_residual.report.figures import position_bars

    return position_bars(panels, labels)


def _report(
    model: str,
    top: pd.DataFrame,
    positions: pd.DataFrame,
    parts: pd.DataFrame | None,
    scored: str,
    last_rank: int | None,
    notes: Sequence[str],
) -> Report:
    titles = {
        "mixing_res": "mixing ratio (res)",
        "mixing_gate": "mixing ratio (gate)",
        "contribution": "share of contribution",
        "score_share": "share of the score",
    }
    panels = {
        title: positions[name].tolist() for name, title in titles.items() if name in positions
    }
    called = positions["name"] if "name" in positions else positions["item"]
    labels = [
        f"{(name or item)[:34]}  {'L' if not back else f'L-{back}'}"
        for name, item, back in zip(called, positions["item"], positions["from_end"])
    ]
    plot = Plot(
        "positions",
        "Shares of the positions",
        f"The score is that of {scored}; the residual counts with the last position.",
        COMMAND,
        partial(_draw, panels, labels) if panels else None,
        "not run: the model has no attention block",
    )
    shown = positions.drop(
        columns=[name for name in ("mixing_attn", "mixing_ln") if name in positions]
    )
    tables = [
        Table("explain_top", "Recommended", top, COMMAND),
        Table("explain_positions", "Positions", positions, COMMAND, shown=shown, notes=notes),
    ]
    if parts is not None:
        tables.append(Table("explain_score", f"The score of {scored}", parts, COMMAND))
    rank = "not seen by the model" if last_rank is None else f"rank {last_rank}"
    return Report(
        f"{model}: one sequence",
        f"last item: {rank}",
        [Section("explanation", "Explanation", "", tables, [plot])],
        shown=[table.name for table in tables],
    )
