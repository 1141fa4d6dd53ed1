"""Do attributions say what interventions show? Items are taken out one by one, and beside it stands
what each attribution says of them.

References:
    Jain & Wallace "Attention is not Explanation", NAACL 2019 (rank correlation with leave-one-out);
    Petsiuk et al. "RISE", BMVC 2018 (deletion and insertion curves); Kozaki et al. "Residual
    Dominance as a Structural Account of Last-Item Reliance in Causal Self-Attention Recommenders",
    2026 (how much stands on the last item).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pandas as pd

from recbole_residual.errors import ProbeError
from recbole_residual.probe.arguments import check_factors, check_k, several, whole_number
from recbole_residual.probe.engine.ablation_run import AblationRun, Sequences, sample_sequences
from recbole_residual.probe.engine.evaluation import in_eval_mode
from recbole_residual.probe.engine.setting import (
    ScalableResiduals,
    Setting,
    applied,
    current_setting,
    factors_in_text,
)
from recbole_residual.probe.engine.variant_scores import can_hide_keys
from recbole_residual.probe.engine.variants import ABLATIONS
from recbole_residual.probe.faithfulness_tables import agreement, curves, reliance_curve
from recbole_residual.probe.result import ProbeResult
from recbole_residual.probe.source import model_and_data
from recbole_residual.run.session import Source

EXPLAINED = ("top", "target", "last")
"""Whose score can be explained: the item recommended first, the target, the last input item."""


@dataclass(frozen=True)
class FaithfulnessOptions:
    """What :func:`faithfulness` can be told.

    Attributes:
        n_recent: how many of the latest items are taken out, each alone.
        ablations: how: ``delete`` (the rest moves up), ``mask`` (its key is hidden from every
            query), ``replace`` (another item of the catalogue).
        explained: whose score the attributions explain, one of :data:`EXPLAINED`.
        alphas: residual factors under which the reliance curve is drawn too.
        k: the cut-off of NDCG.
        n_sequences: most sequences looked at, drawn from the data; None for all.
        seed: of that draw, of the items that replace others, and of the random order.
    """

    n_recent: int = 10
    ablations: Sequence[str] = ABLATIONS
    explained: str = "top"
    alphas: Sequence[float] = ()
    k: int = 10
    n_sequences: int | None = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        whole_number("n_recent", self.n_recent, 3)
        whole_number("seed", self.seed, 0)
        check_k(self.k)
        if self.n_sequences is not None:
            whole_number("n_sequences", self.n_sequences, 1)
        for name in several("ablations", self.ablations, "ablations") or [None]:
            if name not in ABLATIONS:
                raise ProbeError(f"ablation {name!r} is unknown: one of {', '.join(ABLATIONS)}.")
        if self.explained not in EXPLAINED:
            raise ProbeError(
                f"explained = {self.explained!r} is not usable: one of {list(EXPLAINED)}."
            )
        if several("alphas", self.alphas, "numbers"):
            check_factors("alphas", self.alphas)


@dataclass(frozen=True, repr=False)
class Faithfulness(ProbeResult):
    """One row per attribution, and two orders that know nothing of the model beside them.

    Columns: ``attribution`` (``recency`` puts the last item first, ``random`` any);
    ``correlation_ABLATION``, the mean over sequences of the rank correlation between what the
    attribution says of the latest items and how far the explained score falls without each;
    ``n_sequences_ABLATION`` that have one; ``deletion_area`` and ``insertion_area`` under the
    curves below; each with the ends ``..._low`` and ``..._high`` of its 95 % interval, a bootstrap
    over sequences.

    Attributes:
        curves: the explained score as items are replaced (``deletion``: by how much it has fallen)
            or put back (``insertion``: by how much it has risen), in the order of each attribution;
            in standard deviations of the sequence's scores over the catalogue. Columns
            ``attribution``, ``n_items``, ``deletion``, ``insertion``, with intervals. The further
            up both are, the better the order.
        reliance: what the item at L - o is worth, o = 0, 1, 2, ...: columns ``alpha``,
            ``ablation``, ``from_end``, ``n_sequences``, ``ndcg@k`` before, ``ndcg@k_fall`` and
            ``log_probability_fall`` (of the target) with intervals, ``score_fall_ITEM`` in standard
            deviations and ``rank_change_ITEM`` for target, last and top.
    """

    name: ClassVar[str] = "faithfulness"

    curves: pd.DataFrame = field(default_factory=pd.DataFrame)
    reliance: pd.DataFrame = field(default_factory=pd.DataFrame)

    def tables(self) -> dict[str, pd.DataFrame]:
        """Agreement, curves and the reliance curve."""
        return {
            self.name: self.frame,
            f"{self.name}_curves": self.curves,
            f"{self.name}_reliance": self.reliance,
        }

    def short_frame(self) -> pd.DataFrame:
        """Means without the ends of their intervals."""
        hidden = ("_low", "_high")
        return self.frame[[name for name in self.columns if not name.endswith(hidden)]]


def faithfulness(
    source: Source, data: Any = None, *, show_progress: bool = False, **options: Any
) -> Faithfulness:
    """Take the latest items out one by one, and compare with what attributions say of them.

    For every sequence, every ablation and each of its latest items: the score, the rank and the
    log-probability of the target, and scores and ranks of the last item and of the item recommended
    first. What comes before the latest items is computed once for a SASRec, whose cost for an
    altered sequence is that of its latest positions; any other model runs each as a sequence of its
    own. ``about["n_forwards"]`` says how many forwards a sequence takes.

    Args:
        source: a RecBole sequential model with ``data`` beside it; or a session, the folder of a
            run, or a checkpoint.
        data: a RecBole loader for full ranking; by default the session's ``test_data``.
        show_progress: show a progress bar.
        options: fields of :class:`FaithfulnessOptions`.

    Raises:
        ProbeError: for an option that is not usable.
        ProbeDataError, HistoryMaskedError, NaNScoreError: as
            :func:`~recbole_residual.probe.sweep_alpha`.

    Example:
        >>> found = faithfulness("output/SASRecResidual-ml-100k-...")  # doctest: +SKIP
        >>> found.frame, found.reliance  # doctest: +SKIP
    """
    asked = _options(options)
    model, data = model_and_data(source, data)
    sequences = sample_sequences(model, data, asked.n_sequences, asked.n_recent, asked.seed)
    now, runs = current_setting(model), {}
    with in_eval_mode(model):
        ablations, notes = _ablations(model, asked.ablations, sequences)
        for setting in _settings(model, now, asked.alphas):
            run = AblationRun(model, sequences, ablations, asked.explained, asked.seed)
            with applied(model, setting):
                run.run(explain=setting == now, show_progress=show_progress)
            runs[setting] = run
    explained = runs[now]
    about = {
        "model": type(model).__name__,
        "n_sequences": len(sequences.target),
        "n_recent": asked.n_recent,
        "explained": asked.explained,
        "seed": asked.seed,
        "k": asked.k,
        "alpha": list(now.alpha),
        "n_forwards": explained.n_forwards,
    }
    if sequences.n_all > len(sequences.target):
        notes.append(f"{len(sequences.target)} of {sequences.n_all} sequences, drawn by the seed.")
    return Faithfulness(
        frame=agreement(explained.found),
        about=about,
        notes=notes + explained.notes,
        curves=curves(explained.found),
        reliance=pd.concat(
            [
                reliance_curve(run.found, factors_in_text(setting.alpha), asked.k)
                for setting, run in runs.items()
            ],
            ignore_index=True,
        ),
    )


def _ablations(
    model: Any, asked: Sequence[str], sequences: Sequences
) -> tuple[list[str], list[str]]:
    """Those that the model knows, and a note on those that it does not."""
    ablations = list(dict.fromkeys(asked))
    if "mask" not in ablations or can_hide_keys(model, sequences.interaction):
        return ablations, []
    ablations.remove("mask")
    name = type(model).__name__
    return ablations, [f"mask is left out: {name} asks for no attention mask of its input."]


def _options(options: dict[str, Any]) -> FaithfulnessOptions:
    unknown = options.keys() - FaithfulnessOptions.__dataclass_fields__.keys()
    if unknown:
        known = ", ".join(FaithfulnessOptions.__dataclass_fields__)
        raise ProbeError(f"unknown option {sorted(unknown)[0]!r}: there are {known}.")
    return FaithfulnessOptions(**options)


def _settings(model: Any, now: Setting, alphas: Sequence[float]) -> list[Setting]:
    """The setting in force, then those asked for, each once."""
    scalable = ScalableResiduals.of(model)
    others = [scalable.setting(float(alpha)) for alpha in alphas] if scalable.n_alpha else []
    return list(dict.fromkeys([now, *others]))
