from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from recbole_residual.config.residual_config import ResidualConfig
from recbole_residual.data import create_dataset, reading
from recbole_residual.errors import DatasetNotFoundError
from recbole_residual.tune.shared_reads import SharedReads


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of atomic files that are opened to be read."""
    opened: list[str] = []
    read_csv = pd.read_csv

    def counting(source: Any, *args: Any, **options: Any) -> Any:
        opened.append(Path(source if isinstance(source, str) else source.name).name)
        return read_csv(source, *args, **options)

    monkeypatch.setattr(pd, "read_csv", counting)
    return opened


def write_data(folder: Path, seed: int = 0, users: int = 30) -> None:
    generator = np.random.default_rng(seed)
    rows = ["user_id:token\titem_id:token\ttimestamp:float"]
    for user in range(users):
        items = generator.integers(0, 20, 8)
        rows += [f"u{user}\ti{item}\t{time}" for time, item in enumerate(items)]
    (folder / "mine").mkdir(exist_ok=True)
    (folder / "mine" / "mine.inter").write_text("\n".join(rows) + "\n")


def config(folder: Path, model: str = "SASRecResidual", **keys: Any) -> ResidualConfig:
    given = {
        "data_path": str(folder),
        "load_col": {"inter": ["user_id", "item_id", "timestamp"]},
        "show_progress": False,
    }
    return ResidualConfig(model, "mine", None, {**given, **keys})


def read_only(frame: pd.DataFrame) -> pd.DataFrame:
    """What Ray's object store gives back: memory that nobody may write to."""
    frame = frame.copy()
    for column in frame:
        array = frame[column].to_numpy()
        if array.dtype.kind == "f":
            array.flags.writeable = False
    return frame


def shared() -> SharedReads:
    return SharedReads(lambda frame: read_only(frame), lambda frame: frame)


@pytest.mark.parametrize("model", ["SASRecResidual", "BPR"])
def test_many_trials_read_the_file_once(model: str, tmp_path: Path, counted: list[str]) -> None:
    write_data(tmp_path)
    reads = shared()
    reads.read(config(tmp_path, model))
    assert counted == ["mine.inter"]
    with reads.in_force():
        for length in (3, 5, 5):
            create_dataset(
                config(
                    tmp_path, model, **({"MAX_ITEM_LIST_LENGTH": length} if model != "BPR" else {})
                )
            )
    reads.read(config(tmp_path, model))
    assert counted == ["mine.inter"]


def test_the_dataset_is_that_of_the_file(tmp_path: Path) -> None:
    write_data(tmp_path)
    alone = create_dataset(config(tmp_path))
    reads = shared()
    reads.read(config(tmp_path))
    with reads.in_force():
        for _ in range(2):  # the first one must not have changed what is shared
            taken = create_dataset(config(tmp_path))
            alone_rows, taken_rows = alone.inter_feat, taken.inter_feat
            pd.testing.assert_frame_equal(alone_rows, taken_rows)
            assert alone.field2token_id["item_id"] == taken.field2token_id["item_id"]
            taken.build()


def test_a_file_that_changed_is_read_again(tmp_path: Path, counted: list[str]) -> None:
    write_data(tmp_path)
    reads = shared()
    reads.read(config(tmp_path))
    write_data(tmp_path, seed=1, users=40)
    with reads.in_force():
        assert create_dataset(config(tmp_path)).user_num == 41
    assert len(counted) == 2


def test_outside_everything_is_as_it_was(tmp_path: Path) -> None:
    write_data(tmp_path)
    before = (reading.read_atomic_file, pd.read_csv)
    reads = shared()
    reads.read(config(tmp_path))
    with pytest.raises(ZeroDivisionError), reads.in_force():
        raise ZeroDivisionError
    assert (reading.read_atomic_file, pd.read_csv) == before


def test_data_that_is_missing_is_told_before_any_trial(tmp_path: Path) -> None:
    with pytest.raises(DatasetNotFoundError):
        shared().read(config(tmp_path))
