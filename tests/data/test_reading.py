"""Files as people have them: the same dataset as a slow reader of lines, or one message."""

from __future__ import annotations

import logging
import warnings

import numpy as np
import pandas as pd
import pytest
from recbole.model.general_recommender import BPR
from recbole.model.sequential_recommender import SASRec

from recbole_residual.data import create_dataset, data_preparation
from recbole_residual.data.item_names import item_names
from recbole_residual.errors import AtomicFileError, DataError
from tests.data.conftest import random_inter, write_inter

HEADER = "user_id:token\titem_id:token\ttimestamp:float"
COLUMNS = {"inter": ["user_id", "item_id", "timestamp"]}


@pytest.fixture
def write(tmp_path):
    def write(text, suffix="inter", encoding="utf-8"):
        (tmp_path / "tiny").mkdir(exist_ok=True)
        path = tmp_path / "tiny" / f"tiny.{suffix}"
        path.write_bytes(text.encode(encoding))
        return path

    return write


@pytest.fixture(params=["ours", "recbole's"])
def load(request, make_config):
    """Loads with the dataset class of this package, and with one of RecBole's."""

    def load(**values):
        values = {"load_col": COLUMNS, **values}
        if request.param == "ours":
            return create_dataset(make_config(**values))
        negatives = {"distribution": "uniform", "sample_num": 1, "alpha": 1.0}
        return create_dataset(
            make_config(model=BPR, embedding_size=8, train_neg_sample_args=negatives, **values)
        )

    return load


def lines(rows):
    return "\n".join([HEADER, *rows]) + "\n"


def good_rows(n):
    return [f"u{i % 20}\ti{i % 17}\t{i}" for i in range(n)]


def tokens(dataset, field="item_id"):
    return set(dataset.field2token_id[field]) - {"[PAD]"}


def test_a_quote_is_a_character_like_any_other(write, load):
    write(lines([*good_rows(320), 'a\t"Heroes\t1', *good_rows(8)]))
    dataset = load()
    assert len(dataset.inter_feat) == 329
    assert '"Heroes' in tokens(dataset)


QUOTED = ['"Heroes', '"all" of it', 'half"', '""', "'", '"', "a,b", "a b ", "#1", "007", "1.0"]
MISSING_WORDS = ["NA", "null", "None", "nan", "NaN", "N/A", "NULL", "<NA>", "#N/A", "inf", "True"]


@pytest.mark.parametrize("words", [QUOTED, MISSING_WORDS], ids=["quotes", "missing"])
def test_tokens_are_literal_and_the_same_in_every_file(write, load, words):
    write(lines([f"{user}\t{item}\t1" for user in words for item in words]))
    header = "item_id:token\tclass:token_seq\tmovie_title:token\n"
    write(header + "".join(f"{word}\t{word}\t{word}\n" for word in words), "item")
    dataset = load(load_col={**COLUMNS, "item": ["item_id", "class"]})
    assert tokens(dataset) == set(words)
    assert tokens(dataset, "user_id") == set(words)
    assert len(dataset.item_feat) == len(words) + 1  # and padding: no item twice
    assert tokens(dataset, "class") == {piece for word in words for piece in word.split()}
    assert item_names(dataset.config) == {word: word for word in words}


@pytest.mark.parametrize("name", ["[PAD]", "0"])
def test_items_that_are_named_like_padding(write, load, name):
    write(lines([*good_rows(60), *(f"u{i}\t{name}\t{i + 100}" for i in range(20))]))
    dataset = load()
    number = dataset.token2id("item_id", name)
    assert number > 0
    assert dataset.id2token("item_id", number) == name
    assert dataset.item_num == 17 + 1 + 1
    assert int((dataset.inter_feat["item_id"] == number).sum()) == 20


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-8-sig", "latin-1", "cp1252"])
def test_encodings(write, load, encoding):
    write(lines([*good_rows(40), "é\tü\t3"]), encoding=encoding)
    assert "ü" in tokens(load(encoding=encoding))


def test_a_mark_says_utf_16(write, load):
    write(lines([*good_rows(40), "é\tü\t3"]), encoding="utf-16")  # as PowerShell writes it
    assert "ü" in tokens(load())


