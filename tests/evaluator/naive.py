"""The metrics computed for one user at a time, with plain loops and numpy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import erf


def rank(scores: np.ndarray, item: int) -> int:
    """1 + the number of items, padding aside, with a strictly higher score."""
    return 1 + sum(1 for other in range(1, len(scores)) if scores[other] > scores[item])


def mean(values: Sequence[float | None]) -> float:
    """Mean of those that are defined, NaN if none is."""
    defined = [value for value in values if value is not None]
    return sum(defined) / len(defined) if defined else math.nan


@dataclass
class SASRecInNumpy:
    """RecBole's SASRec for one sequence, with the parts of its attention written out."""

    model: Any

    def weight(self, name: str) -> np.ndarray:
        return self.model.get_parameter(name).detach().numpy()

    def linear(self, x: np.ndarray, name: str) -> np.ndarray:
        return x @ self.weight(f"{name}.weight").T + self.weight(f"{name}.bias")

    def layer_norm(self, x: np.ndarray, name: str) -> np.ndarray:
        centred = x - x.mean(-1, keepdims=True)
        sigma = np.sqrt(x.var(-1, keepdims=True) + self.model.layer_norm_eps)
        return self.weight(f"{name}.weight") * centred / sigma + self.weight(f"{name}.bias")

    def run(self, items: Sequence[int], alpha: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
        """Representation of every position, [L, D], and ratios, [n_layers, 3, L]."""
        x = self.weight("item_embedding.weight")[list(items)]
        x = x + self.weight("position_embedding.weight")[: len(items)]
        x = self.layer_norm(x, "LayerNorm")
        ratios = []
        for layer in range(self.model.n_layers):
            x, layer_ratios = self.block(x, f"trm_encoder.layer.{layer}", alpha[layer])
            ratios.append(layer_ratios)
        return x, np.array(ratios)

    def block(self, x: np.ndarray, name: str, alpha: float) -> tuple[np.ndarray, np.ndarray]:
        attention = f"{name}.multi_head_attention"
        n_heads = self.model.n_heads
        size = x.shape[1] // n_heads
        query, key, value = (
            self.linear(x, f"{attention}.{which}") for which in ("query", "key", "value")
        )
        output = self.weight(f"{attention}.dense.weight").T
        parts = np.zeros((len(x), len(x), x.shape[1]))  # what i receives from j
        for head in range(n_heads):
            columns = slice(head * size, (head + 1) * size)
            for i in range(len(x)):
                scores = query[i, columns] @ key[: i + 1, columns].T / math.sqrt(size)
                weights = np.exp(scores - scores.max())
                weights /= weights.sum()
                for j in range(i + 1):
                    parts[i, j] += weights[j] * value[j, columns] @ output[columns]
        z = alpha * x + parts.sum(1) + self.weight(f"{attention}.dense.bias")
        gain = self.weight(f"{attention}.LayerNorm.weight")
        ratios = np.zeros((3, len(x)))
        for i in range(len(x)):
            own, mixing = parts[i, i], parts[i, :i].sum(0)
            kept = own + alpha * x[i]
            for stage, (m, p) in enumerate(
                [
                    (mixing, own),
                    (mixing, kept),
                    (gain * (mixing - mixing.mean()), gain * (kept - kept.mean())),
                ]
            ):
                ratios[stage, i] = np.linalg.norm(m) / (np.linalg.norm(m) + np.linalg.norm(p))
        h = self.layer_norm(z, f"{attention}.LayerNorm")
        inner = self.linear(h, f"{name}.feed_forward.dense_1")
        inner = inner * 0.5 * (1 + erf(inner / math.sqrt(2)))
        inner = self.linear(inner, f"{name}.feed_forward.dense_2")
        return self.layer_norm(h + inner, f"{name}.feed_forward.LayerNorm"), ratios

    def scores(self, representation: np.ndarray) -> np.ndarray:
        return representation @ self.weight("item_embedding.weight").T


def metrics_by_loops(
    model: Any,
    sequences: Sequence[tuple[Sequence[int], int]],
    topk: Sequence[int],
    alpha: Sequence[float],
) -> dict[str, list[float | None]]:
    """Every metric of this package per sequence, None where it is not defined.

    Args:
        model: RecBole's SASRec in float64.
        sequences: input items and target of each.
        topk: the values of k.
        alpha: residual factor in force, by layer.
    """
    twin = SASRecInNumpy(model)
    values: dict[str, list[float | None]] = {}

    def add(key: str, value: float | None) -> None:
        values.setdefault(key, []).append(value)

    for items, target in sequences:
        hidden, ratios = twin.run(items, alpha)
        unscaled, _ = twin.run(items, [1.0] * len(alpha))
        scores = twin.scores(hidden[-1])
        for stage, name in enumerate(("attn", "res", "ln")):
            add(f"mixingratio_{name}", ratios[:, stage].mean())
            add(f"mixingratio_{name}_last", ratios[:, stage, -1].mean())
        for k in topk:
            add(f"hrli@{k}", float(rank(scores, items[-1]) <= k))
            add(f"hrl2i@{k}", float(rank(scores, items[-2]) <= k) if len(items) > 1 else None)
            hit = [
                offset < len(items) and rank(twin.scores(unscaled[-1 - offset]), target) <= k
                for offset in range(4)
            ]
            in_base = not hit[0] and any(hit[1:])
            add(f"recoveryrate@{k}", float(rank(scores, target) <= k) if in_base else None)
    return values
