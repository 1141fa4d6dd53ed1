"""What of this process is changed for a while, and put back: its environment, and one name."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def environment(**variables: str) -> Iterator[None]:
    """Inside, these environment variables are set; at the end the environment is what it was.

    Example:
        >>> with environment(RECBOLE_RESIDUAL_EXAMPLE="1"):
        ...     os.environ["RECBOLE_RESIDUAL_EXAMPLE"]
        '1'
        >>> "RECBOLE_RESIDUAL_EXAMPLE" in os.environ
        False
    """
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in set(os.environ) - set(before):
            del os.environ[name]
        os.environ.update(before)


@contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Inside, ``owner.name`` is ``value``.

    Args:
        owner: a module or a class.
        name: of a function that it has.
        value: stands in its place.
    """
    before = vars(owner)[name]
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)
