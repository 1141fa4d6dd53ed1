"""Configuration files: yaml, read as plain values, each mistake told with its line."""

from __future__ import annotations

import codecs
from pathlib import Path
from typing import Any

import yaml

from recbole_residual.errors import ConfigError

_BLANK = "Is a blank missing behind a colon? It is 'key: value'."


def read_yaml(path: Path, what: str, recbole_loader: type) -> dict[str, Any]:
    """The keys of a file.

    Args:
        path: the file.
        what: what it is called in an error.
        recbole_loader: RecBole's loader, whose reading of numbers like ``1e-3`` is kept.

    Raises:
        ConfigError: if it cannot be read, is not yaml, has a key twice, or holds no keys.
    """
    try:
        content = yaml.load(_text(path, what), Loader=_plain_loader(recbole_loader))
    except yaml.YAMLError as error:
        hint = f" {_BLANK}" if "could not find expected ':'" in str(error) else ""
        raise ConfigError(f"{what} {str(path)!r} is not yaml: {error}{hint}") from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ConfigError(f"{what} {str(path)!r} is not a list of 'key: value'. {_BLANK}")
    return {str(key): value for key, value in content.items()}


def _text(path: Path, what: str) -> str:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{what} {str(path)!r} cannot be read: {error.strerror}.") from error
    wide = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        return content.decode("utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{what} {str(path)!r} is not UTF-8 text (byte {error.start}): save it as UTF-8."
        ) from error


def _plain_loader(recbole_loader: type) -> type:
    class Loader(yaml.SafeLoader):
        yaml_implicit_resolvers = recbole_loader.yaml_implicit_resolvers  # type: ignore[attr-defined]

        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
            lines: dict[str, int] = {}
            for key, _ in node.value:
                name = str(key.value)
                if name in lines:
                    raise yaml.constructor.ConstructorError(
                        None,
                        None,
                        f"the key {name!r} is there twice, first in line {lines[name]}",
                        key.start_mark,
                    )
                lines[name] = key.start_mark.line + 1
            return super().construct_mapping(node, deep)

    return Loader
