"""The probes of one run, by name: all of them on a finished run, or a quick one after training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from logging import getLogger
from pathlib import Path
from typing import Any, Callable

from recbole_residual.config.probe_names import PROBES, probe_names
from recbole_residual.errors import (
    HistoryMaskedError,
    NoPositionError,
    ProbeDataError,
    ProbeUnavailableError,
)
from recbole_residual.files import PROBE_FOLDER
from recbole_residual.probe.alpha_selection import AlphaSelection, choose_alpha
from recbole_residual.probe.alpha_sweep import DEFAULT_TOPK, sweep_alpha
from recbole_residual.probe.arguments import several
from recbole_residual.probe.by_position import positions
from recbole_residual.probe.engine.setting import ScalableResiduals
from recbole_residual.probe.faithfulness_check import faithfulness
from recbole_residual.probe.inside_model import internals
from recbole_residual.probe.reliance_table import reliance
from recbole_residual.probe.result import ProbeResult
from recbole_residual.probe.shuffles import shuffle
from recbole_residual.probe.weight_influence import influence

_LARGEST_GRID = 1000


UNAVAILABLE = (ProbeUnavailableError, ProbeDataError, HistoryMaskedError, NoPositionError)
"""Why a probe is left out: the model or its data cannot answer it."""


@dataclass(frozen=True)
class _Asked:
    """What a probe works on."""

    model: Any
    valid_data: Any
    test_data: Any
    topk: tuple[int, ...]
    k: int
    show_progress: bool
    answered: dict[str, ProbeResult] = field(default_factory=dict)

    @property
    def scalable(self) -> ScalableResiduals:
        return ScalableResiduals.of(self.model)


def _sweep(asked: _Asked, **options: Any) -> ProbeResult:
    return sweep_alpha(
        asked.model,
        asked.test_data,
        topk=asked.topk,
        show_progress=asked.show_progress,
        **options,
    )


def _alpha_sweep(asked: _Asked) -> ProbeResult:
    chosen = asked.answered.get("alpha_selection")
    if isinstance(chosen, AlphaSelection) and chosen.test_sweep is not None:
        return chosen.test_sweep  # the same sweep of the same data
    return _sweep(asked)


def _layer_grid(asked: _Asked) -> ProbeResult:
    n_alpha = asked.scalable.n_alpha
    if n_alpha < 2:
        raise ProbeUnavailableError("there is one alpha or none, and nothing to combine.")
    if 11**n_alpha > _LARGEST_GRID:
        raise ProbeUnavailableError(
            f"{n_alpha} layers have {11**n_alpha} combinations; call sweep_alpha(..., "
            "per_layer=True) with a coarser grid."
        )
    return _sweep(asked, per_layer=True)


def _feed_forward_sweep(asked: _Asked) -> ProbeResult:
    if not asked.scalable.n_feed_forward:
        raise ProbeUnavailableError("the model has no feed-forward block of RecBole's.")
    return _sweep(asked, residual="feed_forward")


def _alpha_selection(asked: _Asked) -> ProbeResult:
    return choose_alpha(
        asked.model,
        asked.valid_data,
        asked.test_data,
        k=asked.k,
        topk=asked.topk,
        show_progress=asked.show_progress,
    )


def _shuffle(asked: _Asked) -> ProbeResult:
    return shuffle(
        asked.model,
        asked.test_data,
        k=asked.k,
        topk=asked.topk,
        show_progress=asked.show_progress,
    )


def _positions(asked: _Asked) -> ProbeResult:
    return positions(
        asked.model, asked.test_data, topk=asked.topk, show_progress=asked.show_progress
    )


def _faithfulness(asked: _Asked) -> ProbeResult:
    alphas = {asked.scalable.neutral_alpha}
    chosen = asked.answered.get("alpha_selection")
    choice = chosen.choice if isinstance(chosen, AlphaSelection) else None
    if choice is not None and isinstance(choice.alpha, float):
        alphas.add(choice.alpha)
    return faithfulness(
        asked.model,
        asked.test_data,
        k=asked.k,
        alphas=sorted(alphas, reverse=True),
        show_progress=asked.show_progress,
    )


def _influence(asked: _Asked) -> ProbeResult:
    return influence(asked.model, asked.test_data, k=asked.k, show_progress=asked.show_progress)


def _reliance(asked: _Asked) -> ProbeResult:
    return reliance(asked.model, asked.test_data, k=asked.k, show_progress=asked.show_progress)


def _internals(asked: _Asked) -> ProbeResult:
    return internals(asked.model, asked.test_data, show_progress=asked.show_progress)


_RUN: dict[str, Callable[[_Asked], ProbeResult]] = {
    "alpha_sweep": _alpha_sweep,
    "layer_grid": _layer_grid,
    "feed_forward_sweep": _feed_forward_sweep,
    "alpha_selection": _alpha_selection,
    "shuffle": _shuffle,
    "positions": _positions,
    "faithfulness": _faithfulness,
    "influence": _influence,
    "reliance": _reliance,
    "internals": _internals,
}


def run_probes(
    model: Any,
    valid_data: Any,
    test_data: Any,
    folder: Path,
    names: Sequence[str] = tuple(PROBES),
    topk: Sequence[int] = DEFAULT_TOPK,
    show_progress: bool = False,
) -> dict[str, ProbeResult]:
    """Run probes and save each result as soon as it is there.

    Args:
        model: a trained RecBole sequential model.
        valid_data: a RecBole loader for full ranking.
        test_data: another one.
        folder: the folder of the run; results go into its folder ``probe``.
        names: which probes, out of :data:`~recbole_residual.config.probe_names.PROBES`.
        topk: the values of k, to which 1 and 10 are added.
        show_progress: show progress bars.

    Returns:
        The results by name; a probe that the model, or its data, cannot answer is left out, with a
        warning that says why.

    Raises:
        UnknownProbeError: for a name that is none.
    """
    names = several("names", names, "names of probes")
    logger = getLogger()
    k = min(10, model.n_items - 1)
    ks = tuple(sorted({1, k, *topk}))
    asked = _Asked(model, valid_data, test_data, ks, k, show_progress)
    results = asked.answered
    for name in probe_names(names):
        try:
            result = _RUN[name](asked)
        except UNAVAILABLE as error:
            logger.warning("Probe %s is left out: %s", name, error)
            continue
        results[name] = result
        for path in result.save(folder / PROBE_FOLDER):
            logger.info("Saved %s", path)
        for note in result.notes:
            logger.info("Note on %s: %s", name, note)
    return results
