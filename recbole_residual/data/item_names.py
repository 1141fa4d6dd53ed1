"""Names of items, where a dataset has a file of items."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from recbole_residual.data.atomic_file import read_header


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
    separator, encoding = config["field_separator"] or "\t", config["encoding"]
    columns = read_header(str(path), separator, encoding)
    by_field = {column.field: column.header for column in columns}
    named = [field for field in by_field if "title" in field.lower() or "name" in field.lower()]
    token = by_field.get(config["ITEM_ID_FIELD"])
    if token is None or not named:
        return {}
    name = by_field[named[0]]
    frame = pd.read_csv(
        path,
        sep=separator,
        usecols=[token, name],
        dtype=str,
        keep_default_na=False,
        quoting=3,  # as RecBole writes them, quotes belong to the text
        encoding=encoding or "utf-8-sig",
    )
    return dict(zip(frame[token], frame[name]))
