"""The environment of this process, changed for a while."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


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
