"""What a position of a GRU keeps and what it takes, in place of the stages of an attention block.

A GRU mixes by its update gate: ``h_t = (1 - u_t) * n_t + u_t * h_{t-1}``. The new part is what
position t adds of itself, the gated state is what it takes from all before it. Its ratios are
reported under their own name and never averaged with those of attention.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Callable

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from recbole_residual.decomposition.result import Decomposition
from recbole_residual.decomposition.stages import GATE_STAGES, mixing_ratio
from recbole_residual.decomposition.states import to_work, without_autocast
from recbole_residual.errors import TrainingModeError
from recbole_residual.model.architecture.gates import find_gru
from recbole_residual.model.architecture.residuals import AddedSkip
from recbole_residual.model.architecture.wrappers import hookable


def update_gate(gru: nn.GRU, layer: int, x: torch.Tensor, before: torch.Tensor) -> torch.Tensor:
    """The update gate of one layer at all positions at once.

    Args:
        gru: the GRU; PyTorch stacks its weights as reset, update, new.
        layer: index of the layer.
        x: input of the layer, [B, L, E].
        before: its state before each position, [B, L, H].

    Returns:
        torch.Tensor: u, [B, L, H].
    """
    rows = slice(gru.hidden_size, 2 * gru.hidden_size)
    scores = torch.zeros_like(before)
    for source, name in ((x, "ih"), (before, "hh")):
        weight = to_work(getattr(gru, f"weight_{name}_l{layer}")[rows])
        bias = to_work(getattr(gru, f"bias_{name}_l{layer}")[rows]) if gru.bias else None
        scores = scores + F.linear(source, weight, bias)
    return torch.sigmoid(scores)


def gate_ratios(gru: nn.GRU, layer: int, x: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
    """Mixing ratios of one layer, ``||u * h_{t-1}||`` against ``||(1 - u) * n||``.

    Args:
        gru: the GRU.
        layer: index of the layer.
        x: input of the layer, [B, L, E].
        hidden: its output, [B, L, H].

    Returns:
        torch.Tensor: ratios, 0 at the first position, [B, L].
    """
    before = F.pad(hidden, (0, 0, 1, 0))[:, :-1]
    taken = update_gate(gru, layer, x, before) * before
    return mixing_ratio(
        torch.linalg.vector_norm(taken, dim=-1), torch.linalg.vector_norm(hidden - taken, dim=-1)
    )


def _run_layer(gru: nn.GRU, layer: int, x: torch.Tensor) -> torch.Tensor:
    """Output of one layer, which a stacked GRU does not hand out."""
    names = ["weight_ih_l", "weight_hh_l"] + (["bias_ih_l", "bias_hh_l"] if gru.bias else [])
    weights = [to_work(getattr(gru, f"{name}{layer}")) for name in names]
    start = x.new_zeros(1, len(x), gru.hidden_size)
    return torch.gru(x, start, weights, gru.bias, 1, 0.0, False, False, True)[0]


@contextmanager
def observe_gates(model: nn.Module, callback: Callable[[Decomposition], None]) -> Iterator[None]:
    """Decompose every forward of a GRU model inside the context; its numbers stay as they are.

    Args:
        model: a model with an ``item_embedding``, for which
            :func:`~recbole_residual.model.architecture.gates.find_gru` finds a GRU.
        callback: called once per forward with a :class:`Decomposition` of the stage ``gate``.

    Raises:
        TypeError: if the model has no such GRU.
        TrainingModeError: at a forward in training mode.
    """
    model = hookable(model)
    gru = find_gru(model)
    if gru is None:
        raise TypeError(f"{type(model).__name__} has no GRU whose gates could be read.")
    item_seq: list[torch.Tensor] = []

    def keep_item_seq(module: nn.Module, args: tuple[torch.Tensor, ...], output: object) -> None:
        if args[0].dim() == 2:
            item_seq[:] = [args[0]]

    @torch.no_grad()
    def report(module: nn.Module, args: tuple[torch.Tensor, ...], output: Any) -> None:
        if module.training:
            raise TrainingModeError(model)
        mask = item_seq[0] != 0
        with without_autocast(output[0]):
            x = to_work(args[0])
            ratios = []
            for layer in range(gru.num_layers):
                last = layer == gru.num_layers - 1
                hidden = to_work(output[0]) if last else _run_layer(gru, layer, x)
                ratios.append(gate_ratios(gru, layer, x, hidden) * mask)
                x = hidden
        skips = [module for module in model.modules() if isinstance(module, AddedSkip)]
        callback(
            Decomposition(
                layers=tuple(str(layer + 1) for layer in range(gru.num_layers)),
                stages=GATE_STAGES,
                ratios=torch.stack(ratios).unsqueeze(1),
                mask=mask,
                alpha=tuple(skip.factor for skip in skips) or None,
            )
        )

    embedding: nn.Module = model.get_submodule("item_embedding")
    handles = [
        embedding.register_forward_hook(keep_item_seq),
        gru.register_forward_hook(report),
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
