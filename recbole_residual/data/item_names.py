"""Names of items, where a dataset has a file of items."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from recbole.utils.enum_type import FeatureType

from recbole_residual.data.atomic_file import read_atomic_file
from recbole_residual.data.header import read_header

_NAME_WORDS = ("title", "name")


def item_names(config: Any) -> dict[str, str]:
    """The name of each item, by its token; empty if there is no ``.item`` file with names.

    The name is the first column whose header speaks of a title or a name. It is looked up in the
    file itself, so it need not be among the columns that the configuration loads.

    Args:
        config: with ``data_path``, ``dataset``, ``ITEM_ID_FIELD``, ``field_separator`` and
            ``encoding``.
    """
    path = Path(config["data_path"]) / f"{config['dataset']}.item"
    if not path.is_file():
        return {}
    separator, encoding = config["field_separator"], config["encoding"]
    columns = read_header(str(path), separator, encoding)
    tokens = [column for column in columns if column.field == config["ITEM_ID_FIELD"]]
    named = [column for column in columns if any(w in column.field.lower() for w in _NAME_WORDS)]
    if not tokens or not named:
        return {}
    # a name is one text, whatever its type says
    token, name = (
        dataclasses.replace(column, ftype=FeatureType.TOKEN) for column in (tokens[0], named[0])
    )
    frame = read_atomic_file(str(path), [token, name], separator, encoding)
    frame = frame.astype(object).dropna(subset=[token.field])
    return dict(zip(frame[token.field], frame[name.field].fillna("")))
