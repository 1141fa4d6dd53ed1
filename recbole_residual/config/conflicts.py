"""Keys that are right one by one and do not go together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from recbole.utils import InputType, ModelType

from recbole_residual.config.hints import did_you_mean
from recbole_residual.config.several import check_several, n_processes, processes_here
from recbole_residual.errors import ConfigError

_FILES = ("inter", "user", "item", "kg", "link", "net", "user_id", "item_id")


def check_conflicts(config: Mapping[str, Any], model_class: type, given: Mapping[str, Any]) -> None:
    """Refuse keys that contradict each other.

    Args:
        config: the merged configuration.
        model_class: the model.
        given: what the user gave of it.

    Raises:
        ConfigError: for the first contradiction.
    """
    checks: tuple[Callable[..., None], ...] = (
        _check_alpha,
        _check_heads,
        _check_loss,
        _check_negatives,
        _check_privileged,
        _check_split,
        _check_seen,
        _check_columns,
        _check_features,
        _check_dynamic,
        _check_processes,
    )
    for check in checks:
        check(config, model_class, given)


def scores_every_item(config: Mapping[str, Any], model_class: type) -> bool:
    """Whether no loader draws negatives: the loss scores every item, or those that the model
    itself draws."""
    return (
        config["MODEL_TYPE"] == ModelType.SEQUENTIAL
        and not hasattr(model_class, "input_type")
        and config.get("loss_type") in ("CE", *own_losses(model_class))
    )


def own_losses(model_class: type) -> tuple[str, ...]:
    """Losses of a model of this package that RecBole does not have; the model draws its own
    negatives."""
    return tuple(getattr(model_class, "own_losses", ()))


def is_pairwise(config: Mapping[str, Any], model_class: type) -> bool:
    """Whether the loss compares each target with negatives."""
    input_type = getattr(model_class, "input_type", None)
    if input_type is None:
        return config.get("loss_type") == "BPR"
    return input_type == InputType.PAIRWISE


def _check_alpha(config: Mapping[str, Any], model_class: type, given: Mapping[str, Any]) -> None:
    """One factor per layer, where the number of layers is known: SASRec and BERT4Rec have
    ``n_layers`` attention blocks, GRU4RecResidual one skip."""
    ancestors = {ancestor.__name__ for ancestor in model_class.__mro__}
    if "ResidualMixin" not in ancestors:
        return
    n_layers = 1 if "GRU4RecResidual" in ancestors else config.get("n_layers")
    if n_layers is None or not ancestors & {"GRU4RecResidual", "SASRec", "BERT4Rec"}:
        return
    for name in ("alpha", "alpha_train"):
        alpha = config.get(name)
        if isinstance(alpha, (list, tuple)) and len(alpha) != n_layers:
            layers = "1 layer" if n_layers == 1 else f"{n_layers} layers"
            several = f", or a list of {n_layers}" if n_layers > 1 else ""
            raise ConfigError(
                f"{name} = {alpha!r} has {len(alpha)} entries, but the model has {layers}: give "
                f"one number{several}."
            )


def _check_heads(config: Mapping[str, Any], model_class: type, given: Mapping[str, Any]) -> None:
    for size, heads in (("hidden_size", "n_heads"), ("attention_size", "num_heads")):
        if not (isinstance(config.get(size), int) and isinstance(config.get(heads), int)):
            continue
        if config[size] % config[heads]:
            raise ConfigError(
                f"{size} = {config[size]} cannot be shared by {heads} = {config[heads]}: it must "
                f"be a multiple of it, such as {_multiple(config[size], config[heads])}."
            )
        if config.get("position") == "rotary" and config[size] // config[heads] % 2:
            raise ConfigError(
                f"position = 'rotary' turns pairs of numbers: {size} / {heads} must be even, and "
                f"it is {config[size] // config[heads]}."
            )


def _multiple(size: int, heads: int) -> int:
    return heads * max(1, round(size / heads))


def _check_loss(config: Mapping[str, Any], model_class: type, given: Mapping[str, Any]) -> None:
    loss = config.get("loss_type")
    losses = ["CE", "BPR", *own_losses(model_class)]
    if loss not in (None, *losses) and not hasattr(model_class, "input_type"):
        raise ConfigError(
            f"loss_type = {loss!r} is not usable for {model_class.__name__}: one of {losses}."
        )
    if loss == "gBCE" and config.get("negative_sampling") == "in_batch":
        raise ConfigError(
            "loss_type = 'gBCE' is defined for uniform negatives: set negative_sampling: uniform, "
            "or loss_type: SSM."
        )


def _check_negatives(
    config: Mapping[str, Any], model_class: type, given: Mapping[str, Any]
) -> None:
    negatives = given.get("train_neg_sample_args")
    if negatives is not None and scores_every_item(config, model_class):
        raise ConfigError(
            f"train_neg_sample_args = {negatives!r} has no use with loss_type = "
            f"{config['loss_type']!r}, which scores every item or draws its own (num_negatives): "
            "leave it out, or set loss_type: BPR."
        )


def _check_privileged(
    config: Mapping[str, Any], model_class: type, given: Mapping[str, Any]
) -> None:
    names = {ancestor.__name__ for ancestor in model_class.__mro__}
    if "SASRecPSD" not in names or not config.get("psd_weight"):
        return
    if config["loss_positions"] == "last":
        raise ConfigError(
            "psd_weight above 0 needs the interactions after the target, which RecBole's samples "
            "do not hold: set loss_positions: all, or psd_weight: 0."
        )
    if config.get("position") == "rotary":
        raise ConfigError(
            "psd_weight above 0 needs positions that are added to the items: set position: "
            "learned or none, or psd_weight: 0."
        )


def _check_split(config: Mapping[str, Any], model_class: type, given: Mapping[str, Any]) -> None:
    arguments = config["eval_args"]
    split = arguments.get("split") or {}
    if "GT" not in split:
        return
    if arguments.get("order") != "TO":
        raise ConfigError(
            f"eval_args: order = {arguments.get('order')!r} does not go with the global temporal "
            "split (GT): set eval_args: {order: TO}."
        )
    if config["MODEL_TYPE"] != ModelType.SEQUENTIAL:
        raise ConfigError(
            f"eval_args: split = {split!r} is for sequential models, and {model_class.__name__} is "
            "none: take another split, such as {LS: valid_and_test}."
        )


def evaluation_modes(config: Mapping[str, Any]) -> set[str]:
    """What validation and test rank."""
    mode = config["eval_args"].get("mode", "full")
    return {mode} if isinstance(mode, str) else set(mode.values())


def _check_seen(config: Mapping[str, Any], model_class: type, given: Mapping[str, Any]) -> None:
    others = sorted(evaluation_modes(config) - {"full"})
    if config["filter_seen"] and others:
        raise ConfigError(
            f"filter_seen = True needs full ranking, but eval_args: mode is {others[0]!r}: set "
            "eval_args: {mode: full}, or filter_seen: False."
        )


def _check_columns(config: Mapping[str, Any], model_class: type, given: Mapping[str, Any]) -> None:
    suffixes = config.get("additional_feat_suffix") or ()
    known = {*_FILES, *([suffixes] if isinstance(suffixes, str) else suffixes)}
    for key in ("load_col", "unload_col", "unused_col"):
        for name in config.get(key) or ():
            if name not in known:
                blank = " Is a blank missing behind a colon?" if ":" in name else ""
                raise ConfigError(
                    f"{key}: there is no file {name!r}{did_you_mean(name, known)} There are: "
                    f"{', '.join(sorted(known))}; more with additional_feat_suffix.{blank}"
                )
    both = set(config.get("load_col") or ()) & set(config.get("unload_col") or ())
    for name in sorted(both):
        if config["load_col"][name] != "*" and config["unload_col"][name]:
            raise ConfigError(
                f"unload_col and load_col both speak of {name!r}: set load_col: ~ to load "
                "everything but unload_col."
            )


def _check_features(config: Mapping[str, Any], model_class: type, given: Mapping[str, Any]) -> None:
    if config.get("normalize_field") and config.get("normalize_all"):
        raise ConfigError(
            "normalize_field names columns and normalize_all is True: set normalize_all: False."
        )
    for name in config.get("discretization") or ():
        if name not in (config.get("numerical_features") or ()):
            raise ConfigError(
                f"discretization: {name!r} must be one of numerical_features, and they are "
                f"{config.get('numerical_features')}."
            )
    threshold = config.get("threshold")
    if threshold is not None and len(threshold) != 1:
        raise ConfigError(
            f"threshold = {threshold!r} is not usable: one column, such as {{rating: 4}}."
        )


def _check_dynamic(config: Mapping[str, Any], model_class: type, given: Mapping[str, Any]) -> None:
    negatives = config.get("train_neg_sample_args")
    everywhere = config["loss_positions"] == "all" and getattr(
        model_class, "can_train_at_all_positions", False
    )
    if everywhere and is_pairwise(config, model_class) and (negatives or {}).get("dynamic"):
        raise ConfigError(
            "train_neg_sample_args: dynamic = True cannot be used with loss_positions: all; set "
            "dynamic: False, or loss_positions: last."
        )


def _check_processes(
    config: Mapping[str, Any], model_class: type, given: Mapping[str, Any]
) -> None:
    if max(n_processes(config), processes_here(config)) > 1:
        check_several(config, model_class)
