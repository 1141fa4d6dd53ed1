"""Losses over every position that never hold all scores at once."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd.function import once_differentiable

DEFAULT_LOGITS_CHUNK = 2**24
"""Most scores held at once, 64 MiB in float32."""

_FEWEST_ROWS = 128
_CACHED_SCORES = 2**19


def rows_per_chunk(n_rows: int, n_items: int, logits_chunk: int, device: torch.device) -> int:
    """How many rows of scores to hold at once, at most ``logits_chunk`` scores.

    On a CPU fewer, so that the scores stay in its cache, but not so few that the products get thin.
    """
    rows = max(1, logits_chunk // n_items)
    if device.type == "cpu":
        rows = min(rows, max(_FEWEST_ROWS, _CACHED_SCORES // n_items))
    return min(rows, max(1, n_rows))


class _LinearCrossEntropy(torch.autograd.Function):
    """Gradients are made in the forward pass, chunk by chunk: three products, nothing twice."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: torch.Tensor,
        weight: torch.Tensor,
        targets: torch.Tensor,
        logits_chunk: int,
    ) -> torch.Tensor:
        n_rows = hidden.shape[0]
        wants_hidden, wants_weight = ctx.needs_input_grad[:2]
        grad_hidden = torch.empty_like(hidden) if wants_hidden else None
        # sums over many chunks stay in the precision of the weights
        grad_weight = torch.zeros_like(weight) if wants_weight else None
        compute_weight = weight.to(hidden.dtype)
        chunk = rows_per_chunk(n_rows, weight.shape[0], logits_chunk, hidden.device)
        buffer = hidden.new_empty(chunk, weight.shape[0])
        total = torch.zeros((), dtype=weight.dtype, device=hidden.device)
        for begin in range(0, n_rows, chunk):
            rows = slice(begin, min(begin + chunk, n_rows))
            part, target = hidden[rows], targets[rows].unsqueeze(1)
            logits = torch.mm(part, compute_weight.t(), out=buffer[: part.shape[0]])
            scores = logits if logits.dtype == weight.dtype else logits.to(weight.dtype)
            # log of the normaliser from the largest score and its probability, which is never tiny;
            # torch's softmax is far faster than exp, and works in place
            total += (scores.amax(1, keepdim=True) - scores.gather(1, target)).sum()
            torch.softmax(scores, dim=1, out=scores)
            total -= scores.amax(1).log().sum()
            if grad_hidden is None and grad_weight is None:
                continue
            scores.scatter_add_(1, target, scores.new_full(target.shape, -1.0))
            probabilities = scores if scores is logits else logits.copy_(scores)
            if grad_hidden is not None:
                torch.mm(probabilities, compute_weight, out=grad_hidden[rows])
            if grad_weight is not None:
                if grad_weight.dtype == hidden.dtype:
                    grad_weight.addmm_(probabilities.t(), part)
                else:
                    grad_weight += torch.mm(probabilities.t(), part)
        ctx.save_for_backward(grad_hidden, grad_weight)
        ctx.n_rows = n_rows
        return total / n_rows

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        grad_hidden, grad_weight = ctx.saved_tensors
        scale = grad / ctx.n_rows
        return (
            None if grad_hidden is None else grad_hidden * scale.to(grad_hidden.dtype),
            None if grad_weight is None else grad_weight * scale,
            None,
            None,
        )


def linear_cross_entropy(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    targets: torch.Tensor,
    logits_chunk: int = DEFAULT_LOGITS_CHUNK,
) -> torch.Tensor:
    """Mean cross-entropy of ``hidden @ weight.T`` without holding that product.

    The same number and the same gradients as ``cross_entropy(hidden @ weight.T, targets)``, to
    rounding. Every row of ``weight`` counts in the normaliser, the padding item too, as in RecBole.

    Args:
        hidden: representations, [T, D].
        weight: item embeddings, [n_items, D].
        targets: item ids, [T].
        logits_chunk: most scores held at once.

    Returns:
        torch.Tensor: scalar; NaN for T = 0, like torch's.
    """
    # the precision that autocast, if it is on, gives a product
    with torch.no_grad():
        dtype = torch.mm(hidden[:1], weight[:1].t()).dtype
    hidden = hidden.to(dtype)
    with torch.autocast(hidden.device.type, enabled=False):
        return _LinearCrossEntropy.apply(hidden, weight, targets, logits_chunk)


def pairwise_loss(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    targets: torch.Tensor,
    negatives: torch.Tensor,
    gamma: float = 1e-10,
) -> torch.Tensor:
    """Mean BPR loss over positions and negatives, RecBole's ``BPRLoss`` on [T, S] pairs.

    Args:
        hidden: representations, [T, D].
        weight: item embeddings, [n_items, D].
        targets: item ids, [T].
        negatives: ids of S negative items of each position, [T, S].
        gamma: keeps the logarithm finite.
    """
    positive = (hidden * torch.nn.functional.embedding(targets, weight)).sum(-1, keepdim=True)
    negative = torch.einsum("td,tsd->ts", hidden, torch.nn.functional.embedding(negatives, weight))
    return -torch.log(gamma + torch.sigmoid(positive - negative)).mean()
