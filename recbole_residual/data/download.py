"""Where a dataset's files come from: the folder given, the recbole wheel, or RecBole's download."""

from __future__ import annotations

import difflib
import os
import sys
import urllib.error
from logging import getLogger
from pathlib import Path
from typing import Any

import recbole
import yaml
from recbole.utils import url as recbole_url

from recbole_residual.errors import DatasetNotFoundError

_RECBOLE = Path(recbole.__path__[0])


def ensure_dataset_files(config: Any) -> str:
    """Make sure that the dataset's ``.inter`` file is there, downloading it if RecBole knows it.

    Args:
        config: a ResidualConfig; its ``data_path`` is the dataset's own folder.

    Returns:
        In words, where the data is.

    Raises:
        DatasetNotFoundError: with the file that was wanted, where to put it, and what there is.
    """
    folder = config["data_path"]
    url = dataset_url(config)
    if url is None:
        inside = Path(folder).resolve().is_relative_to(_RECBOLE.resolve())
        return f"{folder} ({'inside the recbole package' if inside else 'found on disk'})"
    _download(config["dataset"], folder, url, _wanted_files(config)[0], config)
    return f"{folder} (downloaded from {url})"


def dataset_url(config: Any) -> str | None:
    """Where the dataset would be downloaded from; None if its files are there.

    Raises:
        DatasetNotFoundError: if they are not, and RecBole knows no place for them.
    """
    missing = [path for path in _wanted_files(config) if not os.path.isfile(path)]
    if not missing:
        return None
    if config["benchmark_filename"] is not None or os.path.isdir(config["data_path"]):
        raise DatasetNotFoundError(_not_found(config, missing[0], "the folder has no such file"))
    url = _known_urls().get(config["dataset"])
    if url is None:
        raise DatasetNotFoundError(_not_found(config, missing[0], "RecBole cannot download it"))
    return url


def _wanted_files(config: Any) -> list[str]:
    name, folder = config["dataset"], config["data_path"]
    suffixes = config["benchmark_filename"]
    if suffixes is None:
        return [os.path.join(folder, f"{name}.inter")]
    return [os.path.join(folder, f"{name}.{suffix}.inter") for suffix in suffixes]


def _known_urls() -> dict[str, str]:
    text = (_RECBOLE / "properties" / "dataset" / "url.yaml").read_text(encoding="utf-8")
    return yaml.safe_load(text)


def _not_found(config: Any, wanted: str, reason: str) -> str:
    base = Path(config.base_data_path)
    local = sorted(path.parent.name for path in base.glob("*/*.inter")) if base.is_dir() else []
    known = sorted({*local, *_known_urls(), "ml-100k"})
    close = difflib.get_close_matches(config["dataset"], known, n=3)
    lines = [
        f"dataset {config['dataset']!r}: no file {wanted!r}, and {reason}.",
        f"Put an atomic file there (header like 'user_id:token<TAB>item_id:token<TAB>"
        f"timestamp:float'), or name the folder above with --data_path (now {str(base)!r}).",
        f"Found under data_path: {', '.join(dict.fromkeys(local)) or 'none'}.",
    ]
    if close:
        lines.append(f"Names close to it: {', '.join(close)}.")
    lines.append(
        "ml-100k comes with RecBole and works offline. RecBole downloads: "
        f"{', '.join(sorted(_known_urls()))}."
    )
    return " ".join(lines)


def _download(name: str, folder: str, url: str, wanted: str, config: Any) -> None:
    logger = getLogger()
    try:
        # RecBole asks before it downloads more than a gigabyte; without a terminal nobody answers.
        if sys.stdin is not None and sys.stdin.isatty():
            if not recbole_url.decide_download(url):
                raise DatasetNotFoundError(_not_found(config, wanted, "the download was declined"))
        else:
            logger.info("Downloading %s from %s without asking: no terminal.", name, url)
        archive = recbole_url.download_url(url, folder)
    except (urllib.error.URLError, TimeoutError, ConnectionError, RuntimeError) as error:
        if os.path.isdir(folder) and not os.listdir(folder):
            os.rmdir(folder)  # RecBole takes an empty folder for data that is there
        raise DatasetNotFoundError(
            _not_found(config, wanted, f"the download from {url} failed ({error})")
        ) from error
    recbole_url.extract_zip(archive, folder)
    os.unlink(archive)
    stem = os.path.splitext(os.path.basename(archive))[0]
    recbole_url.rename_atomic_files(folder, stem, name)
    if not os.path.isfile(wanted):
        raise DatasetNotFoundError(_not_found(config, wanted, f"the archive {url} did not hold it"))