@pytest.mark.parametrize("separator", [",", "::", "|", "\\t", " ", "||"])
def test_separators(write, load, separator):
    write(lines(good_rows(40)).replace("\t", separator.replace("\\t", "\t")))
    dataset = load(field_separator=separator)
    assert tokens(dataset) == {f"i{i}" for i in range(17)}
    assert dataset.inter_feat["timestamp"].notna().all()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (lines(["u\ti\t1\t9", *good_rows(9)]), r"tiny.inter: line 2 has 4 fields"),
        (lines([*good_rows(9), "", "u\ti\t1\t9"]), r"tiny.inter: line 12 has 4 fields"),
        (lines([*good_rows(3), "u\ti\tsoon"]), r"line 5, column 'timestamp': 'soon' is no number"),
        (lines([*good_rows(3), "u\ti\t1_000"]), r"line 5, column 'timestamp': '1_000'"),
        (lines(good_rows(9)).replace("timestamp:float", "timestamp:token"), r"line 1.*TIME_FIELD"),
        (lines(good_rows(9)).replace("item_id:token", "item_id:float"), r"line 1.*ITEM_ID_FIELD"),
        (lines(good_rows(9)).replace("item_id", "user_id"), r"line 1.*'user_id' twice"),
        (lines(good_rows(9)).replace(":token", "").replace(":float", ""), r"line 1.*'user_id'"),
        (lines(good_rows(9)).replace("\t", " "), r"line 1.*blanks.*field_separator"),
        (lines(good_rows(9)).replace("\t", ","), r"line 1.*commas.*field_separator"),
        (lines([]), "no rows"),
        ("", "is empty"),
    ],
)
def test_one_message_with_file_column_and_line(write, load, text, message):
    path = write(text)
    with pytest.raises(AtomicFileError, match=message) as error:
        load()
    assert str(path) in str(error.value)


def test_bytes_of_another_encoding(write, load):
    path = write(lines([*good_rows(3000), "u\té\t1"]), encoding="latin-1")
    with pytest.raises(AtomicFileError, match=r"as text in utf-8.*encoding") as error:
        load()
    assert str(path) in str(error.value)


@pytest.mark.parametrize("extra_first", [True, False])
def test_a_line_with_a_field_too_many_whatever_is_loaded(write, load, extra_first):
    header = "user_id:token\titem_id:token\trating:float\ttimestamp:float\n"
    rows = [f"u{i % 5}\ti{i % 7}\t5\t{i}" for i in range(30)]
    rows.insert(0 if extra_first else 20, "u1\ti1\t\t5\t77")
    write(header + "\n".join(rows) + "\n")
    with pytest.raises(AtomicFileError, match=f"line {2 if extra_first else 22} has 5 fields"):
        load()


def test_a_column_that_nobody_loads_may_hold_anything(write, load):
    write("user_id:token\titem_id:token\tprice:float\ttimestamp:float\nu\ti\tcheap\t1\nu\tj\t\t2\n")
    assert len(load().inter_feat) == 2


def test_prices(write, load):
    write(lines(good_rows(40)))
    write("item_id:token\tprice:float\ni1\t1.5\ni2\t\ni3\tNaN\n\ni4\tcheap\n", "item")
    with_price = {**COLUMNS, "item": ["item_id", "price"]}
    with pytest.raises(AtomicFileError, match=r"tiny.item: line 6, column 'price': 'cheap'"):
        load(load_col=with_price)
    write("item_id:token\tsizes:float_seq\ni1\t1.5 2\ni2\t\ni3\tXL 3\n", "item")
    with pytest.raises(AtomicFileError, match=r"tiny.item: line 4, column 'sizes': 'XL 3'"):
        load(load_col={**COLUMNS, "item": ["item_id", "sizes"]})


@pytest.mark.parametrize(
    ("load_col", "message"),
    [
        ({"inter": ["user_id", "item_id", "timestamp", "ratng"]}, r"'ratng'.*mean 'rating'"),
        ({"inter": ["user_id", "itemid", "timestamp"]}, r"'itemid'.*mean 'item_id'"),
        ({**COLUMNS, "item": ["item_id", "price"]}, r"tiny.item.*no such file"),
    ],
)
def test_columns_that_are_not_there(tmp_path, load, load_col, message):
    write_inter(tmp_path, "tiny", random_inter(seed=30))
    with pytest.raises(DataError, match=message):
        load(load_col=load_col)


