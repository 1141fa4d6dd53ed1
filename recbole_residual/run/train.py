"""Training and testing one model in the folder of its run, from the start or from where it was
interrupted."""

from __future__ import annotations

import time
from logging import getLogger
from typing import Any

from recbole_residual import processes
from recbole_residual.config.residual_config import ResidualConfig
from recbole_residual.errors import CheckpointError
from recbole_residual.model.base import has_alpha
from recbole_residual.run.evaluation import evaluate_session, has_rows
from recbole_residual.run.folder import RunFolder, reopened_config
from recbole_residual.run.session import Session, build_session
from recbole_residual.trainer.epoch_log import FILE_ONLY
from recbole_residual.trainer.trainer import get_trainer


def start_config(folder: RunFolder, config: ResidualConfig) -> None:
    """Write down what a new run is, before anything is computed."""
    config["checkpoint_dir"] = config["output_dir"] = str(folder)
    if processes.is_first():
        folder.write_config(config.to_plain())


def resume_config(folder: RunFolder, config_dict: dict[str, Any] | None) -> ResidualConfig:
    """The configuration of a run that is to go on.

    Raises:
        ConfigError: if ``config_dict`` would change the numbers.
        CheckpointError: if the run never got as far as training.
    """
    if not folder.resume_file.is_file():
        raise CheckpointError(
            f"{folder} was interrupted before training began: there is nothing to resume. "
            f"Run it again from its configuration: --config_files={folder.config_file}"
        )
    config = reopened_config(folder, config_dict)
    config["checkpoint_dir"] = config["output_dir"] = str(folder)
    return config


def train_and_test(
    config: ResidualConfig, folder: RunFolder, saved: bool, resume: bool
) -> tuple[Session, dict[str, Any]]:
    """Train a model, test it, and write the result into the folder of its run.

    Of several processes every one calls this and has the result; the first one writes.

    Args:
        config: the configuration.
        folder: of the run; the caller logs into it.
        saved: keep checkpoints; without them the weights tested are the last.
        resume: go on from the last whole epoch that the folder holds.

    Returns:
        The session with the weights that were tested, and the result.

    Raises:
        ResidualError: for what makes training impossible. Of a new run nothing is left then.
    """
    started = time.time()
    logger = getLogger()
    logger.info("Run folder: %s", folder)
    for file in config.loaded_files:
        logger.info("Read %s", file)
    logger.info(config, extra=FILE_ONLY)
    session = build_session(config)
    logger.info(session.model, extra=FILE_ONLY)
    trainer = get_trainer(config["MODEL_TYPE"], config.model_class)(config, session.model)
    if resume:
        trainer.resume_checkpoint(str(folder.resume_file))
        trainer.restore_randomness(session.train_data)
    try:
        result = _fit_and_evaluate(session, trainer, folder, saved)
    except KeyboardInterrupt:
        if saved and folder.resume_file.is_file():
            logger.warning("Interrupted. To go on: --resume=%s", folder)
        raise
    finally:
        trainer.tensorboard.close()
    result["run_folder"] = str(folder)
    result["seconds"] = round(time.time() - started, 2)
    if processes.is_first():
        folder.write_result(result)
        folder.resume_file.unlink(missing_ok=True)
    logger.info("best valid: %s", dict(result["best_valid_result"] or {}))
    logger.info("test result: %s", dict(result["test_result"] or {}))
    logger.info("Saved %s", folder.result_file)
    return session, result


def _fit_and_evaluate(
    session: Session, trainer: Any, folder: RunFolder, saved: bool
) -> dict[str, Any]:
    config, model = session.config, session.model
    best_score, best_result = trainer.fit(
        session.train_data,
        session.valid_data if has_rows(session.valid_data) else None,
        saved=saved,
        show_progress=config["show_progress"],
    )
    result: dict[str, Any] = {
        "model": config["model"],
        "dataset": config["dataset"],
        "best_valid_score": best_score if best_result is not None else None,
        "valid_metric": config["valid_metric"],
        "valid_score_bigger": config["valid_metric_bigger"],
        "best_valid_result": best_result,
    }
    if has_alpha(model):
        result["alpha_train"] = model.alpha_train
    if hasattr(model, "learned_alpha_path"):
        result["learned_alpha_path"] = list(model.learned_alpha_path)
    processes.wait_for_all()  # until the first one has written the last checkpoint
    result.update(evaluate_session(session, trainer, folder, load_best_model=saved))
    for key, value in result["test_result"].items():
        trainer.tensorboard.add_scalar(f"Test/{key}", value, len(trainer.train_loss_dict))
    result["train_losses"] = list(trainer.train_loss_dict.values())
    result["epochs_trained"] = len(trainer.train_loss_dict)
    return result
