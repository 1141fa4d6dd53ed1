"""The one door to a model: a session holds a model with its configuration, its data, and where all
of it came from."""

from __future__ import annotations

import dataclasses
import gc
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from logging import getLogger
from pathlib import Path
from typing import Any, Union

import torch
from recbole.utils import init_seed

from recbole_residual import compat
from recbole_residual.checkpoint.untrusted import load_recbole_checkpoint
from recbole_residual.checkpoint.weights import load_weights
from recbole_residual.checkpoint.writing import FORMAT, load_checkpoint
from recbole_residual.config.checks import check_topk
from recbole_residual.config.residual_config import ResidualConfig
from recbole_residual.data import (
    DatasetStatistics,
    create_dataset,
    data_preparation,
    dataset_statistics,
)
from recbole_residual.data.download import ensure_dataset_files
from recbole_residual.data.item_names import item_names
from recbole_residual.errors import CheckpointError, ConfigError
from recbole_residual.evaluator import register_metrics
from recbole_residual.model.architecture.precision import refuse_half_precision
from recbole_residual.model.architecture.wrappers import unwrapped
from recbole_residual.model.base import has_alpha
from recbole_residual.model.registry import build_model
from recbole_residual.run.adoption import adopted_config
from recbole_residual.run.folder import RunFolder, reopened_config

Source = Union[str, "os.PathLike[str]", "Session", torch.nn.Module]
"""What a session can be opened from."""

_SOURCES = (
    "the folder of a run, a checkpoint (.pth) of this package or of RecBole's Trainer, a Session, "
    "or a RecBole model together with its data: Session.open(model, valid_data=..., test_data=...) "
    "or Session.open(model, dataset=...)"
)


@dataclass(frozen=True)
class Origin:
    """Where a session came from.

    Attributes:
        kind: ``configuration``, ``run``, ``checkpoint`` or ``memory``.
        path: the folder or the file; None for a configuration and a model in memory.
        epochs: how many epochs its weights were trained; None where nobody wrote it down.
        notes: what differs from the evaluation that the source itself asks for.
    """

    kind: str
    path: Path | None = None
    epochs: int | None = None
    notes: tuple[str, ...] = ()


@dataclass(repr=False)
class Session:
    """A model with its configuration and its data, to ask questions of.

    :meth:`open` makes one of whatever a model can be found in; as a context manager it lets go of
    model and data at the end.

    Attributes:
        config: the resolved configuration; RecBole's own for a model that came with its loaders.
        dataset: the filtered dataset.
        train_data, valid_data, test_data: RecBole data loaders; None where there is none.
        model: on ``config["device"]``.
        data_source: in words, where the data came from.
        statistics: of the dataset before it was split; None if they are not known.
        origin: where the model came from.

    Example:
        >>> with Session.open("output/SASRecResidual-ml-100k-...") as session:  # doctest: +SKIP
        ...     session.model.alpha = 0.3
        ...     sweep = sweep_alpha(session)
    """

    config: Any
    dataset: Any
    train_data: Any
    valid_data: Any
    test_data: Any
    model: Any
    data_source: str
    statistics: DatasetStatistics | None = None
    origin: Origin = field(default_factory=lambda: Origin("configuration"))

    @classmethod
    def open(
        cls,
        source: Source,
        *,
        config_dict: Mapping[str, Any] | None = None,
        trust_checkpoint: bool = False,
        valid_data: Any = None,
        test_data: Any = None,
        dataset: Any = None,
    ) -> Session:
        """Open a model with everything around it.

        Args:
            source: the folder of a run, a checkpoint of this package or of RecBole's Trainer, a
                session, or a RecBole model (inside ``torch.compile``, ``DataParallel`` or
                ``DistributedDataParallel``, too).
            config_dict: of a checkpoint, what to change in its configuration, usually
                ``data_path``; of a run, only where it computes and where its data is.
            trust_checkpoint: load a checkpoint as an ordinary pickle, which runs what it contains.
            valid_data, test_data: RecBole loaders of a model.
            dataset: RecBole's Dataset of a model; by default that of its loaders.

        Returns:
            Session: with the model in evaluation mode where it was loaded from a file. Of a
            session, another one on the same model and data.

        Raises:
            ConfigError: if the source is none of these, or its configuration cannot be used.
            CheckpointError: if a file cannot be read, or the data is not what it was trained on.
            UntrustedCheckpointError: if a checkpoint needs a name outside the allow-list.
        """
        if isinstance(source, Session):
            return dataclasses.replace(source)
        if isinstance(source, torch.nn.Module):
            model = unwrapped(source)
            refuse_half_precision(model)
            return _of_model(model, valid_data, test_data, dataset)
        if not isinstance(source, (str, os.PathLike)):
            raise ConfigError(f"{source!r} is nothing that can be opened. Give {_SOURCES}.")
        path = Path(source).expanduser()
        if path.is_dir():
            return _of_run(RunFolder.existing(path), config_dict)
        if not path.is_file():
            raise CheckpointError(
                f"there is no checkpoint or folder of a run {str(source)!r}. Give {_SOURCES}."
            )
        return _of_checkpoint(path, config_dict or {}, trust_checkpoint)

    @cached_property
    def item_names(self) -> dict[str, str]:
        """The name of each item by its token; empty without an ``.item`` file that has names."""
        return item_names(self.config)

    @property
    def folder(self) -> Path | None:
        """The folder of the run that it was opened from, if it was."""
        return self.origin.path if self.origin.kind == "run" else None

    def close(self) -> None:
        """Let go of the model and the data, so that their memory can be used again."""
        self.model = self.dataset = self.train_data = self.valid_data = self.test_data = None
        gc.collect()  # loaders and models refer to each other in circles
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _described(self) -> dict[str, str]:
        """What a reader wants to know first, by name."""
        where = self.origin.kind if self.origin.path is None else str(self.origin.path)
        if self.model is None:
            return {"from": where, "state": "closed"}
        described = {
            "model": type(self.model).__name__,
            "dataset": str(self.config["dataset"]),
            "from": where,
        }
        if has_alpha(self.model):
            described["alpha"] = str(self.model.alpha)
        return described

    def __repr__(self) -> str:
        return f"Session({', '.join(f'{name}={text}' for name, text in self._described().items())})"

    def _repr_html_(self) -> str:
        from html import escape

        rows = "".join(
            f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>"
            for name, text in self._described().items()
        )
        return f"<table>{rows}</table>"


