"""Training at ``alpha_train``, checkpoints that are safe to read, and exact resuming."""

from __future__ import annotations

import functools
import os
import random
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Callable

import numpy as np
import torch
from recbole.trainer import Trainer
from recbole.utils import get_trainer as get_recbole_trainer

from recbole_residual.checkpoint.writing import (
    BEST_FILE,
    RESUME_FILE,
    load_checkpoint,
    save_checkpoint,
)
from recbole_residual.compat import tensorboard_under
from recbole_residual.evaluator import register

if TYPE_CHECKING:
    from recbole.trainer import Trainer as _Parent
else:
    _Parent = object


class ResidualTrainerMixin(_Parent):
    """Goes before one of RecBole's Trainer classes.

    The run's files are in ``config["checkpoint_dir"]``: ``checkpoint.pth`` holds the weights with
    the best validation score, ``resume.pth`` everything that training needs to go on after the
    last whole epoch. Both are written atomically.
    """

    def __init__(self, config: Any, model: Any) -> None:
        register()  # the metrics are collected by what it puts into RecBole's Trainer
        with tensorboard_under(os.path.join(config["checkpoint_dir"], "tensorboard")):
            super().__init__(config, model)
        self.saved_model_file = os.path.join(config["checkpoint_dir"], BEST_FILE)
        self.resume_file = os.path.join(config["checkpoint_dir"], RESUME_FILE)
        self.stopped_early = False

    # Training ----------------------------------------------------------------------------------

    def training_alpha(self) -> AbstractContextManager:
        """The context in which training and early stopping happen: ``alpha_train`` in force."""
        if hasattr(self.model, "as_trained"):
            return self.model.as_trained()
        return nullcontext()

    def fit(
        self,
        train_data: Any,
        valid_data: Any = None,
        verbose: bool = True,
        saved: bool = True,
        show_progress: bool = False,
        callback_fn: Callable[[int, float], None] | None = None,
    ) -> tuple[float, dict[str, float] | None]:
        """RecBole's ``fit`` at ``alpha_train``; if ``saved``, it can be resumed after any epoch."""
        self._train_data = train_data
        if self.stopped_early or (self.start_epoch >= self.epochs and self.start_epoch > 0):
            self.eval_collector.data_collect(train_data)
            return self.best_valid_score, self.best_valid_result
        if saved and self.start_epoch == 0:
            self._save_resume_state(-1)

        def after_validation(epoch: int, score: float) -> None:
            if saved:
                self._save_resume_state(epoch)
            if callback_fn:
                callback_fn(epoch, score)

        with self.training_alpha():
            return super().fit(
                train_data, valid_data, verbose, saved, show_progress, after_validation
            )

    def _save_checkpoint(self, epoch: int, verbose: bool = True, **kwargs: Any) -> None:
        path = kwargs.pop("saved_model_file", self.saved_model_file)
        save_checkpoint(path, {"epoch": epoch, **self._weights()})
        if self.best_valid_result is None and self.eval_step <= 0:
            self._save_resume_state(epoch)  # no validation, so nothing else calls for it
        if verbose:
            self.logger.info("Saving current best: %s", path)

    def _weights(self) -> dict[str, Any]:
        return {
            "config": self.config.to_plain(),
            "best_valid_score": float(self.best_valid_score),
            "best_valid_result": self.best_valid_result,
            "state_dict": dict(self.model.state_dict()),
            "other_parameter": {
                name: value
                for name, value in self.model.other_parameter().items()
                if not isinstance(value, torch.nn.Module)  # SASRecF: in state_dict already
            },
        }

    # Evaluation --------------------------------------------------------------------------------

    def load_weights(self, path: str | None = None) -> None:
        """Load the weights of a checkpoint, by default those with the best validation score."""
        checkpoint = load_checkpoint(path or self.saved_model_file, self.device)
        self.model.load_state_dict(checkpoint["state_dict"])
        self.model.load_other_parameter(checkpoint["other_parameter"])

    @torch.no_grad()
    def evaluate(
        self,
        eval_data: Any,
        load_best_model: bool = True,
        model_file: str | None = None,
        show_progress: bool = False,
    ) -> Any:
        """RecBole's ``evaluate``, from checkpoints of this package."""
        if load_best_model and eval_data:
            self.load_weights(model_file)
        return super().evaluate(eval_data, load_best_model=False, show_progress=show_progress)

    # Resuming ----------------------------------------------------------------------------------

    def _save_resume_state(self, epoch: int) -> None:
        generator = getattr(self._train_data, "generator", None)
        save_checkpoint(
            self.resume_file,
            {
                "epoch": epoch,
                **self._weights(),
                "optimizer": self.optimizer.state_dict(),
                "cur_step": self.cur_step,
                "train_losses": {int(k): float(v) for k, v in self.train_loss_dict.items()},
                "generator": None if generator is None else generator.get_state(),
                "random": _random_state(),
            },
        )

    def resume_checkpoint(self, resume_file: str) -> None:
        """Go back to the end of the last whole epoch that ``resume_file`` holds.

        Call it before :meth:`fit` and hand the same training data to both
        :meth:`restore_randomness` and :meth:`fit`; the numbers are then those of an
        uninterrupted run.
        """
        state = load_checkpoint(resume_file, self.device)
        self.model.load_state_dict(state["state_dict"])
        self.model.load_other_parameter(state["other_parameter"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.start_epoch = state["epoch"] + 1
        self.cur_step = state["cur_step"]
        self.best_valid_score = state["best_valid_score"]
        self.best_valid_result = state["best_valid_result"]
        self.train_loss_dict = dict(state["train_losses"])
        self.stopped_early = self.cur_step > self.stopping_step
        self._resumed = state
        self.logger.info("Resuming after epoch %d from %s", state["epoch"], resume_file)

    def restore_randomness(self, train_data: Any) -> None:
        """Put every random generator where it was at the end of the epoch resumed from."""
        generator = getattr(train_data, "generator", None)
        if generator is not None and self._resumed["generator"] is not None:
            generator.set_state(self._resumed["generator"].cpu())
        _restore_random_state(self._resumed["random"])


class ResidualTrainer(ResidualTrainerMixin, Trainer):
    """RecBole's Trainer with this package's additions."""


@functools.cache
def _combined(recbole_class: type) -> type:
    if recbole_class is Trainer:
        return ResidualTrainer
    return type(f"Residual{recbole_class.__name__}", (ResidualTrainerMixin, recbole_class), {})


def get_trainer(model_type: Any, model_class: type) -> type:
    """The Trainer for a model: RecBole's choice for it or its nearest parent, with the additions.

    RecBole goes by the exact name of the model, which a subclass does not have.

    Args:
        model_type: RecBole's ModelType.
        model_class: class of the model.
    """
    general = get_recbole_trainer(model_type, "_no_model_has_this_name_")
    for ancestor in model_class.__mro__:
        chosen = get_recbole_trainer(model_type, ancestor.__name__)
        if chosen is not general:
            return _combined(chosen)
    return _combined(general)


def _random_state() -> dict[str, Any]:
    version, internal, gauss = random.getstate()
    name, keys, position, has_gauss, cached = np.random.get_state()  # noqa: NPY002, RecBole draws from it
    return {
        "python": [version, list(internal), gauss],
        "numpy": [
            name,
            torch.from_numpy(np.asarray(keys, dtype=np.int64)),
            position,
            has_gauss,
            cached,
        ],
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }


def _restore_random_state(state: dict[str, Any]) -> None:
    version, internal, gauss = state["python"]
    random.setstate((version, tuple(internal), gauss))
    name, keys, position, has_gauss, cached = state["numpy"]
    np.random.set_state(  # noqa: NPY002
        (name, keys.cpu().numpy().astype(np.uint32), position, has_gauss, cached)
    )
    torch.set_rng_state(state["torch"].cpu())
    if state["cuda"]:
        torch.cuda.set_rng_state_all([part.cpu() for part in state["cuda"]])
