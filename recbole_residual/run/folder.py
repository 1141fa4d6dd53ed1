"""The folder of one run: its name, its log, and the files that others read back."""

from __future__ import annotations

import json
import logging
import math
import re
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import colorlog
import yaml

from recbole_residual.checkpoint.lock import LOCK_FILE
from recbole_residual.checkpoint.writing import BEST_FILE, RESUME_FILE
from recbole_residual.config.keys import RESUME_KEYS
from recbole_residual.config.residual_config import ResidualConfig
from recbole_residual.errors import ConfigError
from recbole_residual.files import (
    CONFIG_FILE,
    LOG_FILE,
    RESULT_FILE,
    PathLike,
    read_json,
    read_yaml,
    write_text,
)

_COLOR_CODE = re.compile(r"\x1b\[[0-9;]*m")


class RunFolder:
    """Paths of one run.

    Args:
        path: the folder.
    """

    def __init__(self, path: PathLike) -> None:
        self.path = Path(path).expanduser().absolute()
        self.config_file = self.path / CONFIG_FILE
        self.log_file = self.path / LOG_FILE
        self.result_file = self.path / RESULT_FILE
        self.checkpoint_file = self.path / BEST_FILE
        self.resume_file = self.path / RESUME_FILE

    def __str__(self) -> str:
        return str(self.path)

    @classmethod
    def create(cls, model: str, dataset: str, output_dir: str | None = None) -> RunFolder:
        """Make a folder that no other run has.

        Args:
            model: name of the model.
            dataset: name of the dataset.
            output_dir: the folder itself; by default
                ``./output/<model>-<dataset>-<time>-<short id>``.

        Raises:
            ConfigError: if ``output_dir`` holds something already.
        """
        if output_dir is None:
            time = datetime.now().strftime("%Y%m%d-%H%M%S")
            path = Path("output") / f"{model}-{dataset}-{time}-{uuid.uuid4().hex[:6]}"
            path.mkdir(parents=True, exist_ok=False)
            return cls(path)
        path = Path(output_dir).expanduser()
        try:
            path.mkdir(parents=True, exist_ok=True)
            # Two runs that start together: one of them makes this file, the other is told.
            (path / LOG_FILE).touch(exist_ok=False)
        except FileExistsError as error:
            raise ConfigError(
                f"output_dir {str(path)!r} holds a run already. Choose another folder, or go on "
                f"with that run: --resume={path}."
            ) from error
        except OSError as error:
            raise ConfigError(
                f"output_dir {str(path)!r} cannot be made: {error.strerror}."
            ) from error
        return cls(path)

    @classmethod
    def existing(cls, path: PathLike) -> RunFolder:
        """The folder of an earlier run.

        Raises:
            ConfigError: if it is none.
        """
        folder = cls(path)
        if not folder.config_file.is_file():
            raise ConfigError(f"{str(path)!r} is not the folder of a run: it has no {CONFIG_FILE}.")
        return folder

    def write_config(self, config: Mapping[str, Any]) -> None:
        """Save a resolved configuration, from which the run can be repeated."""
        write_text(self.config_file, yaml.safe_dump(dict(config), sort_keys=True))

    def read_config(self) -> dict[str, Any]:
        """The resolved configuration of the run."""
        return read_yaml(self.config_file)

    def write_result(self, result: Mapping[str, Any]) -> None:
        """Save the result; NaN becomes null, as JSON has no other word for it."""
        write_text(self.result_file, json.dumps(_json(result), indent=2, allow_nan=False) + "\n")

    def read_result(self) -> dict[str, Any] | None:
        """The result, or None if the run has not finished."""
        if not self.result_file.is_file():
            return None
        result = read_json(self.result_file)
        if "run_folder" in result:
            result["run_folder"] = str(self.path)  # it may have been moved since
        return result

    def has_trained(self) -> bool:
        """Whether there is anything of a training: a state to resume from, weights, or a result."""
        return any(
            path.exists() for path in (self.resume_file, self.checkpoint_file, self.result_file)
        )

    def discard(self) -> None:
        """Remove what a run that never began to train has left: its configuration and its log."""
        for path in (self.config_file, self.log_file, self.path / LOCK_FILE):
            path.unlink(missing_ok=True)
        for path in (self.path / "tensorboard", self.path):
            with suppress(OSError):  # something else is in it: that stays
                path.rmdir()

    @contextmanager
    def logging(self, state: str = "INFO") -> Iterator[logging.Logger]:
        """Log to the terminal and to ``run.log`` for a while.

        The root logger gets two handlers, as with RecBole's ``init_logger``, and gives them back.

        Args:
            state: RecBole's config key: DEBUG, INFO, WARNING, ERROR or CRITICAL.
        """
        logger = logging.getLogger()
        level = logging.getLevelName(str(state).upper())
        if not isinstance(level, int):
            raise ConfigError(
                f"state = {state!r} is not usable: DEBUG, INFO, WARNING, ERROR or CRITICAL."
            )
        file_handler = logging.FileHandler(self.log_file, encoding="utf-8")
        file_handler.setFormatter(_PlainFormatter("%(asctime)s %(levelname)s %(message)s"))
        terminal = logging.StreamHandler()
        terminal.setFormatter(
            colorlog.ColoredFormatter(
                "%(log_color)s%(asctime)s %(levelname)s%(reset)s %(message)s", "%H:%M:%S"
            )
            if terminal.stream.isatty()
            else _PlainFormatter("%(asctime)s %(levelname)s %(message)s", "%H:%M:%S")
        )
        terminal.addFilter(lambda record: not getattr(record, "file_only", False))
        before = logger.level
        handlers = (file_handler, terminal)
        for handler in handlers:
            handler.setLevel(level)
            logger.addHandler(handler)
        logger.setLevel(level)
        try:
            yield logger
        finally:
            for handler in handlers:
                logger.removeHandler(handler)
            file_handler.close()
            logger.setLevel(before)


def reopened_config(folder: RunFolder, config_dict: Mapping[str, Any] | None) -> ResidualConfig:
    """The configuration of a run that exists.

    Args:
        folder: of the run.
        config_dict: only what :data:`RESUME_KEYS` names may differ.

    Raises:
        ConfigError: if ``config_dict`` would change the numbers.
    """
    changes = dict(config_dict or {})
    refused = sorted(set(changes) - RESUME_KEYS)
    if refused:
        raise ConfigError(
            f"{', '.join(refused)} cannot change for a run that exists; only "
            f"{', '.join(sorted(RESUME_KEYS))} can. Start a new run instead."
        )
    return ResidualConfig(config_file_list=[folder.config_file], config_dict=changes)


class _PlainFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return _COLOR_CODE.sub("", super().format(record))


def _json(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json(item) for item in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
