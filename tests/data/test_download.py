from __future__ import annotations

import urllib.error
import zipfile
from pathlib import Path

import pytest
from recbole.utils import url as recbole_url

from recbole_residual.config.residual_config import ResidualConfig
from recbole_residual.data.download import ensure_dataset_files
from recbole_residual.errors import DatasetNotFoundError


def config(dataset: str, data_path: Path, **values) -> ResidualConfig:
    return ResidualConfig(
        "SASRecResidual", dataset, config_dict={"data_path": str(data_path), **values}
    )


def write(folder: Path, name: str) -> None:
    (folder / name).mkdir(parents=True)
    (folder / name / f"{name}.inter").write_text("user_id:token\titem_id:token\n")


def test_found_on_disk_and_inside_recbole(tmp_path: Path) -> None:
    write(tmp_path, "mine")
    assert "found on disk" in ensure_dataset_files(config("mine", tmp_path))
    assert "inside the recbole package" in ensure_dataset_files(config("ml-100k", tmp_path))
    write(tmp_path, "ml-100k")
    assert "found on disk" in ensure_dataset_files(config("ml-100k", tmp_path))


def test_unknown_dataset_says_what_there_is(tmp_path: Path) -> None:
    write(tmp_path, "mine")
    with pytest.raises(DatasetNotFoundError) as caught:
        ensure_dataset_files(config("minne", tmp_path))
    message = str(caught.value)
    for part in ("minne.inter", "--data_path", "mine", "ml-100k"):
        assert part in message


def test_a_folder_without_the_file(tmp_path: Path) -> None:
    (tmp_path / "ml-1m").mkdir()
    with pytest.raises(DatasetNotFoundError, match=r"ml-1m\.inter.*no such file"):
        ensure_dataset_files(config("ml-1m", tmp_path))


def test_no_network_says_which_file_and_leaves_nothing(tmp_path: Path, monkeypatch) -> None:
    def no_network(*_):
        raise urllib.error.URLError("no route")

    monkeypatch.setattr(recbole_url.ur, "urlopen", no_network)
    with pytest.raises(DatasetNotFoundError) as caught:
        ensure_dataset_files(config("ml-1m", tmp_path))
    for part in ("ml-1m.inter", "no route", "ml-100k", "--data_path"):
        assert part in str(caught.value)
    assert not (tmp_path / "ml-1m").exists()


def test_download_unpacks_and_asks_nobody_without_a_terminal(tmp_path: Path, monkeypatch) -> None:
    def download(url: str, folder: str) -> str:
        Path(folder).mkdir(parents=True)
        archive = Path(folder) / "ml-1m.zip"
        with zipfile.ZipFile(archive, "w") as packed:
            packed.writestr("ml-1m.inter", "user_id:token\titem_id:token\n")
        return str(archive)

    monkeypatch.setattr(recbole_url, "download_url", download)
    monkeypatch.setattr(recbole_url, "decide_download", lambda _: pytest.fail("asked"))
    monkeypatch.setattr("sys.stdin", None)
    assert "downloaded from" in ensure_dataset_files(config("ml-1m", tmp_path))
    assert [entry.name for entry in (tmp_path / "ml-1m").iterdir()] == ["ml-1m.inter"]
