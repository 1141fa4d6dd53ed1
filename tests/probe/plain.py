"""The slow and obvious way: one evaluation per setting, row by row, from lists of numbers."""

from __future__ import annotations

import math
from typing import Any

import torch
from recbole.data.interaction import Interaction

from recbole_residual.decomposition.observer import observe
from recbole_residual.model.residual import scale_residual


def rank(scores: list[float], item: int) -> int:
    """1 + the number of items with a higher score, padding left out."""
    return 1 + sum(score > scores[item] for score in scores[1:])


def row_of(rows: Interaction, index: int) -> Interaction:
    return rows[index : index + 1]


def scores_at(model: Any, rows: Interaction, offset: int) -> list[list[float]]:
    """Scores of every row, read ``offset`` positions before the last; [] if there is none."""
    item_seq, length = rows["item_id_list"], rows["item_length"]
    if offset == 0:
        return model.full_sort_predict(rows).tolist()
    # The output of a causal model at a position is its output for the input that ends there.
    table = []
    for index in range(len(rows)):
        kept = int(length[index]) - offset
        if kept < 1:
            table.append([])
            continue
        shorter = torch.zeros_like(item_seq[index : index + 1])
        shorter[0, :kept] = item_seq[index, :kept]
        part = {"item_id_list": shorter, "item_length": torch.tensor([kept])}
        table.append(model.full_sort_predict(Interaction(part))[0].tolist())
    return table


@torch.no_grad()
def plain_metrics(
    model: Any, rows: Interaction, alpha: list[float], feed_forward: list[float], topk: list[int]
) -> dict[str, float]:
    """What a sweep says of one setting of a causal model."""
    with scale_residual(model, 1.0, feed_forward=1.0):
        positions = [scores_at(model, rows, offset) for offset in range(4)]
    seen: list[Any] = []
    with scale_residual(model, alpha, feed_forward=feed_forward):
        scores = scores_at(model, rows, 0)
        with observe(model, seen.append):
            for index in range(len(rows)):
                model.full_sort_predict(row_of(rows, index))
    result: dict[str, float] = {}
    target = rows["item_id"].tolist()
    inputs = [
        row[:length].tolist() for row, length in zip(rows["item_id_list"], rows["item_length"])
    ]
    ranks = [rank(scores[i], target[i]) for i in range(len(rows))]
    last = [rank(scores[i], inputs[i][-1]) for i in range(len(rows))]
    before = [rank(scores[i], inputs[i][-2]) for i in range(len(rows)) if len(inputs[i]) > 1]
    for k in topk:
        hits = [r for r in ranks if r <= k]
        result[f"hit@{k}"] = len(hits) / len(ranks)
        result[f"ndcg@{k}"] = sum(1 / math.log2(r + 1) for r in hits) / len(ranks)
        result[f"mrr@{k}"] = sum(1 / r for r in hits) / len(ranks)
        result[f"hrli@{k}"] = sum(r <= k for r in last) / len(last)
        result[f"hrl2i@{k}"] = sum(r <= k for r in before) / len(before) if before else math.nan
        base = []
        for i in range(len(rows)):
            hit = [bool(at[i]) and rank(at[i], target[i]) <= k for at in positions]
            if not hit[0] and any(hit[1:]):
                base.append(ranks[i] <= k)
        result[f"recoverybase@{k}"] = len(base)
        result[f"recoveryrate@{k}"] = sum(base) / len(base) if base else math.nan
    for index, stage in enumerate(("attn", "res", "ln")):
        every, ends = [], []
        for one in seen:
            n_valid = int(one.mask.sum())
            for layer in one.ratios[:, index, 0].double():
                every += layer[:n_valid].tolist()
                ends.append(float(layer[n_valid - 1]))
        result[f"mixingratio_{stage}"] = sum(every) / len(every)
        result[f"mixingratio_{stage}_last"] = sum(ends) / len(ends)
    return result
