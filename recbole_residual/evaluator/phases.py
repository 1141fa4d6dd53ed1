"""Seconds that an evaluation spends in each of its phases."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Phases:
    """A clock per phase. On an accelerator, which works behind the program's back, a phase waits
    for what earlier ones have ordered.

    Example:
        >>> phases = Phases()
        >>> with phases.of("forward"):
        ...     pass
        >>> list(phases.seconds)
        ['forward']
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def of(self, phase: str) -> Iterator[None]:
        """Count the time inside to ``phase``."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.add(phase, time.perf_counter() - start)

    def add(self, phase: str, seconds: float) -> None:
        """Count some seconds to ``phase``."""
        self.seconds[phase] = self.seconds.get(phase, 0.0) + seconds

    def __str__(self) -> str:
        return ", ".join(f"{phase} {seconds:.3f} s" for phase, seconds in self.seconds.items())
