"""Many settings of one SASRec in one pass: its weights laid out, and every layer done once per
input it really has.

The branch of a block, ``sum_j a_ij + b_O``, does not depend on the block's own ``alpha``; so the
first block's attention is shared by all settings. What follows is linear in ``alpha`` up to the
activation of the feed-forward block, ``W_1 N(branch + alpha x)``, so its two products are shared
too. Only the positions that somebody reads go through the last feed-forward block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from recbole_residual.decomposition.ratios import gained_norm
from recbole_residual.decomposition.sasrec_layer import (
    CausalRows,
    SasrecLayer,
    others_and_own,
)
from recbole_residual.decomposition.stages import mixing_ratio
from recbole_residual.decomposition.sums import all_and_last, ratio_sums, row_sums
from recbole_residual.model.architecture.functions import layer_norm
from recbole_residual.model.architecture.precision import widened
from recbole_residual.model.architecture.stream import weighted
from recbole_residual.probe.engine.setting_tree import AttentionNode, LayerNode, SettingTree

_SHARED_FROM = 3
"""From this many children on, what they share is worth computing first."""


@dataclass(frozen=True)
class Encoded:
    """What one pass over some rows gives, for every setting.

    Attributes:
        hidden: output at the last position, [S, B, D].
        read: output of one setting at the positions before the last, [n_back, B, D].
        ratio_sums: for each layer the sums of the mixing ratios of each of its attention nodes,
            over all valid positions and over last positions, float64 [n_nodes, n_stages, 2].
        row_sums: the same for each row alone, [n_nodes, n_stages, B, 2].
    """

    hidden: torch.Tensor
    read: torch.Tensor
    ratio_sums: list[torch.Tensor]
    row_sums: list[torch.Tensor]


@dataclass
class _Rows:
    """The rows of one pass: B sequences padded to L, flat positions B * L."""

    n_rows: int
    n_positions: int
    last: torch.Tensor
    before: torch.Tensor
    groups: torch.Tensor
    causal: CausalRows
    leaves: list[Any]
    ratio_sums: list[list[torch.Tensor]]
    row_sums: list[list[torch.Tensor]]


class SweepEncoder:
    """One SASRec under many settings.

    Args:
        model: a model for which
            :func:`~recbole_residual.evaluator.states.is_plain_sasrec` holds, in eval mode.
        settings: different settings.
        read_setting: the setting whose earlier positions are read.
        n_back: how many positions before the last are read of that one.
    """

    def __init__(self, model: Any, tree: SettingTree, read_leaf: int, n_back: int) -> None:
        self.tree = tree
        self._read_leaf = read_leaf
        self._n_back = n_back
        self._item = model.item_embedding.weight
        self._position = model.position_embedding.weight
        self._norm = model.LayerNorm
        self._layers = [SasrecLayer.of(layer) for layer in model.trm_encoder.layer]

    def encode(self, item_seq: torch.Tensor, item_seq_len: torch.Tensor) -> Encoded:
        """Run every setting on some rows.

        Args:
            item_seq: item ids, padded with 0 at the end to the longest of these rows, [B, L].
            item_seq_len: lengths, at least 1, [B].
        """
        rows = self._rows(item_seq, item_seq_len)
        x = self._item[item_seq] + self._position[: item_seq.shape[1]]
        x = layer_norm(self._norm, x.flatten(0, 1))
        self._run(0, self.tree.root, x, rows)
        hidden = x.new_empty(len(self.tree.paths), rows.n_rows, x.shape[1])
        read = x.new_empty(self._n_back, rows.n_rows, x.shape[1])
        self._finish(rows, hidden, read)
        return Encoded(
            hidden,
            read,
            [torch.stack(sums) for sums in rows.ratio_sums],
            [torch.stack(sums) for sums in rows.row_sums],
        )

    def _rows(self, item_seq: torch.Tensor, item_seq_len: torch.Tensor) -> _Rows:
        n_rows, length = item_seq.shape
        device = item_seq.device
        order = torch.arange(length, device=device)
        first = torch.arange(n_rows, device=device) * length
        last = first + item_seq_len - 1
        back = torch.arange(1, self._n_back + 1, device=device).unsqueeze(1)
        return _Rows(
            n_rows=n_rows,
            n_positions=length,
            last=last,
            before=torch.maximum(last - back, first),
            groups=all_and_last(order < item_seq_len.unsqueeze(1)),
            causal=CausalRows.of(n_rows, length, self._item),
            leaves=[],
            ratio_sums=[[torch.empty(0)] * n for n in self.tree.n_attention],
            row_sums=[[torch.empty(0)] * n for n in self.tree.n_attention],
        )

    def _run(self, depth: int, node: LayerNode, x: torch.Tensor, rows: _Rows) -> None:
        """One layer on one input [N, D], and everything behind it."""
        layer = self._layers[depth]
        mixing, own = others_and_own(layer, x, rows.causal)
        x = weighted(layer.attention, x)  # from here on x is what the residual carries
        sums = _ratio_sums(layer, node, x, mixing, own, rows)
        for child, (total, by_row) in zip(node.children, sums):
            rows.ratio_sums[depth][child.index] = total
            rows.row_sums[depth][child.index] = by_row
        branch = mixing.add_(own)
        if layer.dense.bias is not None:
            branch = branch.add_(layer.dense.bias)
        if depth == len(self._layers) - 1:
            self._collect(node, x, branch, rows)
            return
        feed = _FeedForwardInput(layer, x, branch, shared=len(node.children) >= _SHARED_FROM)
        for child in node.children:
            normed, written = feed.of(child.alpha)
            for output in child.outputs:
                z = torch.add(written, normed, alpha=output.factor)
                assert output.next is not None
                self._run(depth + 1, output.next, layer_norm(layer.output_norm, z), rows)

    def _collect(self, node: LayerNode, x: torch.Tensor, branch: torch.Tensor, rows: _Rows) -> None:
        """Keep, of the last attention block, the positions that are read."""
        x_last, branch_last = x[rows.last], branch[rows.last]
        for child in node.children:
            z = torch.add(branch_last, x_last, alpha=child.alpha)
            rows.leaves.append((child, z, None))
            if self._n_back and any(out.leaf == self._read_leaf for out in child.outputs):
                before = rows.before.flatten()
                z = torch.add(branch[before], x[before], alpha=child.alpha)
                rows.leaves.append((child, z, self._read_leaf))

    def _finish(self, rows: _Rows, hidden: torch.Tensor, read: torch.Tensor) -> None:
        """The last feed-forward block, at the positions that are read."""
        layer = self._layers[-1]
        normed = layer_norm(layer.norm, torch.cat([z for _, z, _ in rows.leaves]))
        written = layer.dense_2(layer.activation(layer.dense_1(normed)))
        sizes = [len(z) for _, z, _ in rows.leaves]
        parts = zip(rows.leaves, normed.split(sizes), written.split(sizes))
        for (child, _, read_leaf), normed_part, written_part in parts:
            for output in child.outputs:
                z = torch.add(written_part, normed_part, alpha=output.factor)
                if read_leaf is None:
                    hidden[output.leaf] = layer_norm(layer.output_norm, z)
                elif output.leaf == read_leaf:
                    read[:] = layer_norm(layer.output_norm, z).view_as(read)


def _ratio_sums(
    layer: SasrecLayer,
    node: LayerNode,
    x: torch.Tensor,
    mixing: torch.Tensor,
    own: torch.Tensor,
    rows: _Rows,
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Sums of the mixing ratios of each child, float64 [n_stages, 2] and [n_stages, B, 2]."""
    norm = layer.norm
    mixing_norm = torch.linalg.vector_norm(mixing, dim=1)
    mixing_ln = gained_norm(mixing, norm)
    attn = mixing_ratio(mixing_norm, torch.linalg.vector_norm(own, dim=1))
    kept = _kept_norms(layer, node.children, x, own)
    sums = []
    for res_norm, ln_norm in kept:
        ratios = torch.stack(
            [attn, mixing_ratio(mixing_norm, res_norm), mixing_ratio(mixing_ln, ln_norm)]
        )
        by_row = ratios.unflatten(1, (rows.n_rows, rows.n_positions))
        sums.append((ratio_sums(by_row, rows.groups), row_sums(by_row, rows.groups)))
    return sums


