"""What RecBole 1.2.1 breaks on newer libraries, mended. One function each, named after the fault.

A mend does nothing where the library at hand is not affected.
"""

from __future__ import annotations

import numpy as np


def mend_numpy_names() -> None:
    """numpy >= 2 lacks ``float_``, ``complex_`` and ``unicode_``, which RecBole's Config reads.

    Called when the package is imported, so Ray's workers have it as well.
    """
    for name, current in (
        ("float_", np.float64),
        ("complex_", np.complex128),
        ("unicode_", np.str_),
    ):
        if not hasattr(np, name):
            setattr(np, name, current)
