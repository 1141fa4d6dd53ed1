"""Configuration files: what cannot be read is one message with the file's name."""

from __future__ import annotations

from pathlib import Path

import pytest

from recbole_residual.config.residual_config import ResidualConfig
from recbole_residual.errors import ConfigError


def read(file: Path) -> ResidualConfig:
    return ResidualConfig("SASRecResidual", "ml-100k", [file])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("epochs: 3 # für\n".encode("latin-1"), "is not UTF-8 text (byte 13): save it as UTF-8"),
        (b"epochs:3", "Is a blank missing behind a colon?"),
        (b"epochs: 3\nseed:4\n", "not yaml"),
        (b"load_col:\n    inter:[user_id, item_id]\n", "a blank behind each colon"),
        (b"epochs: 3\nepochs: 4\n", "the key 'epochs' is there twice, first in line 1"),
        (b"eval_args: {mode: full, mode: uni10}", "the key 'mode' is there twice"),
        (b"user_inter_num_interval: [5,inf)\n", "not yaml"),
        (b"epochs: 1.5\n", "whole number"),
        (b"1: 2\n", "unknown option '1'"),
        (b"on: 2\n", "unknown option 'True'"),
        (b"? [a, b]\n: 2\n", "unknown option|not yaml"),
        (b"just text", "Is a blank missing"),
        (b"\x00\x01", "not yaml"),
    ],
)
def test_broken_files(tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "mine.yaml"
    file.write_bytes(content)
    with pytest.raises(ConfigError) as told:
        read(file)
    assert any(part in str(told.value) for part in message.split("|")), str(told.value)


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        read(tmp_path)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_files_as_editors_write_them(tmp_path: Path, encoding: str) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("epochs: 1e2  # größer\ntopk: 10\n", encoding=encoding)
    made = read(file)
    assert (made["epochs"], made["topk"]) == (100, [10])


def test_an_empty_file_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("# nothing\n")
    assert read(file).to_plain() == ResidualConfig("SASRecResidual", "ml-100k").to_plain()


def test_anchors_and_merges_of_yaml_work(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("load_col: &base {inter: [user_id, item_id]}\nunused_col:\n  <<: *base\n")
    assert read(file)["unused_col"] == {"inter": ["user_id", "item_id"]}