def _kept_norms(
    layer: SasrecLayer, children: Sequence[AttentionNode], x: torch.Tensor, own: torch.Tensor
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Norms of ``a_ii + alpha x_i`` and of its N() without sigma, for each child's alpha."""
    if len(children) < _SHARED_FROM:
        norms = []
        for child in children:
            kept = torch.add(own, x, alpha=child.alpha)
            norms.append((torch.linalg.vector_norm(kept, dim=1), gained_norm(kept, layer.norm)))
        return norms
    # Squares of the norms are quadratic in alpha; in float64 nothing is lost where they cancel.
    plain = _Quadratic(widened(own), widened(x))
    gain = widened(layer.norm.weight)
    gained = _Quadratic(gain * _centred(widened(own)), gain * _centred(widened(x)))
    return [(plain.norm(c.alpha).to(x), gained.norm(c.alpha).to(x)) for c in children]


def _centred(u: torch.Tensor) -> torch.Tensor:
    return u - u.mean(dim=-1, keepdim=True)


class _Quadratic:
    """``||u + alpha v||`` for many alpha, from three inner products of [N, D] vectors."""

    def __init__(self, u: torch.Tensor, v: torch.Tensor) -> None:
        self._uu = (u * u).sum(dim=1)
        self._uv = (u * v).sum(dim=1)
        self._vv = (v * v).sum(dim=1)

    def square(self, alpha: float) -> torch.Tensor:
        total = torch.add(self._uu, self._uv, alpha=2 * alpha).add_(self._vv, alpha=alpha * alpha)
        return total.clamp_(min=0)

    def norm(self, alpha: float) -> torch.Tensor:
        return self.square(alpha).sqrt_()


class _FeedForwardInput:
    """``N(z) + b`` and the output of the feed-forward block for it, for z = branch + alpha x.

    Shared, the products with W_1 are those of the centred and gained ``branch`` and ``x``; each
    alpha only combines them and divides by its own sigma.
    """

    def __init__(
        self, layer: SasrecLayer, x: torch.Tensor, branch: torch.Tensor, shared: bool
    ) -> None:
        self._layer, self._x, self._branch, self._shared = layer, x, branch, shared
        if not shared:
            return
        u, v = _centred(branch), _centred(x)
        self._variance = _Quadratic(widened(u), widened(v))
        norm = layer.norm
        self._u, self._v = u.mul_(norm.weight), v.mul_(norm.weight)
        weight = layer.dense_1.weight.t()
        self._u_product, self._v_product = self._u @ weight, self._v @ weight
        self._bias = torch.addmv(layer.dense_1.bias, layer.dense_1.weight, norm.bias)

    def of(self, alpha: float) -> tuple[torch.Tensor, torch.Tensor]:
        """The input of the feed-forward block and what the block writes, [N, D] each."""
        layer = self._layer
        if not self._shared:
            z = torch.add(self._branch, self._x, alpha=alpha)
            normed = layer_norm(layer.norm, z)
            inner = layer.dense_1(normed)
        else:
            variance = self._variance.square(alpha).div_(self._u.shape[1]).add_(layer.norm.eps)
            inverse = variance.rsqrt_().to(self._u).unsqueeze(1)
            normed = torch.add(self._u, self._v, alpha=alpha)
            torch.addcmul(layer.norm.bias, normed, inverse, out=normed)
            inner = torch.add(self._u_product, self._v_product, alpha=alpha)
            torch.addcmul(self._bias, inner, inverse, out=inner)
        return normed, layer.dense_2(layer.activation(inner))
