"""RecBole's Config with this package's models, defaults and checks."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Any, Union

import recbole
from recbole.config import Config
from recbole.evaluator import metric_types
from recbole.utils import EvaluatorType, InputType, ModelType

from recbole_residual.config import checks
from recbole_residual.config.conflicts import (
    check_conflicts,
    is_pairwise,
    own_losses,
    scores_every_item,
)
from recbole_residual.config.keys import BY_MODEL, DERIVED_KEYS, KEYS, Key
from recbole_residual.config.mappings import MappingKind
from recbole_residual.config.property_files import properties_dir
from recbole_residual.config.typed import expand, literal
from recbole_residual.config.unknown import check_keys
from recbole_residual.config.yaml_files import read_yaml
from recbole_residual.errors import ConfigError
from recbole_residual.evaluator import (
    check_metrics,
    metric_problem,
    register_metrics,
    result_keys,
)
from recbole_residual.model.registry import get_model

_RECBOLE_PROPERTIES = Path(recbole.__path__[0]) / "properties"


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
        self.external_config_dict: dict[str, Any] = {}
        self._file_layers: list[dict[str, Any]] = []
        register_metrics()
        super().__init__(model, dataset, config_file_list, config_dict)
        self._check()

    # RecBole's steps, each with this package's part -------------------------------------------

    def _load_cmd_line(self) -> dict[str, Any]:
        return {}

    def _load_config_files(self, file_list: Sequence[Any] | None) -> dict[str, Any]:
        if isinstance(file_list, (str, os.PathLike)):
            file_list = [file_list]
        merged: dict[str, Any] = {}
        for file in file_list or ():
            self._file_layers.append(self._read_yaml(Path(expand(file)), "configuration file"))
            merged.update(self._file_layers[-1])
        return merged

    def _load_variable_config_dict(self, config_dict: Mapping[str, Any] | None) -> dict[str, Any]:
        # RecBole evaluates text as Python; here each key reads its value, once the model is known.
        return {str(key): value for key, value in (config_dict or {}).items()}

    def _get_model_and_dataset(
        self, model: Union[str, type] | None, dataset: str | None
    ) -> tuple[str, type, str]:
        model = model or self.external_config_dict.get("model")
        dataset = dataset or self.external_config_dict.get("dataset")
        if not model:
            raise ConfigError("no model given: --model=SASRecResidual, for example.")
        if not dataset:
            raise ConfigError("no dataset given: --dataset=ml-100k works offline.")
        if isinstance(model, type):
            return model.__name__, model, str(dataset)
        if not isinstance(model, str):
            raise ConfigError(f"model = {model!r} is not usable: give a name or a class.")
        return model, get_model(model), str(dataset)

    def _load_internal_config_dict(self, model: str, model_class: type, dataset: str) -> None:
        # RecBole's own reader takes one file per exact model name; a subclass needs its parents'.
        with _refused_by_recbole():
            super()._load_internal_config_dict(model, model_class, dataset)
        own = properties_dir()
        recbole = dict(self.internal_config_dict)
        self._merge_defaults(own / "overall.yaml")
        for ancestor in reversed(model_class.__mro__):
            for folder in (_RECBOLE_PROPERTIES / "model", own / "model"):
                self._merge_defaults(folder / f"{ancestor.__name__}.yaml")
            self.internal_config_dict.update(vars(ancestor).get("config_defaults", {}))
        self._merge_defaults(own / "dataset" / f"{dataset}.yaml")
        self._keep_evaluation(recbole)
        self.known_keys = checks.known_keys(
            {**recbole, **self.internal_config_dict}, self.parameters, model_class
        )

    def _keep_evaluation(self, recbole: Mapping[str, Any]) -> None:
        """RecBole's evaluation, where this package's is not meant for the model: of models that it
        evaluates by the value of their scores (AUC), and of others than sequential ones where the
        dataset's split is one by time."""
        defaults = self.internal_config_dict
        sequential = defaults["MODEL_TYPE"] == ModelType.SEQUENTIAL
        by_value = _by_value(recbole["metrics"])
        if by_value:
            defaults.update({key: recbole[key] for key in ("metrics", "valid_metric")})
        if not sequential and (by_value or "GT" in defaults["eval_args"]["split"]):
            defaults["eval_args"] = recbole["eval_args"]
        elif by_value:
            mode = recbole["eval_args"]["mode"]
            defaults["eval_args"] = {**defaults["eval_args"], "mode": mode}

    def _get_final_config_dict(self) -> dict[str, Any]:
        strict = KEYS["strict_config"].read(self.external_config_dict.get("strict_config", True))
        check_keys(self.external_config_dict, self.known_keys, strict)
        self.external_config_dict = self._read_external()
        final = dict(self.internal_config_dict)
        for name, value in self.external_config_dict.items():
            final[name] = self._settled(name, self._merged(name, final.get(name), value))
        if "show_progress" not in self.external_config_dict and not _terminal():
            final["show_progress"] = False  # a bar that nobody watches fills a file
        checks.check_choices(final, self.model_class)
        checks.check_metric_names(KEYS["metrics"].read(final["metrics"]))
        self._fill_training_defaults(final)
        check_conflicts(final, self.model_class, self.external_config_dict)
        if "metrics" not in self.external_config_dict:
            final["metrics"] = [
                metric
                for metric in final["metrics"]
                if metric_problem(metric, final, self.model_class) is None
            ]
        return final

    def _read_external(self) -> dict[str, Any]:
        """What was given, files first, each value read and mappings merged."""
        external: dict[str, Any] = {}
        typed = {
            name: self._literal(name, value) for name, value in self.variable_config_dict.items()
        }
        for layer in (*self._file_layers, typed):
            for name, value in layer.items():
                external[name] = self._merged(name, external.get(name), self._read(name, value))
        return external

    def _literal(self, name: str, value: Any) -> Any:
        # the table's keys read text by themselves; yaml knows what is text
        return value if self._key(name) is not None else literal(value)

    def _key(self, name: str) -> Key | None:
        """The row of the table that speaks of a key of this model, if there is one."""
        key = KEYS.get(name)
        if key is None or not key.read_by(self.model_class):
            return None
        declared = (
            name in vars(ancestor).get(names, {})
            for ancestor in self.model_class.__mro__
            for names in ("config_defaults", "config_choices")
        )
        # a user's own model may call something of its own by the name of RecBole's models
        return None if key.default is BY_MODEL and any(declared) else key

    def _read(self, name: str, value: Any) -> Any:
        key = self._key(name)
        if key is not None:
            return key.read(value, self.model_class)
        return checks.read_untabled(name, value, self.internal_config_dict.get(name))

    def _merged(self, name: str, old: Any, new: Any) -> Any:
        key = self._key(name)
        if key is not None and isinstance(key.kind, MappingKind):
            return key.kind.merge(old, new)
        return new

    def _settled(self, name: str, value: Any) -> Any:
        key = self._key(name)
        if key is not None and isinstance(key.kind, MappingKind):
            return key.kind.settled(value)
        return value

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
        self._fill_negatives(final)

    def _fill_negatives(self, final: dict[str, Any]) -> None:
        if scores_every_item(final, self.model_class):
            if self.external_config_dict.get("train_neg_sample_args") is None:
                final["train_neg_sample_args"] = None
        elif final["train_neg_sample_args"] is None and is_pairwise(final, self.model_class):
            final["train_neg_sample_args"] = dict(KEYS["train_neg_sample_args"].default)

    def _set_default_parameters(self) -> None:
        self.base_data_path = os.path.abspath(str(self.final_config_dict["data_path"]))
        with _refused_by_recbole():
            super()._set_default_parameters()
        if self.final_config_dict.get("loss_type") in own_losses(self.model_class):
            self.final_config_dict["MODEL_INPUT_TYPE"] = InputType.POINTWISE
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
        with _refused_by_recbole():
            super()._init_device()
        if not asked:  # a later run of this process, or Ray, may want another GPU
            if visible is None:
                del os.environ["CUDA_VISIBLE_DEVICES"]
            else:
                os.environ["CUDA_VISIBLE_DEVICES"] = visible

    def _set_train_neg_sample_args(self) -> None:
        with _refused_by_recbole():
            super()._set_train_neg_sample_args()

    def _set_eval_neg_sample_args(self, phase: Any) -> None:
        with _refused_by_recbole():
            super()._set_eval_neg_sample_args(phase)

    # This package's own ------------------------------------------------------------------------

    def _read_yaml(self, path: Path, what: str) -> dict[str, Any]:
        content = read_yaml(path, what, self.yaml_loader)
        self.loaded_files.append(str(path))
        return content

    def _merge_defaults(self, path: Path) -> None:
        if path.is_file():
            self.internal_config_dict.update(self._read_yaml(path, "properties file"))

    def _check(self) -> None:
        bigger = self.external_config_dict.get("valid_metric_bigger")
        if bigger is not None and bigger != self["valid_metric_bigger"]:
            raise ConfigError(
                f"valid_metric_bigger = {bigger!r} cannot be: for {self['valid_metric']} it is "
                f"{self['valid_metric_bigger']}. It follows from valid_metric; leave it out."
            )
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
    plain = {
        key: _plain(value) for key, value in final_config_dict.items() if key not in DERIVED_KEYS
    }
    negatives = plain.get("train_neg_sample_args")
    if isinstance(negatives, dict) and negatives.get("distribution") == "none":
        plain["train_neg_sample_args"] = None
    return dict(sorted(plain.items()))


def _terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


def _by_value(metrics: Sequence[str]) -> bool:
    """Whether RecBole evaluates a model by the value of its scores (AUC, ...), not by ranking."""
    return any(metric_types.get(metric.lower()) == EvaluatorType.VALUE for metric in metrics)


@contextmanager
def _refused_by_recbole() -> Iterator[None]:
    """RecBole's own errors for a user's value, as this package's."""
    try:
        yield
    except (
        ArithmeticError,
        AssertionError,
        AttributeError,
        LookupError,
        NotImplementedError,
        RuntimeError,
        TypeError,
        ValueError,
    ) as error:
        raise ConfigError(f"RecBole refuses the configuration: {error}") from error


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
