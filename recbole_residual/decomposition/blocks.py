"""What one forward leaves behind in a block, read through hooks on RecBole's own modules."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Callable

import torch
from torch import nn

from recbole_residual.decomposition.mixing import Block, attention_kind
from recbole_residual.decomposition.states import (
    AttentionState,
    FeedForwardState,
    mix,
    to_work,
    without_autocast,
)
from recbole_residual.errors import ModelError, TrainingModeError
from recbole_residual.model.architecture.layers import Layer
from recbole_residual.model.architecture.stream import BRANCH_GATE, carries_stream, residual_of
from recbole_residual.model.architecture.wrappers import hookable
from recbole_residual.model.residual import residual_factor


class _Outputs(dict[str, torch.Tensor]):
    """Tensors of one forward of a block by name, with an error that says which one is missing."""

    def __init__(self, block: nn.Module) -> None:
        super().__init__()
        self._block = type(block).__name__

    def __missing__(self, name: str) -> torch.Tensor:
        raise RuntimeError(
            f"This {self._block} ran without its {name!r}, so it cannot be decomposed: its forward "
            "does not call the submodules that RecBole's block calls."
        )


class _Tap:
    """Hooks on one block that keep tensors until its LayerNorm has run."""

    def __init__(self, block: Block, *names: str) -> None:
        self.block = block
        self.outputs = _Outputs(block)
        self._handles = [
            block.register_forward_pre_hook(self._start),
            block.LayerNorm.register_forward_hook(self._finish),
        ]
        gates = (BRANCH_GATE,) if hasattr(block, BRANCH_GATE) else ()
        for name in (*names, *gates):
            module = getattr(block, name)
            self._handles.append(module.register_forward_hook(self._keep(name)))

    def _keep(self, name: str) -> Callable[..., None]:
        def hook(module: nn.Module, args: tuple[Any, ...], output: torch.Tensor) -> None:
            self.outputs[name] = output.detach()
            if name == "dense":
                self.outputs["context"] = args[0].detach()

        return hook

    def _start(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        if module.training:
            raise TrainingModeError(module)
        self.outputs = _Outputs(module)
        self.outputs["x"] = residual_of(module, args[0]).detach()
        if len(args) > 1:
            self.outputs["second"] = args[1].detach()

    @torch.no_grad()
    def _finish(self, module: nn.Module, args: tuple[Any, ...], output: torch.Tensor) -> None:
        # A forward hook is handed what the pre-hooks made of the input: the z of this LayerNorm,
        # whatever scaled it and in whatever order the hooks were set.
        outputs, self.outputs = self.outputs, _Outputs(self.block)
        outputs["z"], outputs["h"] = args[0].detach(), output.detach()
        with without_autocast(output):
            self.report(outputs)

    def report(self, outputs: _Outputs) -> None:
        raise NotImplementedError

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()


class _AttentionTap(_Tap):
    def __init__(
        self,
        block: Block,
        sink: Callable[[AttentionState], None],
        item_mask: Callable[[], torch.Tensor],
    ) -> None:
        self._kind = attention_kind(block)
        self._sink = sink
        self._item_mask = item_mask
        super().__init__(block, self._kind.value, "dense", *self._kind.outputs)

    def _valid(self, outputs: _Outputs) -> torch.Tensor:
        """Valid positions, [B, L]: keys that the last query may see, or items that are not 0."""
        second = outputs.get("second")
        if second is None or second.dim() != 4:
            return self._item_mask()
        # RecBole adds -10000 to the scores of a masked key, and 0 to those of a visible one.
        return (second[:, 0, -1, :] > -5000).expand(outputs["z"].shape[0], -1)

    def report(self, outputs: _Outputs) -> None:
        mask = self._valid(outputs)
        if not self._kind.masks_padding:
            for name, tensor in outputs.items():
                outputs[name] = to_work(tensor)
        weights = self._kind.matrix(self.block, outputs)
        values, context, branch, z = (
            outputs[self._kind.value],
            outputs["context"],
            outputs["dense"],
            outputs["z"],
        )
        gate = outputs.get(BRANCH_GATE)
        if gate is not None:
            branch = branch * gate
        padding = None
        if not self._kind.masks_padding:
            weights = weights * mask[:, None, None, :]
            context = mix(weights, values)
            dense = self.block.dense
            clean = nn.functional.linear(context, to_work(dense.weight), to_work(dense.bias))
            padding = branch - clean
            branch, z = clean, z - padding
        self._sink(
            AttentionState(
                dense=self.block.dense,
                norm=self.block.LayerNorm,
                mask=mask,
                values=values,
                weights=weights,
                own_weight=weights.diagonal(dim1=-2, dim2=-1),
                context=context,
                branch=branch,
                z=z,
                padding=padding,
                x=outputs["x"],
                h=outputs["h"],
                alpha=residual_factor(self.block),
                gate=gate,
            )
        )


class _FeedForwardTap(_Tap):
    def __init__(
        self,
        block: Block,
        sink: Callable[[FeedForwardState], None],
        mask: Callable[[], torch.Tensor],
    ) -> None:
        self._sink = sink
        self._mask = mask
        super().__init__(block, "dense_2")

    def report(self, outputs: _Outputs) -> None:
        branch, gate = outputs["dense_2"], outputs.get(BRANCH_GATE)
        self._sink(
            FeedForwardState(
                dense=self.block.dense_2,
                norm=self.block.LayerNorm,
                mask=self._mask(),
                branch=branch if gate is None else branch * gate,
                z=outputs["z"],
                alpha=residual_factor(self.block),
                carries_stream=carries_stream(self.block),
                gate=gate,
            )
        )


class _ItemSequence:
    """Forward hook on the item embedding: the last item sequence that went through it."""

    def __init__(self, model: nn.Module) -> None:
        self._name = type(model).__name__
        self._item_seq: torch.Tensor | None = None

    def __call__(self, module: nn.Module, args: tuple[torch.Tensor, ...], output: object) -> None:
        if args[0].dim() == 2:
            self._item_seq = args[0]

    def mask(self) -> torch.Tensor:
        """Positions with an item, [B, L]."""
        if self._item_seq is None:
            raise ModelError(
                f"{self._name} hands no attention mask to its blocks and has no item_embedding to "
                "read the item sequence from: valid positions are unknown."
            )
        return self._item_seq != 0


@contextmanager
def tapped(
    model: nn.Module,
    layers: list[Layer],
    on_attention: Callable[[int, AttentionState], None],
    on_feed_forward: Callable[[int, FeedForwardState], None] | None = None,
) -> Iterator[None]:
    """Hand over what every block of every forward leaves behind, layer by layer.

    Args:
        model: the model that holds the layers.
        layers: some of its :func:`~recbole_residual.model.architecture.layers.model_layers`.
        on_attention: called with the index of the layer when its attention block is done.
        on_feed_forward: called in the same way for the feed-forward blocks.

    Raises:
        ModelError: if feed-forward blocks are asked for and a layer has none, or if hooks in the
            model would not be called.
    """
    model = hookable(model)
    if on_feed_forward is not None and any(layer.feed_forward is None for layer in layers):
        raise ModelError(f"{type(model).__name__} has a layer without a feed-forward block.")
    masks: dict[int, torch.Tensor] = {}
    items = _ItemSequence(model)

    def keep_mask(index: int, state: AttentionState) -> None:
        masks[index] = state.mask
        on_attention(index, state)

    handles: list[Any] = []
    try:
        embedding = getattr(model, "item_embedding", None)
        if isinstance(embedding, nn.Module):
            handles.append(embedding.register_forward_hook(items))
        for index, layer in enumerate(layers):
            handles.append(_AttentionTap(layer.attention, partial(keep_mask, index), items.mask))
            if on_feed_forward is not None:
                assert layer.feed_forward is not None
                report, mask = partial(on_feed_forward, index), partial(masks.__getitem__, index)
                handles.append(_FeedForwardTap(layer.feed_forward, report, mask))
        yield
    finally:
        for handle in handles:
            handle.remove()
