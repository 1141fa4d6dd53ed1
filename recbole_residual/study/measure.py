"""One cell: train, ask, and keep what came out as a row."""

from __future__ import annotations

import shlex
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from recbole_residual import compat
from recbole_residual.config.probe_names import probes_after_training
from recbole_residual.diagnose.full_run import probe_run, resume, run
from recbole_residual.evaluator import per_user_table, register_metrics
from recbole_residual.files import write_text
from recbole_residual.model import register_model
from recbole_residual.probe.uncertainty import bootstrap_means, percentile_interval
from recbole_residual.report.intervals import share_interval
from recbole_residual.report.record import PROGRAM, RunRecord
from recbole_residual.report.runs import certain_frame
from recbole_residual.run.folder import RunFolder
from recbole_residual.run.session import Session
from recbole_residual.study.plan import Cell
from recbole_residual.study.row import FOLDER, frame_in_row, ranks_in_text, with_ends, write_row
from recbole_residual.trainer.trainer import get_trainer

ERROR_FILE = "error.txt"

_FIGURES = ["hit@10", "ndcg@10", "hrli@1", "hrl2i@1", "recoveryrate@10", "recoverybase@10"]
_RATIOS = [
    f"mixingratio_{stage}{where}"
    for stage in ("attn", "res", "ln", "gate")
    for where in ("", "_last")
]
_COLUMNS = {
    "alpha_sweep": ["alpha", *_FIGURES, *_RATIOS],
    "alpha_selection": [
        "epsilon",
        "alpha",
        "oracle_alpha",
        *(f"{part}_{name}" for part in ("test", "oracle", "unscaled") for name in _FIGURES),
    ],
    "shuffle": ["mode", "n_runs", "ndcg@10_drop", "hit@10_drop", *_FIGURES[:4], *_RATIOS],
    "internals": ["layer", "stage", "position", "mean", "std", "count"],
}
"""What a row keeps of the table of each probe, with intervals."""


@dataclass(frozen=True)
class Job:
    """What all cells of a study share; it travels to the workers.

    Attributes:
        folder: of the study; on a cluster, on a disk that every node sees.
        study: its name.
        where: configuration keys that say where to compute, and where the data is.
        given: configuration keys of the command, for the command of a row.
        threads: of a cell.
        models: classes that the user registered.
    """

    folder: str
    study: str
    where: dict[str, Any] = field(default_factory=dict)
    given: dict[str, Any] = field(default_factory=dict)
    threads: int = 1
    models: tuple[type, ...] = ()

    def run_folder(self, cell: Cell) -> RunFolder:
        """Where a cell trains."""
        return RunFolder(Path(self.folder) / "cells" / cell.key)

    def row_file(self, cell: Cell) -> Path:
        """What is there when the cell is finished."""
        return Path(self.folder) / FOLDER / f"{cell.key}.json"

    def command(self, cell: Cell) -> str:
        """What measures the cell again, in a folder of its own."""
        words = [PROGRAM, "--mode=benchmark", f"--study={self.study}", "--data_path=DIR"]
        words += ["--datasets", cell.dataset, "--models", cell.model, "--seeds", str(cell.seed)]
        words += [f"--{key}={value}" for key, value in self.given.items()]
        return " ".join(map(shlex.quote, words))


def measure(cell: Cell, job: Job) -> str | None:
    """Bring a cell to its row, from where an earlier attempt left it.

    Args:
        cell: what to train.
        job: what all cells share.

    Returns:
        None, or in one line what went wrong; the whole of it is in the cell's folder then.
    """
    compat.silence_known_warnings()
    register_metrics()
    for model_class in job.models:
        register_model(model_class)
    torch.set_num_threads(job.threads)
    folder = job.run_folder(cell)
    (folder.path / ERROR_FILE).unlink(missing_ok=True)
    try:
        _train(cell, job, folder)
        write_row(job.row_file(cell), cell, _content(cell, job, folder))
    except Exception as error:  # told at the end of the study; the other cells go on
        write_text(folder.path / ERROR_FILE, traceback.format_exc())
        return f"{type(error).__name__}: {error}"
    return None


def _train(cell: Cell, job: Job, folder: RunFolder) -> None:
    """Train, test and probe, as ``--model=... --output_dir=...`` does."""
    if folder.resume_file.is_file() or folder.result_file.is_file():
        resume(folder.path, job.where)
        done = RunRecord.read(folder.path).probes
        missing = [name for name in probes_after_training("quick") if name not in done]
        if missing:  # an earlier attempt was interrupted in its probes
            probe_run(folder.path, missing, job.where)
        return
    folder.discard()
    always = {
        "output_dir": str(folder),
        "probe": "quick",
        "report": False,
        "export_per_user": True,
        "show_progress": False,
    }
    run(cell.model, cell.dataset, None, {**job.where, **cell.config, **always})


def _content(cell: Cell, job: Job, folder: RunFolder) -> dict[str, Any]:
    """All of a row but what was trained."""
    record = RunRecord.read(folder.path)
    result, per_user = record.result, record.per_user()
    assert per_user is not None, "the run was told to export them"
    tables = {}
    for probe, columns in _COLUMNS.items():
        frame = certain_frame(record, probe)
        if frame is not None:
            tables[probe] = frame_in_row(frame[with_ends(columns, frame)])
    filtered, filtered_intervals = _without_seen(folder, job.where)
    return {
        "command": job.command(cell),
        "environment": {
            name: text for name, text in result["environment"].items() if name != "platform"
        },
        "seconds": result["seconds"],
        "epochs_trained": result["epochs_trained"],
        "best_valid_score": result["best_valid_score"],
        "sequences": {name: result[f"{name}_sequences"] for name in ("valid", "test")},
        "left_out": result["test_left_out"],
        "dataset_statistics": result["dataset_statistics"],
        "last_position": result["last_position"],
        "valid": record.results_by_split["validation"],
        "test": record.results_by_split["test"],
        "test_intervals": record.intervals["test"],
        "filtered": filtered,
        "filtered_intervals": filtered_intervals,
        "top10": ranks_in_text(per_user["ndcg@10"].to_numpy()),
        "tables": tables,
        "notes": {name: notes for name in tables if (notes := record.notes(name))},
    }


def _without_seen(
    folder: RunFolder, where: Mapping[str, Any]
) -> tuple[dict[str, float], dict[str, tuple[float, float]]]:
    """Accuracy on the test data with the items of the input taken out of the ranking, as the
    accuracy tables of the papers have it, and its intervals."""
    changes = {
        **where,
        "filter_seen": True,
        "metrics": ["Hit", "NDCG", "MRR"],
        "valid_metric": "NDCG@10",
        "export_per_user": True,
        "checkpoint_dir": str(folder),
    }
    with Session.open(folder.checkpoint_file, config_dict=changes) as session:
        config, model = session.config, session.model
        trainer = get_trainer(config["MODEL_TYPE"], type(model))(config, model)
        try:
            trainer.evaluate(session.test_data, load_best_model=False, show_progress=False)
        finally:
            trainer.tensorboard.close()
        values = trainer.evaluator.last_unrounded
        table = per_user_table(trainer.evaluator, session.test_data._dataset)
    low, high = share_interval(values["hit@10"], len(table))
    ends = {"hit@10": (float(low), float(high))}
    lows, highs = percentile_interval(bootstrap_means(table[["ndcg@10"]].to_numpy()))
    ends["ndcg@10"] = (float(lows[0]), float(highs[0]))
    return values, ends
