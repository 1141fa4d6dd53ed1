from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from recbole_residual.errors import CheckpointError, ConfigError
from recbole_residual.run.folder import RunFolder


def test_runs_that_start_together_have_folders_of_their_own() -> None:
    with ThreadPoolExecutor(16) as pool:
        folders = list(pool.map(lambda _: RunFolder.create("SASRec", "ml-100k"), range(64)))
    assert len({str(folder) for folder in folders}) == 64
    assert folders[0].path.parent == Path("output").absolute()
    assert folders[0].path.name.startswith("SASRec-ml-100k-")


def test_a_named_folder_is_given_once(tmp_path: Path) -> None:
    target = tmp_path / "mine"
    refusals: list[str] = []

    def claim(_: int) -> bool:
        try:
            RunFolder.create("SASRec", "ml-100k", str(target))
        except ConfigError as error:
            refusals.append(str(error))
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(claim, range(8))) == 1
    assert len(refusals) == 7
    assert all("--resume" in refusal for refusal in refusals)


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="cannot be made"):
        RunFolder.create("SASRec", "ml-100k", str(tmp_path / "file" / "below"))


def test_what_is_written_is_read(tmp_path: Path) -> None:
    folder = RunFolder.create("SASRec", "ml-100k", str(tmp_path / "run"))
    folder.write_config({"alpha": [0.3, 1.0], "topk": [1]})
    assert RunFolder.existing(folder.path).read_config() == {"alpha": [0.3, 1.0], "topk": [1]}
    assert folder.read_result() is None
    folder.write_result({"ndcg@10": 0.5, "recoveryrate@10": float("nan"), "k": (1, 2)})
    assert folder.read_result() == {"ndcg@10": 0.5, "recoveryrate@10": None, "k": [1, 2]}


def test_a_folder_that_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not the folder of a run"):
        RunFolder.existing(tmp_path)


def test_the_log_holds_what_was_said_without_colour_codes(tmp_path: Path) -> None:
    folder = RunFolder.create("SASRec", "ml-100k", str(tmp_path / "run"))
    before = list(logging.getLogger().handlers)
    with folder.logging("INFO") as logger:
        logger.info("\x1b[1;35mpink\x1b[0m %s", "words")
        logger.debug("not at this level")
    assert folder.log_file.read_text().endswith("INFO pink words\n")
    assert logging.getLogger().handlers == before
    with pytest.raises(ConfigError, match="state"), folder.logging("LOUD"):
        pass


def test_a_file_that_somebody_broke_is_named(tmp_path: Path) -> None:
    folder = RunFolder.create("SASRec", "ml-100k", str(tmp_path / "run"))
    folder.result_file.write_text("{")
    with pytest.raises(CheckpointError, match=r"result\.json' is broken"):
        folder.read_result()
    for text in ("a: [", "- 1", "\x00"):
        folder.config_file.write_text(text)
        with pytest.raises(CheckpointError, match=r"config\.yaml' is broken"):
            folder.read_config()
