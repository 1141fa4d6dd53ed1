"""One sequence under changes: the same list without its last item, at other alphas, with uniform
attention, side by side."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Callable

import pandas as pd
from recbole.data.interaction import Interaction

from recbole_residual.errors import NoAttentionError, NoSwitchError
from recbole_residual.evaluator.earlier_ranking import without_last
from recbole_residual.model.residual import neutral_alpha, residual_alpha, scale_residual
from recbole_residual.model.switches import uniform_attention

AS_IT_IS = "as it is"
ALPHAS = (1.0, 0.5, 0.0)
"""Factors of the residual that a sequence is shown at, but for the one in force."""


def what_if_table(
    model: Any, interaction: Interaction, k: int, token_of: Callable[[int], str]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The best k items under each change, and what came into them and left them.

    Args:
        model: a RecBole sequential model, in eval mode.
        interaction: a batch of one sequence.
        k: length of the lists.
        token_of: the token of an item id.

    Returns:
        The lists: ``rank`` and a column for each change, ``as it is`` first. And what moved:
        ``change``, ``in``, ``out`` (tokens, the best ranked first), ``n_moved``.
    """
    lists = {
        name: _best(model, changed, context, k)
        for name, changed, context in _changes(model, interaction)
    }
    tokens = {name: [token_of(item) for item in items] for name, items in lists.items()}
    before = tokens[AS_IT_IS]
    moved = pd.DataFrame(
        [
            {
                "change": name,
                "in": ", ".join(token for token in after if token not in before),
                "out": ", ".join(token for token in before if token not in after),
                "n_moved": sum(token not in before for token in after),
            }
            for name, after in tokens.items()
            if name != AS_IT_IS
        ],
        columns=["change", "in", "out", "n_moved"],
    )
    return pd.DataFrame({"rank": range(1, k + 1), **tokens}), moved


def _best(
    model: Any, interaction: Interaction, context: AbstractContextManager[Any], k: int
) -> list[int]:
    with context:
        scores = model.full_sort_predict(interaction).view(-1)[1:]
    return [int(index) + 1 for index in scores.topk(k).indices]


def _changes(
    model: Any, interaction: Interaction
) -> Iterator[tuple[str, Interaction, AbstractContextManager[Any]]]:
    yield AS_IT_IS, interaction, nullcontext()
    if int(interaction[model.ITEM_SEQ_LEN][0]) > 1:
        yield "without the last item", without_last(model, interaction, 1), nullcontext()
    try:
        in_force, neutral = residual_alpha(model), neutral_alpha(model)
    except NoAttentionError:
        return
    if neutral == 1:  # an added skip has no meaning of its own between 0 and 1
        for alpha in ALPHAS:
            if in_force != [alpha] * len(in_force):
                yield f"alpha = {alpha:g}", interaction, scale_residual(model, alpha)
    try:
        with uniform_attention(model):
            pass
    except (NoAttentionError, NoSwitchError):
        return
    yield "uniform attention", interaction, uniform_attention(model)
