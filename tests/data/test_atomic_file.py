"""Reading atomic files: the same table as RecBole's reader, and errors that say what is wrong."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from recbole_residual.data import atomic_file
from recbole_residual.data.atomic_file import read_atomic_file
from recbole_residual.data.header import read_header
from recbole_residual.data.times import check_times
from recbole_residual.errors import AtomicFileError


def write(tmp_path, text, name="x.inter", encoding="utf-8"):
    path = tmp_path / name
    path.write_bytes(text.encode(encoding))
    return str(path)


HEADER = "user_id:token\titem_id:token\ttimestamp:float\n"


def test_reads_what_pandas_reads(tmp_path, monkeypatch):
    monkeypatch.setattr(atomic_file, "ROWS_PER_PIECE", 7)  # several pieces with different tokens
    rows = "".join(
        f"u{i % 5}\t{'' if i == 3 else 'i' + str(i * i % 11)}\t{i}.5\n" for i in range(40)
    )
    path = write(tmp_path, HEADER + rows)
    frame = read_atomic_file(path, read_header(path))
    slow = pd.read_csv(path, sep="\t", dtype={"user_id:token": str, "item_id:token": str})
    assert list(frame) == ["user_id", "item_id", "timestamp"]
    for ours, theirs in zip(frame, slow):
        expected = slow[theirs]
        if ours != "timestamp":
            assert isinstance(frame[ours].dtype, pd.CategoricalDtype)
            assert frame[ours].astype(object).where(frame[ours].notna(), None).tolist() == (
                expected.astype(object).where(expected.notna(), None).tolist()
            )
        else:
            assert frame[ours].tolist() == expected.tolist()


def test_reads_some_columns_another_separator_and_windows_line_ends(tmp_path):
    path = write(tmp_path, "a:token,b:float,c:token\r\nx,1,y\r\n")
    columns = [c for c in read_header(path, ",") if c.field != "b"]
    assert read_atomic_file(path, columns, ",").astype(str).to_dict("list") == {
        "a": ["x"],
        "c": ["y"],
    }


def test_reads_a_byte_order_mark_and_another_encoding(tmp_path):
    path = write(tmp_path, "\ufeff" + HEADER + "u\ti\t1\n")
    assert read_header(path)[0].field == "user_id"
    assert list(read_atomic_file(path, read_header(path))["user_id"]) == ["u"]
    latin = write(tmp_path, "a:token\né\n", encoding="latin-1")
    with pytest.raises(AtomicFileError, match=r"cannot be read.*utf-8"):
        read_atomic_file(latin, read_header(latin))
    assert list(read_atomic_file(latin, read_header(latin), encoding="latin-1")["a"]) == ["é"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("\n", "is empty"),
        ("user_id\titem_id\n1\t2\n", "no header.*'user_id'"),
        ("1\t2\t3\n", "no header"),
        ("user_id:token\titem_id:text\n", "no header.*'item_id:text'"),
        (":token\n", "no header"),
    ],
)
def test_broken_headers(tmp_path, text, message):
    with pytest.raises(AtomicFileError, match=message):
        read_header(write(tmp_path, text))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("", "no rows"),
        ("u\ti\t1\nu\ti\t2\t3\n", "line 3"),
        ("u\ti\t1\t9\n", "header"),
        ("u\ti\tyesterday\n", "yesterday"),
    ],
)
def test_broken_rows(tmp_path, rows, message):
    path = write(tmp_path, HEADER + rows)
    with pytest.raises(AtomicFileError, match=message) as error:
        read_atomic_file(path, read_header(path))
    assert path in str(error.value)


def test_times_that_cannot_be_sorted():
    check_times("x.inter", "timestamp", np.array([0.0, -1.5]))
    with pytest.raises(AtomicFileError, match=r"2 of 3 values of `t`.*line 3, 4"):
        check_times("x.inter", "t", np.array([1, np.nan, np.inf]))


def test_a_large_file_gets_a_bar(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(atomic_file, "BYTES_WORTH_A_BAR", 10)
    path = write(tmp_path, HEADER + "u\ti\t1\n" * 50)
    read_atomic_file(path, read_header(path), show_progress=True)
    assert "Read x.inter: 100%" in capsys.readouterr().err
    read_atomic_file(path, read_header(path), show_progress=False)
    assert capsys.readouterr().err == ""
