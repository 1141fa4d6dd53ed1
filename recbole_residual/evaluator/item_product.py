"""The product of states with item embeddings in which most models' scores end, caught before it
is computed.

``full_sort_predict`` of almost every sequential model ends in ``states @ item_embeddings.T``,
sometimes with a bias per item or a temperature. The model's own code runs up to that product, with
all its hooks; in place of the scores of the whole catalogue it gets an :class:`ItemProduct`, which
says how to compute any part of them.
"""

from __future__ import annotations

import numbers
from typing import Any, Callable

import torch
from torch.overrides import TorchFunctionMode

_PRODUCTS = (
    torch.matmul,
    torch.mm,
    torch.Tensor.matmul,
    torch.Tensor.mm,
    torch.Tensor.__matmul__,
)


class NotCountableError(Exception):
    """The scores of a model are not a product of states with item embeddings, or not only that."""


class ItemProduct:
    """``states @ items.T + bias``, not computed.

    A model may still add a bias per item to it or divide it by a number. Whatever else it does
    raises :class:`NotCountableError`.

    Attributes:
        states: [N, D].
        items: embedding of every item, [n_items, D].
        bias: of every item, [n_items], or None.
    """

    def __init__(
        self, states: torch.Tensor, items: torch.Tensor, bias: torch.Tensor | None = None
    ) -> None:
        self.states, self.items, self.bias = states, items, bias

    def __add__(self, bias: Any) -> ItemProduct:
        if (
            self.bias is not None
            or not isinstance(bias, torch.Tensor)
            or bias.shape != (len(self.items),)
        ):
            raise NotCountableError
        return ItemProduct(self.states, self.items, bias)

    __radd__ = __add__

    def __truediv__(self, temperature: Any) -> ItemProduct:
        if self.bias is not None or not isinstance(temperature, numbers.Real):
            raise NotCountableError
        return ItemProduct(self.states / float(temperature), self.items)

    def __getattr__(self, name: str) -> Any:
        raise NotCountableError(name)

    @classmethod
    def __torch_function__(
        cls, func: Callable, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if func in (torch.add, torch.Tensor.add, torch.Tensor.__radd__) and not kwargs:
            left, right = args
            return left + right if isinstance(left, ItemProduct) else right + left
        raise NotCountableError(str(func))


class _CatchProduct(TorchFunctionMode):
    """Inside, a product whose result has one column per item is not computed."""

    def __init__(self, n_items: int) -> None:
        super().__init__()
        self._n_items = n_items

    def __torch_function__(
        self, func: Callable, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if func in _PRODUCTS and not kwargs and len(args) == 2:
            states, items = args
            if (
                isinstance(states, torch.Tensor)
                and states.dim() == items.dim() == 2
                and items.shape[1] == self._n_items
            ):
                return ItemProduct(states, items.t())
        return func(*args, **(kwargs or {}))


def item_product(predict: Callable[[], Any], n_items: int) -> ItemProduct:
    """What ``predict`` is about to compute.

    Args:
        predict: calls the model's ``full_sort_predict``.
        n_items: number of items, padding counted.

    Raises:
        NotCountableError: if its result is not a product of states with item embeddings.

    Example:
        >>> items = torch.eye(3)
        >>> product = item_product(lambda: torch.ones(2, 3) @ items.t() / 2.0, 3)
        >>> product.states.tolist()
        [[0.5, 0.5, 0.5], [0.5, 0.5, 0.5]]
    """
    try:
        with _CatchProduct(n_items):
            product = predict()
    except TypeError as error:  # an operation that Python itself refuses, product - tensor
        raise NotCountableError(str(error)) from error
    except NotImplementedError as error:
        raise NotCountableError("the model has no full_sort_predict") from error
    if not isinstance(product, ItemProduct):
        raise NotCountableError(f"{type(product).__name__} is no product")
    return product
