"""A table of one's own in one step: what is written, what is dropped, and that it runs."""

from __future__ import annotations

import datetime
import gzip
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from recbole_residual.config.residual_config import ResidualConfig
from recbole_residual.data import (
    create_dataset,
    data_preparation,
    import_interactions,
)
from recbole_residual.data.foreign_table import as_seconds, as_tokens
from recbole_residual.data.item_names import item_names
from recbole_residual.errors import DataError

COLUMNS = {"user": "userId", "item": "movieId", "time": "timestamp"}


def ratings(rows: int = 60) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "userId": [f"0{i % 6}" for i in range(rows)],
            "movieId": [f"m{i * i % 11}" for i in range(rows)],
            "rating": 3.5,
            "timestamp": 1_500_000_000 + np.arange(rows) * 60,
        }
    )


def rows_of(done) -> list[tuple[str, ...]]:
    text = done.files[0].read_text(encoding="utf-8")
    header, *lines = text.splitlines()
    assert header == "user_id:token\titem_id:token\ttimestamp:float"
    return [tuple(line.split("\t")) for line in lines]


def expected(frame: pd.DataFrame) -> list[tuple[str, ...]]:
    return list(frame[["userId", "movieId", "timestamp"]].astype(str).itertuples(False, None))


@pytest.mark.parametrize("separator", [",", ";", "\t", "|", "::"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_text_files(tmp_path: Path, separator: str, encoding: str) -> None:
    frame = ratings().assign(title="é")
    lines = [separator.join(map(str, row)) for row in [list(frame), *frame.to_numpy().tolist()]]
    path = tmp_path / "ratings.csv"
    path.write_text("\n".join(lines) + "\n", encoding=encoding)
    done = import_interactions(path, **COLUMNS, data_path=tmp_path / "data")
    assert done.name == "ratings"
    assert rows_of(done) == expected(frame)
    assert (done.users, done.items, done.interactions) == (6, frame.movieId.nunique(), 60)
    assert done.dropped == {}


def test_packed_files_quotes_and_tokens_to_the_letter(tmp_path: Path) -> None:
    path = tmp_path / "log.csv.gz"
    with gzip.open(path, "wt") as file:
        file.write('who,what,when\nNA,"a, ""b""",5\nnull,007,6.5\n')
    done = import_interactions(path, "who", "what", "when", data_path=tmp_path)
    assert rows_of(done) == [("NA", 'a, "b"', "5"), ("null", "007", "6.5")]


def test_parquet_and_frames(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    frame = ratings()
    frame.to_parquet(tmp_path / "ratings.parquet")
    again = {"overwrite": True}
    for source in (tmp_path / "ratings.parquet", frame):
        done = import_interactions(
            source,
            **COLUMNS,
            name="mine",
            data_path=tmp_path,
            **again,
        )
        assert rows_of(done) == expected(frame)


def test_ids_of_any_kind() -> None:
    assert as_tokens(pd.Series([1, 20])).tolist() == ["1", "20"]
    assert as_tokens(pd.Series([1.0, np.nan])).tolist() == ["1", None]
    assert as_tokens(pd.Series([1.5, 2.0])).tolist() == ["1.5", "2.0"]
    assert as_tokens(pd.Series(["007", "", None], dtype=object)).tolist() == ["007", None, None]
    assert as_tokens(pd.Series([7, None], dtype="Int64")).tolist() == ["7", None]
    assert as_tokens(pd.Series(["b", "a"], dtype="category")).tolist() == ["b", "a"]


MOMENT = datetime.datetime(2024, 1, 31, 12, 30, tzinfo=datetime.timezone.utc).timestamp()
DAY = datetime.datetime(2024, 1, 31, tzinfo=datetime.timezone.utc).timestamp()


@pytest.mark.parametrize(
    ("value", "seconds", "note"),
    [
        (MOMENT, MOMENT, None),
        (str(int(MOMENT)), MOMENT, None),
        (MOMENT * 1e3, MOMENT, "milliseconds"),
        (str(int(MOMENT * 1e3)), MOMENT, "milliseconds"),
        (int(MOMENT) * 10**9, MOMENT, "nanoseconds"),
        (DAY / 86_400, DAY, "days"),
        (20240131, DAY, "YYYYMMDD"),
        ("20240131", DAY, "YYYYMMDD"),
        ("2024-01-31 12:30", MOMENT, "dates"),
        ("2024-01-31T12:30:00Z", MOMENT, "dates"),
        ("2024-01-31T13:30:00+01:00", MOMENT, "dates"),
        ("31/01/2024", DAY, "dates"),
        ("01/31/2024", DAY, "dates"),
        ("Jan 31, 2024", DAY, "dates"),
        (pd.Timestamp("2024-01-31 12:30"), MOMENT, None),
        (pd.Timestamp("2024-01-31 13:30", tz="Europe/Berlin"), MOMENT, None),
        (7.0, 7.0, None),
    ],
    ids=str,
)
def test_times_of_any_kind(value, seconds, note) -> None:
    times = as_seconds(pd.Series([value, value]))
    assert times.seconds == pytest.approx([seconds, seconds], abs=1e-3)
    assert len(times.notes) == (note is not None)
    assert note is None or note in times.notes[0]


def test_days_and_months() -> None:
    written = pd.Series(["01/02/2024", "25/02/2024", None, "soon"], dtype=object)
    read = pd.to_datetime(as_seconds(written).seconds, unit="s")
    assert [date.month for date in read[:2]] == [2, 2]
    assert read[2:].isna().all()
    times = as_seconds(pd.Series(["01/02/2024", "03/04/2024"]))
    assert pd.to_datetime(times.seconds, unit="s").month.tolist() == [1, 3]
    assert "month/day/year" in times.notes[1]


def test_what_is_dropped_and_why(tmp_path: Path, caplog) -> None:
    frame = ratings().astype({"timestamp": object})
    frame.loc[0, "userId"] = None
    frame.loc[1, "movieId"] = ""
    frame.loc[2, "timestamp"] = None
    frame.loc[3, "timestamp"] = "soon"
    frame.loc[4, "movieId"] = "a\tb"
    frame.loc[7] = frame.loc[6]
    done = import_interactions(frame, **COLUMNS, name="mine", data_path=tmp_path)
    assert done.dropped == {
        "no user": 1,
        "no item": 1,
        "no time, or none that can be read": 2,
        "a tab or a line break in the item": 1,
    }
    assert rows_of(done) == expected(frame.loc[5:])
    assert any("1 rows repeat" in note for note in done.notes)
    assert "dropped 2 rows: no time" in caplog.text
    assert "Dropped 1 rows: no user." in str(done)


def test_names_of_items(tmp_path: Path) -> None:
    frame = ratings()
    names = tmp_path / "movies.csv"
    names.write_text('movieId,genre,title\nm1,x,"One, a\tfilm"\nm4,y,Four\nm99,z,Never seen\n')
    done = import_interactions(
        frame, **COLUMNS, item_names=names, name="mine", data_path=tmp_path / "data"
    )
    config = ResidualConfig("SASRecResidual", "mine", None, {"data_path": str(tmp_path / "data")})
    assert item_names(config) == {"m1": "One, a film", "m4": "Four"}
    assert any(f"2 of {done.items} items have a name" in note for note in done.notes)


def test_it_runs_without_anything_else(tmp_path: Path) -> None:
    done = import_interactions(ratings(), **COLUMNS, name="mine", data_path=tmp_path)
    for files in (None, [done.files[1]]):
        config = ResidualConfig("SASRecResidual", "mine", files, {"data_path": str(tmp_path)})
        dataset = create_dataset(config)
        assert dataset.statistics.interactions == 60
        assert len(data_preparation(config, dataset).test.dataset) == 6
    assert "--dataset=mine" in str(done)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"user": "userID"}, r"no column 'userID'. Did you mean 'userId'.*rating"),
        ({"name": "a/b"}, "name = 'a/b'"),
        ({"name": "../x"}, "name = '../x'"),
        ({"name": None}, "has no name"),
        ({"item_names": "nowhere.csv"}, "nowhere.csv: there is no such file"),
        ({"item_names": pd.DataFrame({"id": ["m1"], "title": ["x"]})}, "no column 'movieId'"),
        ({"item_names": pd.DataFrame({"movieId": ["m1"]})}, "no column of names"),
        ({"source": "nowhere.csv"}, "nowhere.csv: there is no such file"),
        ({"source": ratings().assign(timestamp="soon")}, "no interaction is left.*60 rows"),
        ({"source": ratings(0)}, "no interaction is left"),
    ],
)
def test_one_message(tmp_path: Path, changes, message) -> None:
    given = {"source": ratings(), **COLUMNS, "name": "mine", "data_path": tmp_path, **changes}
    with pytest.raises(DataError, match=message):
        import_interactions(**given)
    assert list(tmp_path.glob("**/*.inter")) == []


