"""A figure of a report, drawn when it is first looked at."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from recbole_residual.report.table import NOT_RUN


@dataclass(frozen=True)
class Plot:
    """A figure that is drawn when it is first looked at.

    Attributes:
        name: name of its files.
        title: in words.
        caption: what to see in it.
        command: what makes its numbers.
        draw: makes the matplotlib figure; None if its numbers were not run.
        missing: why there is none.
        in_colors: whether colours are its numbers, so that a dark page must not turn them round.
    """

    name: str
    title: str
    caption: str
    command: str
    draw: Callable[[], Any] | None
    missing: str = NOT_RUN
    in_colors: bool = False

    @cached_property
    def figure(self) -> Any:
        """The matplotlib figure; None if its numbers were not run."""
        return None if self.draw is None else self.draw()

    @cached_property
    def png(self) -> bytes:
        """The figure as PNG."""
        return self.rendered("png")

    @property
    def width(self) -> int:
        """Of the figure on a page, in CSS pixels (96 to the inch)."""
        return round(float(self.figure.get_size_inches()[0]) * 96)

    @property
    def data_uri(self) -> str:
        """The figure inside a page."""
        return "data:image/png;base64," + base64.b64encode(self.png).decode("ascii")

    def rendered(self, kind: str) -> bytes:
        """The figure as ``png`` or ``pdf``."""
        from recbole_residual.report.figures.style import rendered

        return rendered(self.figure, kind)


def drawing(name: str, *args: Any) -> Callable[[], Any]:
    """What draws a figure of :mod:`recbole_residual.report.figures` when it is called.

    Args:
        name: of the function there; matplotlib, slow to import, is imported with it.
        *args: what it is called with.
    """
    return partial(_draw, name, *args)


def _draw(name: str, *args: Any) -> Any:
    from recbole_residual.report import figures

    return getattr(figures, name)(*args)
