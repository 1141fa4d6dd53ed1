"""Docstrings name other objects by Sphinx's roles; on the site they are names in code."""

import re
from typing import Any

import griffe

_ROLE = re.compile(r":[a-z]+:`(?:[^`<]*<)?~?([^`<>]+)>?`")


class Roles(griffe.Extension):
    """``:func:`~recbole_residual.probe.shuffles.shuffle` `` becomes ``shuffle``."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring:
            obj.docstring.value = _ROLE.sub(_name, obj.docstring.value)


def _name(role: "re.Match[str]") -> str:
    return f"`{role[1].rpartition('.')[2]}`"
