"""Weights out of a checkpoint into a model, after a look whether they are this model's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from scipy import sparse

from recbole_residual.errors import CheckpointError

_PLAIN_KINDS = (
    torch.Tensor,
    np.ndarray,
    np.generic,
    bool,
    int,
    float,
    str,
    list,
    tuple,
    set,
    dict,
    type(None),
)


def load_weights(model: Any, checkpoint: Mapping[str, Any], path: str) -> None:
    """Put the weights of a checkpoint into a model, and put it into evaluation mode.

    Args:
        model: built from the checkpoint's configuration and data.
        checkpoint: what one of the two readers of checkpoints gave.
        path: of the checkpoint, for the message.

    Raises:
        CheckpointError: if they are not this model's.
    """
    state = checkpoint["state_dict"]
    check_same_items(state, model, path)
    unknown = sorted(set(state) - set(model.state_dict()))
    if unknown:
        raise CheckpointError(
            f"{path} does not fit: it holds {unknown[0]}, which {type(model).__name__} has not."
        )
    model.load_state_dict(state)
    device = next((tensor.device for tensor in model.state_dict().values()), None)
    others = plain_parameters(checkpoint.get("other_parameter") or {})
    model.load_other_parameter(
        {
            name: value.to(device) if isinstance(value, torch.Tensor) else value
            for name, value in others.items()
        }
    )
    model.eval()


def plain_parameters(values: Mapping[str, Any]) -> dict[str, Any]:
    """What of RecBole's ``other_parameter`` is no layer; layers are in ``state_dict`` already."""
    return {
        name: value
        for name, value in values.items()
        if isinstance(value, _PLAIN_KINDS) or sparse.issparse(value)
    }


def check_same_items(state_dict: Mapping[str, torch.Tensor], model: Any, path: str) -> None:
    """Refuse weights whose shapes are not the model's: other data, or another configuration.

    Args:
        state_dict: the weights.
        model: the model that they are for.
        path: of the checkpoint, for the message.

    Raises:
        CheckpointError: naming the first tensor that differs.
    """
    for name, expected in model.state_dict().items():
        saved = state_dict.get(name)
        if saved is None or saved.shape != expected.shape:
            raise CheckpointError(
                f"{path} does not fit: {name} is "
                f"{'missing' if saved is None else tuple(saved.shape)}, the model built from the "
                f"configuration and the data wants {tuple(expected.shape)}. Is the data the same?"
            )