def test_files_that_are_no_tables(tmp_path: Path) -> None:
    broken = tmp_path / "x.csv"
    for text in ("", "userId,movieId,timestamp\n1,2,3,4,5\n1,2\n1,2,3,4,5,6,7\n"):
        broken.write_text(text)
        with pytest.raises(DataError, match=r"x\.csv"):
            import_interactions(broken, **COLUMNS, data_path=tmp_path)
    broken.write_bytes("userId,movieId,timestamp\né,2,3\n".encode("latin-1"))
    with pytest.raises(DataError, match=r"x.csv.*encoding"):
        import_interactions(broken, **COLUMNS, data_path=tmp_path)
    parquet = tmp_path / "x.parquet"
    parquet.write_text("no parquet")
    pytest.importorskip("pyarrow")
    with pytest.raises(DataError, match=r"x\.parquet"):
        import_interactions(parquet, **COLUMNS, data_path=tmp_path)


def test_a_dataset_that_exists_stays(tmp_path: Path) -> None:
    first = import_interactions(ratings(), **COLUMNS, name="mine", data_path=tmp_path)
    before = rows_of(first)
    with pytest.raises(DataError, match="exists already"):
        import_interactions(ratings(30), **COLUMNS, name="mine", data_path=tmp_path)
    assert rows_of(first) == before
    again = {"overwrite": True}
    import_interactions(ratings(30), **COLUMNS, name="mine", data_path=tmp_path, **again)
    assert len(rows_of(first)) == 30
