"""The templates of the page."""

from __future__ import annotations

from functools import lru_cache
from importlib import resources
from typing import Any

from jinja2 import DictLoader, Environment, StrictUndefined
from markupsafe import Markup

from recbole_residual.report.table import NOT_RUN
from recbole_residual.version import __version__

_STYLE = "page.css"
_SCRIPT = "page.js"
_TEMPLATES = ("body.html", "page.html")


def rendered(template: str, report: Any) -> str:
    """A report as HTML.

    Args:
        template: ``page.html`` for a whole page, ``body.html`` for a cell of a notebook.
        report: a :class:`~recbole_residual.report.page.Report`.
    """
    return (
        _environment()
        .get_template(template)
        .render(
            report=report,
            not_run=NOT_RUN,
            version=__version__,
            markup=Markup,
            css=_text(_STYLE),
            script=_text(_SCRIPT),
        )
    )


def _text(name: str) -> str:
    return (resources.files(__package__) / name).read_text(encoding="utf-8")


@lru_cache(maxsize=1)
def _environment() -> Environment:
    texts = {name: _text(name) for name in _TEMPLATES}
    return Environment(
        loader=DictLoader(texts),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
