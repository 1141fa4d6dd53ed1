"""Encodings, separators and line numbers."""

from __future__ import annotations

import pytest

from recbole_residual.data.text_file import TextTable, check_encoding, check_separator
from recbole_residual.errors import DataError


@pytest.mark.parametrize("encoding", ["utf8x", "utf-17", "base64", 7, ""])
def test_an_encoding_that_there_is_not(encoding):
    with pytest.raises(DataError, match=r"encoding = .*utf-16"):
        check_encoding(encoding)


@pytest.mark.parametrize("separator", ["", "\n", 5])
def test_a_separator_that_cannot_be_one(separator):
    with pytest.raises(DataError, match="field_separator = "):
        check_separator(separator)


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_lines_are_counted_with_the_blank_ones(tmp_path, line_end):
    path = tmp_path / "x.inter"
    lines = ["a:token\tb:token", "", "1\t1", "   ", "\t", "2\t2", ""]
    path.write_bytes(line_end.join(lines).encode())
    table = TextTable(str(path))
    assert list(table.lines()) == [
        (1, "a:token\tb:token"),
        (3, "1\t1"),
        (5, "\t"),
        (6, "2\t2"),
    ]
    assert table.where([0, 2]) == "line 3, 6"
    assert table.where([2]) == "line 6"
    long = tmp_path / "long.inter"
    long.write_text("h\n" + "r\n" * 9)
    assert TextTable(str(long)).where(range(9)) == "line 2, 3, 4, 5, 6, ..."
