"""Values as people write them: Python literals, yaml's flow style, lists of files."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable
from typing import Any

import yaml


def literal(value: Any) -> Any:
    """A text read as the Python literal or the yaml list or mapping that it is; else unchanged.

    Nothing is ever run.

    Example:
        >>> literal("[1, 10]"), literal("{mode: full}"), literal("1e2"), literal("abc")
        ([1, 10], {'mode': 'full'}, 100.0, 'abc')
    """
    if not isinstance(value, str):
        return value
    text = value.strip()
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return _flow(text, value)


def _flow(text: str, value: str) -> Any:
    """Yaml's ``{mode: full}`` and ``[NDCG, Hit]``, which need no quotes in a shell."""
    if text[:1] + text[-1:] not in ("{}", "[]"):
        return value
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError):
        return value


def unquoted(value: str) -> str:
    """A text without the quotes that a shell or a habit left around it.

    Example:
        >>> unquoted("'runs/a'"), unquoted("it's")
        ('runs/a', "it's")
    """
    if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
        return value[1:-1]
    return value


def expand(path: str | os.PathLike[str]) -> str:
    """A path with ``~`` as the user's folder.

    Example:
        >>> expand("runs/~"), expand("~/runs").startswith("~")
        ('runs/~', False)
    """
    return os.path.expanduser(os.fspath(path))


def split_files(text: str, exists: Callable[[str], bool] = os.path.isfile) -> list[str]:
    """The files that one option names, separated by blanks; a blank inside a name is kept.

    Where the words from one place on name a file that is there, the longest such name is taken, so
    ``my configs/a.yaml more.yaml`` is two files. Quotes around a name hold it together.

    Args:
        text: the option as it was typed.
        exists: whether there is a file of that name.

    Example:
        >>> split_files("my configs/a.yaml b.yaml", exists=lambda name: name == "my configs/a.yaml")
        ['my configs/a.yaml', 'b.yaml']
        >>> split_files("'no such/a.yaml' b.yaml")
        ['no such/a.yaml', 'b.yaml']
    """
    words = text.strip().split(" ")
    files = []
    while words:
        names = [" ".join(words[:end]) for end in range(len(words), 0, -1)]
        taken = next((name for name in names if _is_one(name, exists)), names[-1])
        words = words[taken.count(" ") + 1 :]
        if taken:
            files.append(expand(unquoted(taken)))
    return files


def _is_one(name: str, exists: Callable[[str], bool]) -> bool:
    quoted = unquoted(name)
    if quoted != name and name[0] not in quoted:
        return True
    return exists(expand(name))
