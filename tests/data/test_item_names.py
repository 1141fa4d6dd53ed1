from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from recbole_residual.data.item_names import item_names


def config(folder: Path, **changes: Any) -> dict[str, Any]:
    return {
        "data_path": str(folder),
        "dataset": "shop",
        "ITEM_ID_FIELD": "item_id",
        "field_separator": "\t",
        "encoding": None,
        **changes,
    }


def test_names_come_from_the_first_column_that_speaks_of_them(tmp_path: Path) -> None:
    (tmp_path / "shop.item").write_text(
        "item_id:token\tprice:float\tmovie_title:token_seq\tshop_name:token\n"
        '7\t1.5\t"Quoted", a film\tA\n07\t\tNA\tB\n',
        encoding="utf-8",
    )
    assert item_names(config(tmp_path)) == {"7": '"Quoted", a film', "07": "NA"}


@pytest.mark.parametrize(
    "header", ["item_id:token\tprice:float\n", "id:token\ttitle:token\n"], ids=["no name", "no id"]
)
def test_a_file_without_names_has_none(tmp_path: Path, header: str) -> None:
    (tmp_path / "shop.item").write_text(header + "7\t1.5\n", encoding="utf-8")
    assert item_names(config(tmp_path)) == {}


def test_no_file_no_names(tmp_path: Path) -> None:
    assert item_names(config(tmp_path)) == {}