def test_rows_without_user_or_item_are_dropped(write, load, caplog):
    rows = good_rows(60)
    rows.insert(3, "\ti1\t5")
    rows.insert(10, "")
    rows.insert(20, "u1\t\t5")
    rows.insert(21, "u1\t\t6")
    write(lines(rows))
    with caplog.at_level(logging.WARNING):
        dataset = load()
    assert len(dataset.inter_feat) == 60
    assert "1 rows without user_id are dropped (line 5)" in caplog.text
    assert "2 rows without item_id are dropped (line 22, 23)" in caplog.text
    slow = [row.split("\t")[1] for row in good_rows(60)]
    assert dataset.id2token("item_id", dataset.inter_feat["item_id"].to_numpy()).tolist() == slow


@pytest.mark.parametrize(
    ("times", "unit"),
    [
        (1.6e12 + 1e7 * np.arange(40), "milliseconds"),
        (1.6e18 + 1e13 * np.arange(40), "nanoseconds"),
        (18_000.0 + np.arange(40), "days"),
        (20_200_101.0 + np.arange(28), "dates"),
        (1.6e9 + np.arange(40), None),
        (np.arange(40.0), None),
        (np.arange(40.0) * 86_400, None),
    ],
)
def test_times_in_another_unit(write, load, caplog, times, unit):
    write(lines(f"u{i % 5}\ti{i % 7}\t{time:.0f}" for i, time in enumerate(times)))
    with caplog.at_level(logging.WARNING):
        load()
    assert ("timestamp look like" in caplog.text) == (unit is not None)
    assert unit is None or unit in caplog.text


@pytest.mark.parametrize("key", ["user_inter_num_interval", "item_inter_num_interval"])
@pytest.mark.parametrize("value", [5, "5", "[5", "[5,inf", "(5,5)", "[9,5]", "five", "[5;9]"])
def test_intervals_that_are_none(tmp_path, load, key, value):
    write_inter(tmp_path, "tiny", random_inter(seed=31))
    with pytest.raises(DataError, match=rf"{key} = .*\[5,inf\)"):
        load(**{key: value})


def test_a_filter_of_values_that_is_none(tmp_path, load):
    write_inter(tmp_path, "tiny", random_inter(seed=31))
    with pytest.raises(DataError, match="interval"):
        load(val_interval={"timestamp": "5"})
    with pytest.raises(DataError, match=r"val_interval.*clock"):
        load(val_interval={"clock": "[5,inf)"})


def test_everything_filtered_away(tmp_path, load):
    write_inter(tmp_path, "tiny", random_inter(seed=32))
    with pytest.raises(DataError, match=r"tiny is empty.*300 interactions.*\[1000,inf\)"):
        load(user_inter_num_interval="[1000,inf)")


@pytest.mark.parametrize("positions", ["all", "last"])
def test_nothing_is_warned_of(tmp_path, make_config, positions):
    write_inter(tmp_path, "tiny", random_inter(seed=33))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        config = make_config(loss_positions=positions)
        for loader in data_preparation(config, create_dataset(config)):
            list(loader)


def test_how_many_rows_float32_moves(tmp_path, make_config, caplog):
    frame = random_inter(seed=34, times=1)
    frame["timestamp"] += np.random.default_rng(0).permutation(len(frame))
    write_inter(tmp_path, "tiny", frame)
    with caplog.at_level(logging.WARNING):
        dataset = create_dataset(make_config(model=SASRec))
        dataset.build()
    users = pd.Series([f"u{i}" for i in range(20)])
    moved = 0
    for user in users:
        rows = frame[frame.user_id == user].reset_index(drop=True)
        exact = rows.sort_values("timestamp", kind="stable").index
        low = (rows.timestamp - frame.timestamp.min()) / np.ptp(frame.timestamp)
        rounded = (low if dataset.config["normalize_all"] else rows.timestamp).astype(np.float32)
        moved += int((exact != rounded.sort_values(kind="stable").index).sum())
    assert moved > 0
    assert f"{moved:,} of 300 interactions, of 20 users, stand in another place" in caplog.text
    caplog.clear()
    create_dataset(make_config(loss_positions="all")).build()
    assert "another place" not in caplog.text
