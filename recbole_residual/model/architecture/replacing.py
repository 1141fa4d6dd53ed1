"""A method of one object replaced for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Callable


@contextmanager
def replaced_method(owner: Any, name: str, function: Callable[..., Any]) -> Iterator[None]:
    """Inside, ``owner.name`` is ``function``; its class and other objects keep theirs.

    Args:
        owner: any object with a ``__dict__``.
        name: name of one of its methods.
        function: called without ``owner``.

    Example:
        >>> class Greeter:
        ...     def greet(self):
        ...         return "hello"
        >>> greeter = Greeter()
        >>> with replaced_method(greeter, "greet", lambda: "bye"):
        ...     greeter.greet(), Greeter().greet()
        ('bye', 'hello')
        >>> greeter.greet(), vars(greeter)
        ('hello', {})
    """
    attributes = vars(owner)
    missing = object()
    before = attributes.get(name, missing)
    attributes[name] = function
    try:
        yield
    finally:
        if before is missing:
            del attributes[name]
        else:
            attributes[name] = before
