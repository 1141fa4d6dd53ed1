"""Training at ``alpha_train``, checkpoints that are safe to read, and exact resuming."""

from __future__ import annotations

import errno
import functools
import logging
import math
import os
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Callable

import torch
from recbole.trainer import Trainer
from recbole.utils import get_trainer as get_recbole_trainer

from recbole_residual import processes
from recbole_residual.checkpoint.weights import load_weights, plain_parameters
from recbole_residual.checkpoint.writing import (
    BEST_FILE,
    RESUME_FILE,
    load_checkpoint,
    save_checkpoint,
)
from recbole_residual.compat import tensorboard_under
from recbole_residual.errors import ModelError, NaNScoreError, WriteError
from recbole_residual.model.objective import trains_at_all_positions
from recbole_residual.trainer.data_parallel import DataParallelLoss
from recbole_residual.trainer.epoch_log import FILE_ONLY, EpochLog, Validation
from recbole_residual.trainer.evaluation import EvaluationMixin
from recbole_residual.trainer.half_precision import (
    clipping_unscaled,
    half_precision,
    needs_scaler,
)
from recbole_residual.trainer.optimizer import fused
from recbole_residual.trainer.random_state import random_state, restore_random_state


class ResidualTrainerMixin(EvaluationMixin):
    """Goes before one of RecBole's Trainer classes.

    The run's files are in ``config["checkpoint_dir"]``: ``checkpoint.pth`` holds the weights with
    the best validation score (without validation, the last), ``resume.pth`` everything that
    training needs to go on after the last whole epoch. Both are written atomically.

    Inside :func:`recbole_residual.processes.joined` every process has a Trainer of its own, and
    they take every step together; the first of them alone writes.
    """

    def __init__(self, config: Any, model: Any) -> None:
        folder = os.path.join(config["checkpoint_dir"], "tensorboard")
        with tensorboard_under(folder if processes.is_first() else None):
            super().__init__(config, model)
        self.saved_model_file = os.path.join(config["checkpoint_dir"], BEST_FILE)
        self.resume_file = os.path.join(config["checkpoint_dir"], RESUME_FILE)
        self.stopped_early = False
        if self.enable_amp and needs_scaler(self.device):
            self.enable_scaler = True
        self._saved = self._validates = False
        self._log = EpochLog(self.logger, self.valid_metric, 0, self.epochs)
        self._epoch = -1
        self._validation: tuple[int, float, dict[str, float]] | None = None
        self._said_nan = False
        self._parallel: DataParallelLoss | None = None
        if processes.count() > 1:
            self._parallel = DataParallelLoss(self.model, config["seed"])

    def _build_optimizer(self, **kwargs: Any) -> torch.optim.Optimizer:
        """RecBole's optimizer; with its fused step, unless the numbers are to be RecBole's own."""
        optimizer = super()._build_optimizer(**kwargs)
        return fused(optimizer) if trains_at_all_positions(self.config) else optimizer

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
        """RecBole's ``fit`` at ``alpha_train``; if ``saved``, it can be resumed after any epoch.

        Args:
            train_data: the loader of the training part.
            valid_data: the loader of the validation part. Without one, or with an empty one,
                every epoch is trained and the last weights are kept.
            verbose: log one line an epoch.
            saved: write checkpoints into the run's folder.
            show_progress: show one bar for the whole training.
            callback_fn: called with epoch and score after each validation.

        Returns:
            The best validation score and the result it belongs to. Without validation the score
            is minus infinity (infinity where smaller is better) and the result is None.

        Raises:
            ModelError: if the loss, or a score, becomes NaN; checkpoints of earlier epochs stay.
            WriteError: if a checkpoint cannot be written; those of earlier epochs stay.
        """
        saved = saved and processes.is_first()
        self._train_data, self._saved = train_data, saved
        n_epochs = self.pretrain_epochs if self._pretrains() else self.epochs
        self._validates = bool(valid_data) and self.eval_step > 0 and not self._pretrains()
        if self.stopped_early or (self.start_epoch >= n_epochs and self.start_epoch > 0):
            self.eval_collector.data_collect(train_data)
            return self.best_valid_score, self.best_valid_result
        if saved and self.start_epoch == 0:
            self._save_resume_state(-1)
        self._log = EpochLog(
            self.logger, self.valid_metric, self.start_epoch, n_epochs, len(train_data)
        )
        self._log.open(verbose, show_progress)
        self._say_what_is_unusual()
        after_validation = functools.partial(self._after_validation, callback_fn)
        try:
            with self.training_alpha():
                # Without RecBole's own lines and bars: this class has one of each.
                best = super().fit(train_data, valid_data, False, saved, False, after_validation)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            raise WriteError(self.checkpoint_dir, error) from error
        finally:
            self._log.close()
        if self.cur_step > self.stopping_step:
            self._log.say(
                f"Stopped early: {self.cur_step} validations without a better {self.valid_metric}."
            )
        return best

    def _pretrains(self) -> bool:
        return "pretrain" in (getattr(self.model, "train_stage", None) or "")  # S3Rec, RaCT

    def _validates_after(self, epoch: int) -> bool:
        return self._validates and (epoch + 1) % self.eval_step == 0

    def _say_what_is_unusual(self) -> None:
        if not self._validates:
            self._log.say(
                "There is no validation: no early stopping, the weights of the last epoch are "
                "kept, and best_valid_score and best_valid_result stay empty.",
                logging.WARNING,
            )
        if torch.is_anomaly_enabled():
            self._log.say(
                "torch's anomaly detection is on, which slows training down (importing RecBole's "
                "models before this package turns it on). "
                "torch.autograd.set_detect_anomaly(False) turns it off.",
                logging.WARNING,
            )

    # RecBole's steps, each with this package's part --------------------------------------------

    def _train_epoch(self, train_data: Any, epoch_idx: int, *args: Any, **kwargs: Any) -> Any:
        self._epoch = epoch_idx
        self._log.epoch_begins(epoch_idx)
        clips_scaled = self.enable_scaler and bool(self.clip_grad_norm)
        unscaled = clipping_unscaled(self.optimizer, clips_scaled)
        with half_precision(self.device, self.enable_amp), unscaled:
            if self._parallel is None:
                return super()._train_epoch(train_data, epoch_idx, *args, **kwargs)
            own = self._parallel.rows_of_epoch(train_data, epoch_idx)
            total = super()._train_epoch(own, epoch_idx, self._parallel)
            return self._parallel.of_all(total, train_data)

    def _check_nan(self, loss: torch.Tensor) -> None:
        """Called by RecBole with the loss of every batch."""
        if torch.isnan(loss):
            raise ModelError(self._diverged("the training loss became NaN"))
        self._log.batch_done()

    def _add_train_loss_to_tensorboard(self, epoch_idx: int, *args: Any, **kwargs: Any) -> None:
        """Called by RecBole at the end of every epoch, before its validation."""
        super()._add_train_loss_to_tensorboard(epoch_idx, *args, **kwargs)
        if hasattr(self.model, "epoch_ended"):
            self.model.epoch_ended()
        if self._validates_after(epoch_idx):
            self._log.validation_begins()
            return
        self._log.epoch_ends(epoch_idx, float(self.train_loss_dict[epoch_idx]))
        if self._pretrains() and self._saved:
            self._save_checkpoint(epoch_idx)
        elif self._validates and self._saved:
            self._save_resume_state(epoch_idx)
        # else RecBole calls _save_checkpoint, which saves both

    def _valid_epoch(self, *args: Any, **kwargs: Any) -> Any:
        try:
            score, result = super()._valid_epoch(*args, **kwargs)
        except NaNScoreError as error:
            raise ModelError(self._diverged("the model's scores became NaN")) from error
        self._validation = (self._epoch, float(score), dict(result))
        return score, result

    def _after_validation(
        self, callback_fn: Callable[[int, float], None] | None, epoch: int, score: float
    ) -> None:
        if math.isnan(score):
            self._score_is_nan(epoch)
        if self._saved:
            self._save_resume_state(epoch)
        has_best = math.isfinite(self.best_valid_score)
        validation = Validation(
            float(score),
            self._validation[2] if self._validation else {},
            float(self.best_valid_score) if has_best else None,
            epoch - self.cur_step * self.eval_step if has_best else None,
        )
        self._log.epoch_ends(epoch, float(self.train_loss_dict[epoch]), validation)
        if callback_fn:
            callback_fn(epoch, score)

    def _score_is_nan(self, epoch: int) -> None:
        if not self._said_nan:
            self._said_nan = True
            self._log.say(
                f"valid_metric {self.valid_metric} is NaN in epoch {epoch}: it has nothing to be "
                "computed from, and tells no epoch from another. Until it is a number the last "
                f"weights are kept; after {self.stopping_step + 1} validations without a better "
                "one training stops. Choose another valid_metric.",
                logging.WARNING,
            )
        if not math.isfinite(self.best_valid_score) and self._saved:
            self._save_checkpoint(epoch)

    def _diverged(self, what: str) -> str:
        saved = self._saved and os.path.isfile(self.saved_model_file)
        kept = f" {self.saved_model_file} keeps the weights of before." if saved else ""
        return (
            f"{what} in epoch {self._epoch}: training has diverged, and resuming it would diverge "
            f"again. Lower learning_rate (it is {self.learning_rate}), or clip the gradients "
            f"(clip_grad_norm: {{'max_norm': 5}}).{kept}"
        )

    # Checkpoints -------------------------------------------------------------------------------

    def _save_checkpoint(self, epoch: int, verbose: bool = True, **kwargs: Any) -> None:
        if self._validation is not None and self._validation[0] == epoch:
            self.best_valid_result = self._validation[2]  # RecBole sets it after this call
        path = kwargs.pop("saved_model_file", self.saved_model_file)
        save_checkpoint(path, {"epoch": epoch, **self._weights()})
        if not self._validates_after(epoch):
            self._save_resume_state(epoch)
        self.logger.info("Saved %s", path, extra=FILE_ONLY)

    def save_pretrained_model(self, epoch: int, saved_model_file: str) -> None:
        """S3Rec's weights after pre-training, for its key ``pre_model_path``."""
        save_checkpoint(saved_model_file, {"epoch": epoch, **self._weights()})
        self.logger.info("Saved %s", saved_model_file)

    def _weights(self) -> dict[str, Any]:
        return {
            "config": self.config.to_plain(),
            "best_valid_score": float(self.best_valid_score),
            "best_valid_result": self.best_valid_result,
            "state_dict": dict(self.model.state_dict()),
            "other_parameter": plain_parameters(self.model.other_parameter()),
        }

    def load_weights(self, path: str | None = None) -> None:
        """Load the weights of a checkpoint, by default those with the best validation score."""
        path = path or self.saved_model_file
        load_weights(self.model, load_checkpoint(path, self.device), path)

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
                "random": random_state(),
            },
        )

    def resume_checkpoint(self, resume_file: str) -> None:
        """Go back to the end of the last whole epoch that ``resume_file`` holds.

        Call it before :meth:`fit` and hand the same training data to both
        :meth:`restore_randomness` and :meth:`fit`; the numbers are then those of an
        uninterrupted run.
        """
        state = load_checkpoint(resume_file, self.device)
        load_weights(self.model, state, resume_file)
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
        restore_random_state(self._resumed["random"])


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
