"""All figures of a model under many settings, in one pass over the data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Callable

import torch

from recbole_residual.evaluator.states import is_plain_sasrec
from recbole_residual.model.architecture.precision import refuse_half_precision
from recbole_residual.probe.engine.one_by_one import evaluate_one_by_one
from recbole_residual.probe.engine.outcome import Evaluation
from recbole_residual.probe.engine.rows import Rows, iterate_rows
from recbole_residual.probe.engine.sasrec_pass import SasrecPass
from recbole_residual.probe.engine.setting import Setting

Perturbation = Callable[[Rows], Rows]
"""Changes sequences before the model sees them."""


@torch.no_grad()
def evaluate_settings(
    model: Any,
    data: Any,
    settings: Sequence[Setting],
    topk: Sequence[int],
    *,
    perturbation: Perturbation | None = None,
    title: str = "Probe",
    show_progress: bool = False,
) -> Evaluation:
    """Evaluate a model under many settings.

    A SASRec (RecBole's or this package's) goes through
    :class:`~recbole_residual.probe.engine.sasrec_pass.SasrecPass`; every other model evaluates each
    setting with a forward of its own. Both give the same numbers.

    Args:
        model: a RecBole sequential model.
        data: a RecBole loader for full ranking.
        settings: different settings.
        topk: the values of k.
        perturbation: changes the sequences first.
        title: of the progress bar.
        show_progress: whether there is one.

    Raises:
        ProbeDataError: if the data cannot be probed.
        HistoryMaskedError: if items of the input are taken out of the ranking.
        NaNScoreError: if a score is NaN.
    """
    rows: Iterator[Rows] = iterate_rows(data, title, show_progress)
    if perturbation is not None:
        rows = map(perturbation, rows)
    with in_eval_mode(model):
        if is_plain_sasrec(model):
            return SasrecPass(model, settings, topk).run(rows)
        return evaluate_one_by_one(model, settings, topk, rows)


@contextmanager
def in_eval_mode(model: Any) -> Iterator[None]:
    """Inside, dropout is off."""
    refuse_half_precision(model)
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)
