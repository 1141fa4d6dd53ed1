"""What a misspelt name was probably meant to be."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a sentence that refuses a name.

    Example:
        >>> did_you_mean("alhpa", ["alpha", "topk"])
        ", did you mean 'alpha'?"
        >>> did_you_mean("something", ["alpha", "topk"])
        '.'
    """
    known = list(known)
    by_lower = {one.lower(): one for one in known}
    close = difflib.get_close_matches(name.lower(), by_lower, n=1)
    return f", did you mean {by_lower[close[0]]!r}?" if close else "."
