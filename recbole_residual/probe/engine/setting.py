"""What is varied from one evaluation to the next: the residual factors of a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from typing import Any

from recbole_residual.errors import NoAttentionError, ProbeError
from recbole_residual.model.architecture.blocks import feed_forward_blocks
from recbole_residual.model.architecture.residuals import neutral_alpha, residual_blocks
from recbole_residual.model.residual import (
    Alpha,
    check_alpha,
    residual_alpha,
    residual_factor,
    scale_residual,
)
from recbole_residual.probe.arguments import check_factors

DEFAULT_ALPHAS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
"""The grid of the papers."""

RESIDUALS = ("attention", "feed_forward", "both")
"""Which residuals a sweep scales."""


@dataclass(frozen=True)
class Setting:
    """Residual factors of one evaluation, first layer first.

    Attributes:
        alpha: factor around each attention block.
        feed_forward: factor around each feed-forward block.
    """

    alpha: tuple[float, ...]
    feed_forward: tuple[float, ...]


def factors_in_text(factors: Sequence[float]) -> str:
    """Residual factors as every table, figure and label writes them.

    Args:
        factors: one per layer.

    Returns:
        One number if it is the same in every layer, else one per layer; nothing for no factor.

    Example:
        >>> factors_in_text([0.3, 0.3]), factors_in_text([0.3, 1.0])
        ('0.3', '0.3 1')
    """
    different = list(dict.fromkeys(factors))
    return " ".join(f"{factor:g}" for factor in (different if len(different) < 2 else factors))


@dataclass(frozen=True)
class ScalableResiduals:
    """What of a model a sweep can scale.

    Attributes:
        n_alpha: number of factors ``alpha`` has; 0 if alpha is out of reach.
        n_feed_forward: number of residuals around feed-forward blocks.
        neutral_alpha: the alpha of the unchanged model: 1, or 0 for a skip that a model adds.
        joint: whether the model's alpha scales both kinds of residuals.
    """

    n_alpha: int
    n_feed_forward: int
    neutral_alpha: float
    joint: bool

    @classmethod
    def of(cls, model: Any) -> ScalableResiduals:
        """What can be scaled in ``model``."""
        try:
            n_alpha, neutral = len(residual_blocks(model)), neutral_alpha(model)
        except NoAttentionError:
            n_alpha, neutral = 0, 1.0
        joint = getattr(model, "alpha_scales_feed_forward", False)
        return cls(n_alpha, len(feed_forward_blocks(model)), neutral, joint)

    def setting(self, alpha: Alpha, feed_forward: Alpha = 1.0) -> Setting:
        """A setting from a number for all layers, or one per layer.

        Raises:
            ValueError: if a factor is not usable.
        """
        return Setting(
            tuple(check_alpha(alpha, self.n_alpha)),
            tuple(check_alpha(feed_forward, self.n_feed_forward, "feed_forward")),
        )

    @property
    def unscaled(self) -> Setting:
        """The unchanged model."""
        return self.setting(self.neutral_alpha)


def current_setting(model: Any) -> Setting:
    """The factors in force on ``model``."""
    alpha = residual_alpha(model) if ScalableResiduals.of(model).n_alpha else []
    blocks = feed_forward_blocks(model)
    return Setting(tuple(alpha), tuple(residual_factor(block) for block in blocks))


@contextmanager
def applied(model: Any, setting: Setting) -> Iterator[None]:
    """Inside, ``setting`` is in force on ``model``."""
    alpha, feed_forward = list(setting.alpha) or None, list(setting.feed_forward) or None
    with scale_residual(model, alpha, feed_forward=feed_forward):
        yield


def sweep_settings(
    scalable: ScalableResiduals,
    alphas: Sequence[float],
    residual: str | None = None,
    per_layer: bool = False,
) -> list[Setting]:
    """The settings of a sweep, in the order of ``alphas``.

    Args:
        scalable: what of the model can be scaled.
        alphas: the grid.
        residual: which residuals to scale, one of :data:`RESIDUALS`; by default those that the
            model's own ``alpha`` scales.
        per_layer: every combination of one factor per layer instead of one for all layers.

    Raises:
        ValueError: if the grid is empty or holds a factor twice, or a factor is not usable, or the
            model has no such residual.

    Example:
        >>> scalable = ScalableResiduals(2, 2, neutral_alpha=1.0, joint=False)
        >>> [setting.alpha for setting in sweep_settings(scalable, [0, 1], per_layer=True)]
        [(0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (1.0, 1.0)]
    """
    if residual is None:
        residual = "both" if scalable.joint else "attention"
    if residual not in RESIDUALS:
        raise ProbeError(f"residual = {residual!r} is not usable: one of {list(RESIDUALS)}.")
    alphas = check_factors("alphas", alphas)
    n_factors = scalable.n_alpha if residual == "attention" else scalable.n_feed_forward
    if not n_factors:
        raise ProbeError(f"the model has no {residual.replace('_', '-')} residual to scale.")
    if per_layer:
        grid = [list(point) for point in product(alphas, repeat=n_factors)]
    else:
        grid = [[alpha] * n_factors for alpha in alphas]
    if residual == "attention":
        return [scalable.setting(point) for point in grid]
    if residual == "feed_forward":
        return [scalable.setting(scalable.neutral_alpha, point) for point in grid]
    return [scalable.setting(point, point) for point in grid]
