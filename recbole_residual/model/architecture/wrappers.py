"""Models inside wrappers, and blocks that never call their hooks."""

from __future__ import annotations

from typing import Any

from torch import nn
from torch.nn.parallel import DataParallel, DistributedDataParallel

from recbole_residual.errors import ModelError

_COMPILED = "OptimizedModule"
"""Class that ``torch.compile(model)`` returns; its module costs seconds to import."""


def is_compiled_wrapper(model: Any) -> bool:
    """Whether ``model`` is what ``torch.compile`` made of a model."""
    return type(model).__name__ == _COMPILED and hasattr(model, "_orig_mod")


def unwrapped(model: Any) -> Any:
    """The RecBole model inside ``torch.compile``, ``DataParallel`` or
    ``DistributedDataParallel``; anything else as it is.

    The wrapper and the model share their parameters. What is asked of the model itself
    (``full_sort_predict``, ``alpha``) runs as if there were no wrapper.

    Args:
        model: a model, wrapped once or several times, or not at all.

    Example:
        >>> model = nn.Linear(2, 2)
        >>> unwrapped(DataParallel(model)) is model
        True
    """
    while True:
        if is_compiled_wrapper(model):
            model = model._orig_mod
        elif isinstance(model, (DataParallel, DistributedDataParallel)):
            model = model.module
        else:
            return model


def hookable(model: nn.Module) -> nn.Module:
    """The model on whose blocks hooks are set, if its forward will call them.

    ``torch.compile`` traces a module without the hooks that are set later, and a replica that
    ``DataParallel`` makes on a second device runs at the same time as the first one, with the same
    hooks. ``DistributedDataParallel`` calls the one model that it holds.

    Args:
        model: a model whose forwards the caller will run.

    Returns:
        The model itself, or the one inside ``DistributedDataParallel``.

    Raises:
        ModelError: with the name of the compiled module or of the wrapper, and what to do.
    """
    while isinstance(model, DistributedDataParallel):
        model = model.module
    name = type(unwrapped(model)).__name__
    if is_compiled_wrapper(model):
        raise ModelError(
            f"{name} is wrapped by torch.compile, and a compiled forward never calls hooks that "
            "are set later: hand over the model itself, `model._orig_mod`, and call that."
        )
    if isinstance(model, DataParallel):
        raise ModelError(
            f"{name} is wrapped by DataParallel, whose replicas would share the hooks: hand over "
            "the model itself, `model.module`, and call that."
        )
    path = compiled_path(model)
    if path is not None:
        raise ModelError(
            f"{'.'.join([name, *path.split('.')] if path else [name])} is compiled "
            "(torch.compile), and a compiled forward never calls hooks that are set later, so "
            "nothing would change: take the model as it was before compile()."
        )
    return model


def compiled_path(model: nn.Module) -> str | None:
    """Path of the first module that ``compile()`` was called on, "" for the model itself; None if
    there is none."""
    for path, module in model.named_modules():
        if vars(module).get("_compiled_call_impl") is not None:
            return path
    return None


def refuse_compiled_hooks(model: nn.Module) -> None:
    """Refuse a model in which a module was compiled after hooks had been set inside it.

    Such hooks (``alpha``, pre-LN, rotary positions, uniform attention) are those of a model of this
    package; the compiled module would compute RecBole's parent without a word.

    Raises:
        ModelError: with the name of the compiled module.
    """
    for path, module in model.named_modules():
        if vars(module).get("_compiled_call_impl") is None:
            continue
        if any(inner._forward_hooks or inner._forward_pre_hooks for inner in module.modules()):
            raise ModelError(
                f"{type(model).__name__}.{path} is compiled (torch.compile), and a compiled "
                "forward does not call the hooks inside it, which alpha and the controls consist "
                "of: leave compile() out, or set them to the values of RecBole's model."
            )
