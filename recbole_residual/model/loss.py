"""Losses over every position that never hold all scores at once."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.autograd.function import once_differentiable

DEFAULT_LOGITS_CHUNK = 2**24
"""Most scores held at once, 64 MiB in float32."""

_FEWEST_ROWS = 128
_CACHED_SCORES = 2**18
_CACHE_LINE = 64


def rows_per_chunk(n_rows: int, n_items: int, logits_chunk: int, device: torch.device) -> int:
    """How many rows of scores to hold at once, at most ``logits_chunk`` scores.

    On a CPU fewer, so that the scores stay in its cache, but not so few that the products get thin.
    """
    rows = max(1, logits_chunk // n_items)
    if device.type == "cpu":
        rows = min(rows, max(_FEWEST_ROWS, _CACHED_SCORES // n_items))
    return min(rows, max(1, n_rows))


def row_stride(n_items: int, element_size: int) -> int:
    """Room for one row of scores in memory, in elements, at least ``n_items``.

    An odd number of whole cache lines: with rows that begin anywhere a product takes up to twice
    as long, and with a power of two all rows compete for the same few places of the cache.

    Example:
        >>> row_stride(1683, 4), row_stride(1024, 4)
        (1712, 1040)
    """
    per_line = _CACHE_LINE // element_size
    return (-(-n_items // per_line) | 1) * per_line


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
        n_rows, n_items = hidden.shape[0], weight.shape[0]
        wants_hidden, wants_weight = ctx.needs_input_grad[:2]
        grad_hidden = torch.empty_like(hidden) if wants_hidden else None
        # sums over many chunks stay in the precision of the weights
        grad_weight = torch.zeros_like(weight) if wants_weight else None
        compute_weight = weight.to(hidden.dtype)
        chunk = rows_per_chunk(n_rows, n_items, logits_chunk, hidden.device)
        buffer = hidden.new_empty(chunk, row_stride(n_items, hidden.element_size()))
        probability = weight.new_empty(n_rows)
        for begin in range(0, n_rows, chunk):
            rows = slice(begin, min(begin + chunk, n_rows))
            part, target = hidden[rows], targets[rows].unsqueeze(1)
            logits = buffer[: part.shape[0]]
            torch.mm(part, compute_weight.t(), out=logits[:, :n_items])
            logits[:, n_items:] = -math.inf
            scores = logits if logits.dtype == weight.dtype else logits.to(weight.dtype)
            torch.softmax(scores, dim=1, out=scores)
            probability[rows] = scores.gather(1, target).squeeze(1)
            if grad_hidden is None and grad_weight is None:
                continue
            scores.scatter_add_(1, target, scores.new_full(target.shape, -1.0))
            errors = (scores if scores is logits else logits.copy_(scores))[:, :n_items]
            if grad_hidden is not None:
                torch.mm(errors, compute_weight, out=grad_hidden[rows])
            if grad_weight is not None:
                if grad_weight.dtype == hidden.dtype:
                    grad_weight.addmm_(errors.t(), part, alpha=1 / n_rows)
                else:
                    grad_weight.add_(torch.mm(errors.t(), part), alpha=1 / n_rows)
        ctx.save_for_backward(grad_hidden, grad_weight)
        ctx.n_rows = n_rows
        return _negative_log(probability, hidden, compute_weight, targets, buffer).mean()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        grad_hidden, grad_weight = ctx.saved_tensors
        if grad_hidden is not None:
            grad_hidden = grad_hidden * (grad / ctx.n_rows).to(grad_hidden.dtype)
        # a loss that is not scaled comes with 1, which spares a pass over a large catalogue
        if grad_weight is not None and (grad.device.type != "cpu" or grad.item() != 1):
            grad_weight = grad_weight * grad
        return grad_hidden, grad_weight, None, None


def _negative_log(
    probability: torch.Tensor,
    hidden: torch.Tensor,
    weight: torch.Tensor,
    targets: torch.Tensor,
    buffer: torch.Tensor,
) -> torch.Tensor:
    """``-log(probability)`` of each target, [T]; from the scores where the probability underflowed.

    Args:
        probability: of each target, [T]. Its logarithm is exact to rounding unless it underflowed.
        hidden: representations, [T, D].
        weight: item embeddings in the precision of ``hidden``, [n_items, D].
        targets: item ids, [T].
        buffer: room for some rows of scores, at least ``n_items`` wide.
    """
    losses = probability.log().neg_()
    underflowed = (probability < torch.finfo(probability.dtype).tiny).nonzero().squeeze(1)
    for rows in underflowed.split(buffer.shape[0]):
        logits = torch.mm(hidden[rows], weight.t(), out=buffer[: len(rows), : weight.shape[0]])
        scores = logits.to(probability.dtype)
        at_target = scores.gather(1, targets[rows].unsqueeze(1)).squeeze(1)
        losses[rows] = torch.logsumexp(scores, 1) - at_target
    return losses


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
