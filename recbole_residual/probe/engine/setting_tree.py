"""Settings as a tree: what several settings share is computed once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from recbole_residual.errors import ProbeError
from recbole_residual.probe.engine.setting import Setting


@dataclass
class FeedForwardNode:
    """The output of one layer for one factor of its feed-forward residual.

    Attributes:
        factor: that factor.
        leaf: index of the setting that ends here, in the last layer.
        next: what the next layer does with this output.
    """

    factor: float
    leaf: int | None = None
    next: LayerNode | None = None


@dataclass
class AttentionNode:
    """The output of one attention block for one ``alpha``.

    Attributes:
        alpha: factor of the residual.
        index: number of this node among those of its layer.
        outputs: one per factor of the feed-forward residual.
    """

    alpha: float
    index: int
    outputs: list[FeedForwardNode] = field(default_factory=list)


@dataclass
class LayerNode:
    """One layer on one input; everything before the residual is computed once.

    Attributes:
        children: one per ``alpha``.
    """

    children: list[AttentionNode] = field(default_factory=list)


@dataclass(frozen=True)
class SettingTree:
    """A tree over the layers whose leaves are settings.

    Attributes:
        root: the first layer.
        n_attention: number of attention nodes of each layer.
        paths: for each setting the index of its attention node in each layer.
    """

    root: LayerNode
    n_attention: tuple[int, ...]
    paths: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, settings: Sequence[Setting]) -> SettingTree:
        """The tree of different settings of one model.

        Example:
            >>> grid = [Setting((a, b), (1.0, 1.0)) for a in (0.0, 1.0) for b in (0.0, 0.5, 1.0)]
            >>> SettingTree.of(grid).n_attention
            (2, 6)
        """
        if len(set(settings)) < len(settings):
            raise ProbeError("a setting is given twice.")
        n_layers = len(settings[0].alpha)
        n_attention = [0] * n_layers
        root = LayerNode()
        paths = []
        for leaf, setting in enumerate(settings):
            layer, path = root, []
            for depth, (alpha, factor) in enumerate(zip(setting.alpha, setting.feed_forward)):
                node = next((child for child in layer.children if child.alpha == alpha), None)
                if node is None:
                    node = AttentionNode(alpha, n_attention[depth])
                    n_attention[depth] += 1
                    layer.children.append(node)
                path.append(node.index)
                output = next((out for out in node.outputs if out.factor == factor), None)
                if output is None:
                    output = FeedForwardNode(factor)
                    node.outputs.append(output)
                if depth == n_layers - 1:
                    output.leaf = leaf
                else:
                    output.next = layer = output.next or LayerNode()
            paths.append(tuple(path))
        return cls(root, tuple(n_attention), tuple(paths))
