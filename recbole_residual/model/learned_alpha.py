"""Residual factors that training chooses: one per layer, starting at 1.

.. math::
    z = \\alpha\\, \\lambda_\\ell\\, x + \\mathrm{attention}(x)

``alpha_train: learned`` makes each ``lambda`` a parameter of the model. ``alpha`` multiplies it: at
1, its default, inference is what was trained.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from recbole_residual.errors import ModelError
from recbole_residual.model.architecture.residuals import AddedSkip, residual_blocks
from recbole_residual.model.architecture.stream import set_residual_weight

LEARNED = "learned"
"""Value of ``alpha_train`` that asks for this."""


class LayerFactor:
    """One entry of a parameter, asked for anew in every forward."""

    def __init__(self, parameter: nn.Parameter, layer: int) -> None:
        self._parameter, self._layer = parameter, layer

    def __call__(self) -> torch.Tensor:
        return self._parameter[self._layer]


def learn_alpha(model: Any) -> nn.Parameter:
    """Let the residual of each attention block of ``model`` carry a learned multiple of its input.

    Args:
        model: a model built from RecBole's attention blocks, just built.

    Returns:
        The factors, all 1, [n_layers]; to be kept as a parameter of the model.

    Raises:
        NoAttentionError: if the model has no attention block.
        ModelError: if what ``alpha`` scales in it is an added skip, whose neutral factor is 0.
    """
    blocks = residual_blocks(model)
    if isinstance(blocks[0], AddedSkip):
        raise ModelError(
            f"alpha_train = 'learned' is for residuals that the model has: that of "
            f"{type(model).__name__} is added, and 0 by default. Give alpha_train a number."
        )
    factors = nn.Parameter(torch.ones(len(blocks)))
    for layer, block in enumerate(blocks):
        set_residual_weight(block, LayerFactor(factors, layer))
    return factors
