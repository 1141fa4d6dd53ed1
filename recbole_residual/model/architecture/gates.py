"""The GRU that stands in the place of attention."""

from __future__ import annotations

from torch import nn


def find_gru(model: nn.Module) -> nn.GRU | None:
    """The GRU of a model that has just one and no attention, such as RecBole's GRU4Rec."""
    grus = [module for module in model.modules() if isinstance(module, nn.GRU)]
    usable = len(grus) == 1 and grus[0].batch_first and not grus[0].bidirectional
    return grus[0] if usable else None