def build_session(config: ResidualConfig) -> Session:
    """Load the data, split it, and build the model, with RecBole's order of seeding.

    Args:
        config: the configuration.

    Raises:
        ConfigError, DataError: for what the configuration or the files make impossible.
    """
    with compat.recbole_mended():
        init_seed(config["seed"], config["reproducibility"])
        source = ensure_dataset_files(config)
        getLogger().info("Data: %s", source)
        dataset = create_dataset(config)
        check_topk(config["topk"], dataset.item_num - 1)
        statistics = dataset_statistics(dataset)  # RecBole's own datasets lose them in the split
        train_data, valid_data, test_data = data_preparation(config, dataset)
        init_seed(config["seed"] + config["local_rank"], config["reproducibility"])
        model = build_model(config, train_data._dataset, config.model_class)
    return Session(config, dataset, train_data, valid_data, test_data, model, source, statistics)


def _of_run(folder: RunFolder, config_dict: Mapping[str, Any] | None) -> Session:
    register_metrics()
    if not folder.checkpoint_file.is_file():
        raise CheckpointError(
            f"{folder} holds no checkpoint: its training has not got as far as saving weights, or "
            "was told not to save them."
        )
    # the file is read before the data, which takes longer
    checkpoint = load_checkpoint(folder.checkpoint_file)
    session = build_session(reopened_config(folder, config_dict))
    load_weights(session.model, checkpoint, str(folder.checkpoint_file))
    session.origin = Origin("run", folder.path, _epochs(checkpoint))
    return session


def _of_checkpoint(path: Path, config_dict: Mapping[str, Any], trust: bool) -> Session:
    checkpoint = load_recbole_checkpoint(path, trust_checkpoint=trust)
    stored = checkpoint.get("config")
    settings = stored if isinstance(stored, dict) else getattr(stored, "final_config_dict", None)
    if not settings:
        raise CheckpointError(f"{str(path)!r} holds no configuration, as RecBole's Trainer writes.")
    notes: list[str] = []
    if checkpoint.get("format") == FORMAT:
        register_metrics()
        own = {**settings, "output_dir": None, "checkpoint_dir": "saved"}
        config = ResidualConfig(config_dict={**own, **config_dict})
    else:
        config, notes = adopted_config(settings, config_dict)
    session = build_session(config)
    load_weights(session.model, checkpoint, str(path))
    session.origin = Origin("checkpoint", path.absolute(), _epochs(checkpoint), tuple(notes))
    return session


def _of_model(model: torch.nn.Module, valid_data: Any, test_data: Any, dataset: Any) -> Session:
    loader = test_data if test_data is not None else valid_data
    if loader is None and dataset is None:
        raise ConfigError(f"a model alone does not know its data. Give {_SOURCES}.")
    if dataset is None:
        dataset = loader._dataset
    return Session(
        config=dataset.config if loader is None else loader.config,
        dataset=dataset,
        train_data=None,
        valid_data=valid_data,
        test_data=test_data,
        model=model,
        data_source="loaders in memory",
        statistics=getattr(dataset, "statistics", None),
        origin=Origin("memory"),
    )


def _epochs(checkpoint: Mapping[str, Any]) -> int | None:
    return int(checkpoint["epoch"]) + 1 if "epoch" in checkpoint else None
