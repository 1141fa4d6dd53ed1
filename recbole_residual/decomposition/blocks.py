"""What one forward leaves behind in a block, read through hooks on RecBole's own modules."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Callable

import torch
from torch import nn

from recbole_residual.decomposition.masks import RecentPositions
from recbole_residual.decomposition.mixing import Block, attention_kind
from recbole_residual.errors import ModelError, TrainingModeError
from recbole_residual.model.residual import RESIDUAL_STREAM, attention_blocks, residual_factor


@dataclass(frozen=True)
class AttentionState:
    """One attention block in one forward, the residual already scaled by ``alpha``.

    Attributes:
        dense: the output layer, W_O and b_O.
        norm: the LayerNorm behind it, with gain g, bias b and eps.
        mask: valid positions, [B, L].
        values: values of all heads side by side, [B, L, D].
        weights: mixing matrix, 0 on padding keys, [B, H, L, L].
        own_weight: its diagonal, [B, H, L].
        context: what ``dense`` receives, without anything from padding, [B, L, D].
        branch: what ``dense`` gives for that context, its bias included, [B, L, D].
        z: what LayerNorm sees, without anything from padding, [B, L, D].
        padding: what padding adds to ``z``; None for blocks that take nothing from it, [B, L, D].
        x: what the residual carries: the input of the block, or the stream of a pre-LN model,
            [B, L, D].
        h: what LayerNorm gives, [B, L, D].
        alpha: residual factor in force.
    """

    dense: nn.Linear
    norm: nn.LayerNorm
    mask: torch.Tensor
    values: torch.Tensor
    weights: torch.Tensor
    own_weight: torch.Tensor
    context: torch.Tensor
    branch: torch.Tensor
    z: torch.Tensor
    padding: torch.Tensor | None
    x: torch.Tensor
    h: torch.Tensor
    alpha: float

    @property
    def inverse_sigma(self) -> torch.Tensor:
        """``1 / sqrt(var(z) + eps)`` of what LayerNorm really sees, [B, L]."""
        z = self.z if self.padding is None else self.z + self.padding
        return inverse_sigma(self.norm, z)

    def take(self, positions: RecentPositions) -> AttentionState:
        """The state at some positions only, as queries and as keys: K in the place of L."""
        index = positions.index
        n_heads, n_dim, n_kept = self.weights.shape[1], self.z.shape[-1], index.shape[1]
        vectors = index.unsqueeze(-1).expand(-1, -1, n_dim)
        rows = index[:, None, :, None].expand(-1, n_heads, -1, self.weights.shape[-1])
        columns = index[:, None, None, :].expand(-1, n_heads, n_kept, -1)

        def kept(tensor: torch.Tensor) -> torch.Tensor:
            return tensor.gather(1, vectors)

        return replace(
            self,
            mask=positions.valid,
            values=kept(self.values),
            weights=self.weights.gather(2, rows).gather(3, columns),
            own_weight=self.own_weight.gather(2, index[:, None, :].expand(-1, n_heads, -1)),
            context=kept(self.context),
            branch=kept(self.branch),
            z=kept(self.z),
            padding=None if self.padding is None else kept(self.padding),
            x=kept(self.x),
            h=kept(self.h),
        )


@dataclass(frozen=True)
class FeedForwardState:
    """One feed-forward block in one forward.

    Attributes:
        dense: the second dense layer.
        norm: the LayerNorm behind it, with gain g, bias b and eps.
        mask: valid positions, [B, L].
        branch: output of the second dense layer, its bias included, [B, L, D].
        z: what LayerNorm sees, [B, L, D].
        alpha: residual factor in force.
        carries_stream: whether its residual carries the sum before the LayerNorm of the attention
            block (a pre-LN model), and not what comes out of it.
    """

    dense: nn.Linear
    norm: nn.LayerNorm
    mask: torch.Tensor
    branch: torch.Tensor
    z: torch.Tensor
    alpha: float
    carries_stream: bool


def to_work(tensor: torch.Tensor) -> torch.Tensor:
    """float64 stays float64; everything narrower is worked out in float32."""
    return tensor if tensor.dtype == torch.float64 else tensor.float()


def inverse_sigma(norm: nn.LayerNorm, z: torch.Tensor) -> torch.Tensor:
    """``1 / sqrt(var(z) + eps)`` as LayerNorm works it out, [..., D] -> [...]."""
    return torch.native_layer_norm(to_work(z), z.shape[-1:], None, None, norm.eps)[2].squeeze(-1)


def without_autocast(tensor: torch.Tensor) -> torch.autocast:
    """A context in which nothing is cast down, on the device of ``tensor``."""
    return torch.autocast(device_type=tensor.device.type, enabled=False)


class _Seen(dict[str, torch.Tensor]):
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
        self.seen = _Seen(block)
        self._handles = [
            block.register_forward_pre_hook(self._start),
            block.LayerNorm.register_forward_hook(self._finish),
        ]
        for name in names:
            module = getattr(block, name)
            self._handles.append(module.register_forward_hook(self._keep(name)))

    def _keep(self, name: str) -> Callable[..., None]:
        def hook(module: nn.Module, args: tuple[Any, ...], output: torch.Tensor) -> None:
            self.seen[name] = output.detach()
            if name == "dense":
                self.seen["context"] = args[0].detach()

        return hook

    def _start(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        if module.training:
            raise TrainingModeError(module)
        stream = vars(module).get(RESIDUAL_STREAM)
        self.seen = _Seen(module)
        self.seen["x"] = (args[0] if stream is None else stream.stream).detach()
        if len(args) > 1:
            self.seen["second"] = args[1].detach()

    @torch.no_grad()
    def _finish(self, module: nn.Module, args: tuple[Any, ...], output: torch.Tensor) -> None:
        # A forward hook is handed what the pre-hooks made of the input: the z of this LayerNorm,
        # whatever scaled it and in whatever order the hooks were set.
        seen, self.seen = self.seen, _Seen(self.block)
        seen["z"], seen["h"] = args[0].detach(), output.detach()
        with without_autocast(output):
            self.report(seen)

    def report(self, seen: _Seen) -> None:
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

    def _valid(self, seen: _Seen) -> torch.Tensor:
        """Valid positions, [B, L]: keys that the last query may see, or items that are not 0."""
        second = seen.get("second")
        if second is None or second.dim() != 4:
            return self._item_mask()
        # RecBole adds -10000 to the scores of a masked key, and 0 to those of a visible one.
        return (second[:, 0, -1, :] > -5000).expand(seen["z"].shape[0], -1)

    def report(self, seen: _Seen) -> None:
        mask = self._valid(seen)
        if not self._kind.masks_padding:
            for name, tensor in seen.items():
                seen[name] = to_work(tensor)
        weights = self._kind.matrix(self.block, seen)
        values, context, branch, z = (
            seen[self._kind.value],
            seen["context"],
            seen["dense"],
            seen["z"],
        )
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
                x=seen["x"],
                h=seen["h"],
                alpha=residual_factor(self.block),
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

    def report(self, seen: _Seen) -> None:
        self._sink(
            FeedForwardState(
                dense=self.block.dense_2,
                norm=self.block.LayerNorm,
                mask=self._mask(),
                branch=seen["dense_2"],
                z=seen["z"],
                alpha=residual_factor(self.block),
                carries_stream=RESIDUAL_STREAM in vars(self.block),
            )
        )


def mix(weights: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """``sum_j M[h, i, j] v[h, j]``, heads side by side.

    Args:
        weights: mixing matrix, [B, H, L, L].
        values: values of all heads side by side, [B, L, D].

    Returns:
        torch.Tensor: context, [B, L, D].
    """
    heads = values.unflatten(-1, (weights.shape[1], -1)).transpose(1, 2)
    return torch.matmul(weights, heads).transpose(1, 2).flatten(-2)


@dataclass(frozen=True)
class Layer:
    """One layer of a model: an attention block and the feed-forward block behind it.

    Attributes:
        label: "1", "2", ... in a model with one encoder; with the encoder's name before it
            ("item_trm_encoder.1") in a model with several.
        encoder: path of the encoder inside the model, "" for none.
        attention: the attention block.
        feed_forward: the feed-forward block behind it; None if there is none.
    """

    label: str
    encoder: str
    attention: nn.Module
    feed_forward: nn.Module | None


def model_layers(model: nn.Module) -> list[Layer]:
    """The layers of ``model``, first one first.

    Raises:
        NoAttentionError: if there is no attention block.
    """
    wanted = attention_blocks(model)
    paths = {module: path for path, module in model.named_modules()}
    encoders = []
    for block in wanted:
        parts = paths[block].split(".")
        while parts and parts[-1] != "layer":
            parts.pop()
        encoders.append(".".join(parts[:-1]))
    layers: list[Layer] = []
    for block, encoder in zip(wanted, encoders):
        number = 1 + sum(layer.encoder == encoder for layer in layers)
        label = str(number) if len(set(encoders)) == 1 else f"{encoder}.{number}"
        parent = model.get_submodule(paths[block].rpartition(".")[0])
        layers.append(Layer(label, encoder, block, getattr(parent, "feed_forward", None)))
    return layers


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
        layers: what :func:`model_layers` gave for it.
        on_attention: called with the index of the layer when its attention block is done.
        on_feed_forward: called in the same way for the feed-forward blocks.

    Raises:
        ValueError: if feed-forward blocks are asked for and a layer has none.
    """
    if on_feed_forward is not None and any(layer.feed_forward is None for layer in layers):
        raise ModelError(f"{type(model).__name__} has a layer without a feed-forward block.")
    masks: dict[int, torch.Tensor] = {}
    item_seq: list[torch.Tensor] = []

    def keep_item_seq(module: nn.Module, args: tuple[torch.Tensor, ...], output: object) -> None:
        if args[0].dim() == 2:
            item_seq[:] = [args[0]]

    def item_mask() -> torch.Tensor:
        if not item_seq:
            raise ModelError(
                f"{type(model).__name__} hands no attention mask to its blocks and has no "
                "item_embedding to read the item sequence from: valid positions are unknown."
            )
        return item_seq[0] != 0

    def attention_sink(index: int) -> Callable[[AttentionState], None]:
        def sink(state: AttentionState) -> None:
            masks[index] = state.mask
            on_attention(index, state)

        return sink

    handles: list[Any] = []
    try:
        embedding = getattr(model, "item_embedding", None)
        if isinstance(embedding, nn.Module):
            handles.append(embedding.register_forward_hook(keep_item_seq))
        for index, layer in enumerate(layers):
            handles.append(_AttentionTap(layer.attention, attention_sink(index), item_mask))
            if on_feed_forward is not None:
                assert layer.feed_forward is not None
                handles.append(
                    _FeedForwardTap(
                        layer.feed_forward,
                        partial(on_feed_forward, index),
                        partial(masks.__getitem__, index),
                    )
                )
        yield
    finally:
        for handle in handles:
            handle.remove()
