"""The metrics of this package in RecBole: known by name, and seen to by RecBole's own Trainer."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from recbole.evaluator.register import (
    cluster_info,
    metric_information,
    metric_types,
    metrics_dict,
    smaller_metrics,
)
from recbole.trainer import Trainer

from recbole_residual import compat
from recbole_residual.evaluator import last_item, mixing_ratio, recovery_rate
from recbole_residual.evaluator.availability import check_metrics
from recbole_residual.evaluator.collector import ResidualCollector, observing
from recbole_residual.evaluator.evaluator import ResidualEvaluator
from recbole_residual.evaluator.per_user import per_user_table, write_per_user

_ORIGINALS = "_recbole_residual_originals"
_MENDS = "_recbole_residual_mends"
"""How many mends of RecBole's classes there were before the registration."""
_VALIDATES = "_recbole_residual_validates"


def register_metrics() -> None:
    """Make HRLI, HRL2I, MixingRatio and RecoveryRate names that RecBole's Config knows.

    A second call changes nothing.
    """
    for module in (last_item, mixing_ratio, recovery_rate):
        smaller, information, types, classes = cluster_info(module.__name__)
        smaller_metrics.extend(name for name in smaller if name not in smaller_metrics)
        metric_information.update(information)
        metric_types.update(types)
        metrics_dict.update(classes)


def register() -> Registration:
    """Make this package's metrics work in RecBole itself, ``run_recbole`` included.

    - The metrics are known by name (:func:`register_metrics`).
    - RecBole's Trainer, and every Trainer that extends it, refuses a metric that its model cannot
      give when it is made, and collects and observes during ``evaluate`` what the metrics need.
    - The metrics of each validation during training go to TensorBoard, as ``Valid/<key>``.
    - With ``export_per_user: True`` RecBole's own Trainers write the table of an evaluation after
      training beside the checkpoint.
    - RecBole's test evaluation can read the checkpoint on torch >= 2.6, and what else newer
      libraries break in RecBole is mended (:mod:`recbole_residual.compat`).

    A second call changes nothing. :func:`unregister` takes the changes of RecBole's Trainer back,
    and so does the end of a ``with`` block, if they were made at its beginning. This package's own
    Trainers need none of them.

    Returns:
        Registration: for ``with register(): ...``.
    """
    register_metrics()
    mends_before = compat.mend_recbole()
    is_first = not hasattr(Trainer, _ORIGINALS)
    if is_first:
        setattr(Trainer, _MENDS, mends_before)
        changes = {
            "__init__": _with_own_collector(Trainer.__init__),
            "_valid_epoch": _with_tensorboard(Trainer._valid_epoch),
            "evaluate": _with_observation(Trainer.evaluate),
        }
        setattr(
            Trainer, _ORIGINALS, {name: (vars(Trainer)[name], new) for name, new in changes.items()}
        )
        for name, new in changes.items():
            setattr(Trainer, name, new)
    return Registration(is_first)


def unregister() -> None:
    """Give RecBole's Trainer its own methods back; where nothing is registered, do nothing.

    A method that somebody else has replaced since is left to them.
    """
    for name, (original, changed) in getattr(Trainer, _ORIGINALS, {}).items():
        if vars(Trainer)[name] is changed:
            setattr(Trainer, name, original)
    if hasattr(Trainer, _ORIGINALS):
        delattr(Trainer, _ORIGINALS)
        compat.unmend_recbole(getattr(Trainer, _MENDS))
        delattr(Trainer, _MENDS)


class Registration(AbstractContextManager):
    """What :func:`register` returns: as a context manager it ends the registration that it began.

    Args:
        began: whether there was none before.
    """

    def __init__(self, began: bool) -> None:
        self._began = began

    def __exit__(self, *error: object) -> None:
        if self._began:
            unregister()


def _with_own_collector(init: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(init)
    def make(trainer: Any, config: Any, model: Any) -> None:
        check_metrics(config, model)
        init(trainer, config, model)
        trainer.eval_collector = ResidualCollector(config)
        trainer.evaluator = ResidualEvaluator(config)

    return make


def show_validation(trainer: Any, result: Mapping[str, float]) -> None:
    """Write the metrics of a validation to TensorBoard, as ``Valid/<key>``.

    Args:
        trainer: a RecBole Trainer, after an epoch's training.
        result: the metrics by key.
    """
    epoch = max(trainer.train_loss_dict, default=0)
    for key, value in result.items():
        trainer.tensorboard.add_scalar(f"Valid/{key}", value, epoch)


def _with_tensorboard(valid_epoch: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(valid_epoch)
    def validate(trainer: Any, *args: Any, **kwargs: Any) -> Any:
        setattr(trainer, _VALIDATES, True)
        try:
            score, result = valid_epoch(trainer, *args, **kwargs)
        finally:
            setattr(trainer, _VALIDATES, False)
        show_validation(trainer, result)
        return score, result

    return validate


def _with_observation(evaluate: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(evaluate)
    def observed(trainer: Any, eval_data: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(trainer.eval_collector, ResidualCollector):
            return evaluate(trainer, eval_data, *args, **kwargs)
        with observing(trainer):
            result = evaluate(trainer, eval_data, *args, **kwargs)
        if (
            result is not None
            and trainer.config["export_per_user"]
            and not getattr(trainer, _VALIDATES, False)
            and type(trainer).__module__.startswith("recbole.")
        ):
            _write_beside_checkpoint(trainer, eval_data)
        return result

    return observed


def _write_beside_checkpoint(trainer: Any, eval_data: Any) -> None:
    checkpoint = Path(trainer.saved_model_file)
    table = per_user_table(trainer.evaluator, eval_data._dataset)
    path = write_per_user(table, checkpoint.parent, f"{checkpoint.stem}-per_user")
    trainer.logger.info("Values per user: %s", path)
