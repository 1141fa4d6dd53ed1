"""RecBole's Config with this package's models, defaults and checks."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, Union

import recbole
import yaml
from recbole.config import Config

from recbole_residual.config import checks
from recbole_residual.config.property_files import properties_dir
from recbole_residual.errors import ConfigError
from recbole_residual.evaluator import (
    check_metrics,
    metric_problem,
    register_metrics,
    result_keys,
)
from recbole_residual.model.registry import get_model

_RECBOLE_PROPERTIES = Path(recbole.__path__[0]) / "properties"

_DERIVED = frozenset(
    {
        "MODEL_TYPE",
        "MODEL_INPUT_TYPE",
        "eval_type",
        "device",
        "single_spec",
        "local_rank",
        "valid_neg_sample_args",
        "test_neg_sample_args",
        "valid_metric_bigger",
    }
)
"""Keys that Config computes; a saved configuration leaves them out."""


class ResidualConfig(Config):
    """RecBole's Config, extended.

    It finds this package's models and properties, never reads the caller's ``sys.argv`` (the
    command hands its options over as ``config_dict``), and refuses mistakes before anything runs:
    unknown keys with the nearest known one, unusable values, an unknown model or metric, a
    ``valid_metric`` that will not be computed.

    Defaults come from, later ones first in force: RecBole's overall.yaml and this package's; the
    model files of the model and its parents, RecBole's and then this package's; the dataset's, in
    the same order; then ``config_file_list``; then ``config_dict``.

    Args:
        model: name or class of the model; else the key ``model`` of a file or of the dict.
        dataset: name of the dataset; else the key ``dataset``.
        config_file_list: yaml files.
        config_dict: values; text is read as a Python literal where it is one (``"[1, 10]"``).

    Raises:
        ConfigError: with what was wrong and what to do.
        UnknownModelError: with a list of models.
    """

    def __init__(
        self,
        model: Union[str, type] | None = None,
        dataset: str | None = None,
        config_file_list: Sequence[Union[str, os.PathLike[str]]] | None = None,
        config_dict: dict[str, Any] | None = None,
    ) -> None:
        self.loaded_files: list[str] = []
        register_metrics()
        try:
            super().__init__(model, dataset, config_file_list, config_dict and dict(config_dict))
        except (NotImplementedError, RuntimeError, TypeError, KeyError) as error:
            raise ConfigError(f"RecBole refuses the configuration: {error}") from error
        self._check()

    # RecBole's steps, each with this package's part -------------------------------------------

    def _load_cmd_line(self) -> dict[str, Any]:
        return {}

    def _load_config_files(self, file_list: Sequence[Any] | None) -> dict[str, Any]:
        merged: dict[str, Any] = {}
        for file in file_list or ():
            merged.update(self._read_yaml(Path(file), "configuration file"))
        return merged

    def _convert_config_dict(self, config_dict: dict[str, Any]) -> dict[str, Any]:
        # RecBole evaluates text as Python; literals are all that a configuration needs.
        return {key: _literal(value) for key, value in config_dict.items()}

    def _get_model_and_dataset(
        self, model: Union[str, type] | None, dataset: str | None
    ) -> tuple[str, type, str]:
        model = model if model is not None else self.external_config_dict.get("model")
        dataset = dataset if dataset is not None else self.external_config_dict.get("dataset")
        if model is None:
            raise ConfigError("no model given: --model=SASRecResidual, for example.")
        if dataset is None:
            raise ConfigError("no dataset given: --dataset=ml-100k works offline.")
        if isinstance(model, str):
            return model, get_model(model), str(dataset)
        return model.__name__, model, str(dataset)

    def _load_internal_config_dict(self, model: str, model_class: type, dataset: str) -> None:
        # RecBole's own reader takes one file per exact model name; a subclass needs its parents'.
        super()._load_internal_config_dict(model, model_class, dataset)
        own = properties_dir()
        recbole_overall = dict(self.internal_config_dict)
        self._merge_defaults(own / "overall.yaml")
        if recbole_overall["eval_args"]["mode"] != "full":
            # Context-aware models, DIN and DIEN are judged by AUC: no ranking metric fits them.
            for key in ("metrics", "valid_metric"):
                self.internal_config_dict[key] = recbole_overall[key]
        self._recbole_negatives = recbole_overall["train_neg_sample_args"]
        for ancestor in reversed(model_class.__mro__):
            for folder in (_RECBOLE_PROPERTIES / "model", own / "model"):
                self._merge_defaults(folder / f"{ancestor.__name__}.yaml")
            self.internal_config_dict.update(vars(ancestor).get("config_defaults", {}))
        self._merge_defaults(own / "dataset" / f"{dataset}.yaml")
        self.known_keys = checks.known_keys(
            {**recbole_overall, **self.internal_config_dict}, self.parameters, model_class
        )

    def _get_final_config_dict(self) -> dict[str, Any]:
        final = super()._get_final_config_dict()
        if "show_progress" not in self.external_config_dict and not _terminal():
            final["show_progress"] = False  # a bar that nobody watches fills a file
        checks.check_keys(self.external_config_dict, self.known_keys, strict=final["strict_config"])
        checks.check_types(self.external_config_dict, self.internal_config_dict)
        checks.check_values(final, self.model_class)
        self._fill_training_defaults(final)
        if "metrics" not in self.external_config_dict:
            final["metrics"] = [
                metric
                for metric in final["metrics"]
                if metric_problem(metric, final, self.model_class) is None
            ]
        return final

    def _fill_training_defaults(self, final: dict[str, Any]) -> None:
        self._fill_data_defaults(final)
        all_positions = getattr(self.model_class, "can_train_at_all_positions", False)
        if final["loss_positions"] == "all" and not all_positions:
            if "loss_positions" in self.external_config_dict:
                raise ConfigError(
                    f"loss_positions = 'all' needs a model of this package; {self.model} trains "
                    "with RecBole's own samples: loss_positions = 'last'."
                )
            final["loss_positions"] = "last"
        if final["loss_positions"] == "all" and final.get("transform") is not None:
            if final["transform"] != "mask_itemseq":
                raise ConfigError(
                    f"transform = {final['transform']!r} works on RecBole's own samples: set "
                    "loss_positions = 'last'."
                )
            # the model masks whole sequences; RecBole's loop would run in every evaluation too
            final["transform"] = None
        if final["train_batch_size"] is None:
            final["train_batch_size"] = 128 if final["loss_positions"] == "all" else 2048
        if final["train_neg_sample_args"] is None:
            if "loss_type" not in final:  # the model's class decides, and RecBole's default fits it
                if "train_neg_sample_args" not in self.external_config_dict:
                    final["train_neg_sample_args"] = self._recbole_negatives
            elif final["loss_type"] != "CE":
                final["train_neg_sample_args"] = {"distribution": "uniform", "sample_num": 1}

    def _set_default_parameters(self) -> None:
        self.base_data_path = os.path.abspath(str(self.final_config_dict["data_path"]))
        super()._set_default_parameters()
        own_copy = os.path.join(self.base_data_path, self.dataset)
        if "data_path" in self.external_config_dict and os.path.isdir(own_copy):
            # RecBole always takes its own ml-100k, also where a folder was named.
            self.final_config_dict["data_path"] = own_copy
        self.final_config_dict["data_path"] = os.path.abspath(self.final_config_dict["data_path"])

    def _fill_data_defaults(self, final: dict[str, Any]) -> None:
        """Sequential models load what they need, where nobody said which columns (RecBole's default
        has no time); ready-made rows are trained as they are."""
        if final["MODEL_TYPE"].name != "SEQUENTIAL":
            return
        user, item = final["USER_ID_FIELD"], final["ITEM_ID_FIELD"]
        ready_made = final.get("benchmark_filename") is not None
        nobody_said = final["load_col"] == {"inter": ["user_id", "item_id"]}
        if nobody_said and "load_col" not in self.external_config_dict:
            last = item + final["LIST_SUFFIX"] if ready_made else final["TIME_FIELD"]
            final["load_col"] = {"inter": [user, item, last]}
        if ready_made and final["loss_positions"] == "all":
            if "loss_positions" in self.external_config_dict:
                raise ConfigError(
                    "loss_positions = 'all' does not go with benchmark_filename, whose rows are "
                    "trained as they are, one target each: loss_positions = 'last'."
                )
            final["loss_positions"] = "last"

    def _init_device(self) -> None:
        # RecBole overwrites CUDA_VISIBLE_DEVICES with its default; who set it (Ray, a cluster, the
        # user's shell) knows better, unless gpu_id was asked for.
        asked = "gpu_id" in self.external_config_dict and self.final_config_dict["use_gpu"]
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        if not self.final_config_dict["use_gpu"]:
            self.final_config_dict["gpu_id"] = ""
        elif not asked and visible is not None:
            self.final_config_dict["gpu_id"] = visible
        super()._init_device()
        if not asked:  # a later run of this process, or Ray, may want another GPU
            if visible is None:
                del os.environ["CUDA_VISIBLE_DEVICES"]
            else:
                os.environ["CUDA_VISIBLE_DEVICES"] = visible

    # This package's own ------------------------------------------------------------------------

    def _read_yaml(self, path: Path, what: str) -> dict[str, Any]:
        try:
            text = path.read_text(encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"{what} {str(path)!r} cannot be read: {error.strerror}.") from error
        try:
            content = yaml.load(text, Loader=_safe_loader(self.yaml_loader))
        except yaml.YAMLError as error:
            raise ConfigError(f"{what} {str(path)!r} is not yaml: {error}") from error
        if content is None:
            content = {}
        if not isinstance(content, dict):
            raise ConfigError(f"{what} {str(path)!r} is not a list of 'key: value'.")
        self.loaded_files.append(str(path))
        return content

    def _merge_defaults(self, path: Path) -> None:
        if path.is_file():
            self.internal_config_dict.update(self._read_yaml(path, "properties file"))

    def _check(self) -> None:
        check_metrics(self, self.model_class)
        checks.check_valid_metric(self["valid_metric"], result_keys(self))

    def to_plain(self) -> dict[str, Any]:
        """The resolved configuration as plain values that yaml and ``weights_only`` loading know.

        Reading it back as a configuration file gives the same configuration.
        """
        plain = plain_settings(self.final_config_dict)
        plain["data_path"] = self.base_data_path
        return plain


def plain_settings(final_config_dict: Mapping[str, Any]) -> dict[str, Any]:
    """What a RecBole Config has resolved, as plain values and without what it derives itself.

    Args:
        final_config_dict: RecBole's dictionary.
    """
    plain = {key: _plain(value) for key, value in final_config_dict.items() if key not in _DERIVED}
    negatives = plain.get("train_neg_sample_args")
    if isinstance(negatives, dict) and negatives.get("distribution") == "none":
        plain["train_neg_sample_args"] = None
    return dict(sorted(plain.items()))


def _terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


def _literal(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if value.lower() in ("true", "false"):
        return value.lower() == "true"
    try:
        return ast.literal_eval(value)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return value


def _safe_loader(recbole_loader: type) -> type:
    """A loader that builds plain values only, with RecBole's reading of numbers like ``1e-3``."""

    class Loader(yaml.SafeLoader):
        yaml_implicit_resolvers = recbole_loader.yaml_implicit_resolvers  # type: ignore[attr-defined]

    return Loader


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value)
