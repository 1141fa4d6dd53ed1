"""Which weights carry last-item reliance: weights times their gradients, and what is left without
the largest.

For every parameter ``|w| * |dL/dw|``, where L is the accuracy loss (the target's negative
log-probability), and again where L is the log-probability of the last input item; both summed over
all sequences first (our reading of weight-adjusted gradients).

Reference:
    "Weight-Adjusted Gradients", 2026 (weights times gradients).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import torch
from torch import nn

from recbole_residual.errors import ProbeError
from recbole_residual.probe.arguments import several, whole_number
from recbole_residual.probe.engine.evaluation import evaluate_settings, in_eval_mode
from recbole_residual.probe.engine.rows import iterate_rows
from recbole_residual.probe.engine.setting import current_setting
from recbole_residual.probe.intervals import Columns, Intervals
from recbole_residual.probe.result import ProbeResult
from recbole_residual.probe.source import model_and_data
from recbole_residual.run.session import Source

DEFAULT_SHARES = (0.0001, 0.001, 0.01)
"""Shares of the weights that are set to zero."""

_ROWS = 256
"""Sequences in one backward pass."""


@dataclass(frozen=True, repr=False)
class Influence(ProbeResult):
    """One row per parameter: where the influence sits.

    Columns: ``parameter``, ``module`` (its block in a layer, its module outside), ``layer`` (number
    of the layer, empty outside), ``n_weights``; for ``accuracy`` and ``last_item`` the share of the
    whole influence (``..._share``) and ``..._density``, that share over the parameter's share of
    all weights.

    Attributes:
        modules: the same summed by module and layer.
        layers: the same summed by layer.
        removal: figures after the top weights of each ranking are set to zero: columns ``ranking``
            (``accuracy``, ``last_item``, ``weight`` by |w| alone, ``gradient`` by the gradient of
            accuracy alone, ``random``), ``share``, ``n_weights``, ``ndcg@k``, ``hrli@1``; the first
            row is the model as it is. ``intervals`` are those of this table.
    """

    name: ClassVar[str] = "influence"

    modules: pd.DataFrame = field(default_factory=pd.DataFrame)
    layers: pd.DataFrame = field(default_factory=pd.DataFrame)
    removal: pd.DataFrame = field(default_factory=pd.DataFrame)

    def tables(self) -> dict[str, pd.DataFrame]:
        """Where the influence sits, its sums, and what is left without the largest weights."""
        more = {"modules": self.modules, "layers": self.layers, "removal": self.removal}
        if self.intervals is not None:
            more["removal"] = self.intervals.beside(self.removal)
            more["removal_differences"] = self.intervals.differences
        return {
            self.name: self.frame,
            **{f"{self.name}_{name}": more[name] for name in more},
        }

    def with_intervals(self) -> pd.DataFrame:
        """The table as it is: shares of the weights' influence, which no sample of the sequences
        was drawn for."""
        return self.frame


def influence(
    source: Source,
    data: Any = None,
    *,
    shares: Sequence[float] = DEFAULT_SHARES,
    k: int = 10,
    seed: int = 0,
    show_progress: bool = False,
) -> Influence:
    """Rank weights by what they do for accuracy and for last-item reliance, and take the top out.

    ``about`` holds ``half_accuracy`` and ``half_last_item``, the shares of the weights that hold
    half of each influence. The model is left as it was.

    Args:
        source: a RecBole sequential model with ``data`` beside it; or a session, the folder of a
            run, or a checkpoint.
        data: a RecBole loader for full ranking; by default the session's ``test_data``.
        shares: shares of the weights that are set to zero, each above 0 and below 1.
        k: the cut-off of NDCG.
        seed: of the random ranking.
        show_progress: show a progress bar.

    Raises:
        ProbeError: for an argument that is not usable.
        ProbeDataError, HistoryMaskedError, NaNScoreError: as
            :func:`~recbole_residual.probe.sweep_alpha`.
    """
    whole_number("seed", seed, 0)
    checked = several("shares", shares, "numbers")
    if not checked or not all(isinstance(s, float) and 0 < s < 1 for s in checked):
        raise ProbeError(f"shares = {checked!r} is not usable: numbers above 0 and below 1.")
    model, data = model_and_data(source, data)
    whole_number("k", k, 1, model.n_items - 1)
    with in_eval_mode(model):
        gradients, n_sequences = _gradients(model, data, show_progress)
    names, weights = zip(*_weights(model))
    flat = {name: _flat(tensors) for name, tensors in gradients.items()}
    size = _flat([weight.detach().abs() for weight in weights])
    scores = {name: size * gradient for name, gradient in flat.items()}
    rankings = {
        **scores,
        "weight": size,
        "gradient": flat["accuracy"],
        "random": np.random.default_rng(seed).random(len(size)),
    }
    about = {
        "model": type(model).__name__,
        "n_sequences": n_sequences,
        "n_weights": len(size),
        "k": k,
        "seed": seed,
        **{f"half_{name}": _share_of_half(score) for name, score in scores.items()},
    }
    frame = _by_parameter(model, names, [weight.numel() for weight in weights], scores)
    removal, columns = _removal(model, data, rankings, checked, k)
    return Influence(
        frame=frame,
        about=about,
        modules=_summed(frame, ["layer", "module"]),
        layers=_summed(frame, ["layer"]),
        removal=removal,
        intervals=Intervals(removal[["ranking", "share"]], columns, reference=0),
    )


def _weights(model: Any) -> list[tuple[str, torch.Tensor]]:
    return [(name, weight) for name, weight in model.named_parameters() if weight.requires_grad]


def _flat(tensors: Sequence[torch.Tensor]) -> np.ndarray:
    return torch.cat([tensor.detach().flatten().cpu().double() for tensor in tensors]).numpy()


@torch.enable_grad()
def _gradients(
    model: Any, data: Any, show_progress: bool
) -> tuple[dict[str, list[torch.Tensor]], int]:
    """Absolute gradients of both losses, summed over all sequences, and how many there are."""
    weights = [weight for _, weight in _weights(model)]
    totals = {name: [torch.zeros_like(w) for w in weights] for name in ("accuracy", "last_item")}
    n_sequences = 0
    for rows in iterate_rows(data, "Influence", show_progress):
        n_sequences += len(rows.target)
        for start in range(0, len(rows.target), _ROWS):
            part = slice(start, start + _ROWS)
            interaction = rows.interaction[part].to(model.device)
            item_seq, length = interaction[model.ITEM_SEQ], interaction[model.ITEM_SEQ_LEN]
            last = item_seq.gather(1, length.unsqueeze(1) - 1)
            target = rows.target[part].to(model.device).unsqueeze(1)
            scores = model.full_sort_predict(interaction).view(len(target), -1)
            log_probability = scores - scores[:, 1:].logsumexp(dim=1, keepdim=True)
            for name, item in (("accuracy", target), ("last_item", last)):
                loss = log_probability.gather(1, item).sum()
                found = torch.autograd.grad(
                    loss, weights, retain_graph=name == "accuracy", allow_unused=True
                )
                for total, gradient in zip(totals[name], found):
                    if gradient is not None:
                        total += gradient
    return {name: [t.abs() for t in tensors] for name, tensors in totals.items()}, n_sequences


def _share_of_half(score: np.ndarray) -> float:
    """The least share of the weights that together hold half of the influence."""
    held = np.cumsum(np.sort(score)[::-1])
    return float((np.searchsorted(held, held[-1] / 2) + 1) / len(score))


def _place(name: str, lists: Collection[str]) -> tuple[str, str]:
    """Module and layer of a parameter.

    Args:
        name: of the parameter.
        lists: names of the lists of modules, whose members are layers.

    Example:
        >>> _place("encoder.layer.0.attention.query.weight", {"encoder.layer"})
        ('encoder.attention', '1')
        >>> _place("gru.weight_ih_l1", ()), _place("norm.weight", ())
        (('gru', '2'), ('norm', ''))
    """
    parts = name.split(".")
    for at in range(1, len(parts) - 1):
        if ".".join(parts[:at]) in lists:
            return ".".join(dict.fromkeys([parts[0], parts[at + 1]])), str(int(parts[at]) + 1)
    recurrent = re.search(r"_l(\d+)(_reverse)?$", name)  # torch's GRU and LSTM
    return parts[0], str(int(recurrent.group(1)) + 1) if recurrent else ""


def _by_parameter(
    model: Any, names: Sequence[str], sizes: Sequence[int], scores: dict[str, np.ndarray]
) -> pd.DataFrame:
    lists = {name for name, part in model.named_modules() if isinstance(part, nn.ModuleList)}
    ends = np.cumsum(sizes)
    rows = []
    for name, size, end in zip(names, sizes, ends):
        module, layer = _place(name, lists)
        row: dict[str, Any] = {"parameter": name, "module": module, "layer": layer}
        row["n_weights"] = size
        for loss, score in scores.items():
            share = float(score[end - size : end].sum() / score.sum())
            row[f"{loss}_share"] = share
            row[f"{loss}_density"] = share / (size / ends[-1])
        rows.append(row)
    return pd.DataFrame(rows)


def _summed(frame: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Weights and shares summed over the parameters of one place."""
    shares = [name for name in map(str, frame) if name.endswith("_share")]
    table = frame.groupby(by, sort=False)[["n_weights", *shares]].sum().reset_index()
    for share in shares:
        of_weights = table["n_weights"] / table["n_weights"].sum()
        table[share.replace("_share", "_density")] = table[share] / of_weights
    return table


def _removal(
    model: Any, data: Any, rankings: dict[str, np.ndarray], shares: Sequence[float], k: int
) -> tuple[pd.DataFrame, list[Columns]]:
    """The table, and what each sequence adds to its figures."""
    setting, metrics = current_setting(model), (f"ndcg@{k}", "hrli@1")
    rows: list[dict[str, Any]] = []
    columns: list[Columns] = []

    def add(ranking: str, share: float, n_weights: int) -> None:
        evaluation = evaluate_settings(model, data, [setting], sorted({1, k}))
        assert evaluation.sequences is not None
        figures, of_sequences = evaluation.counts.metrics(0), evaluation.sequences.columns(0)
        about = {"ranking": ranking, "share": share, "n_weights": n_weights}
        rows.append({**about, **{name: figures[name] for name in metrics}})
        columns.append({name: of_sequences[name] for name in metrics})

    add("none", 0.0, 0)
    for name, ranking in rankings.items():
        order = np.argsort(-ranking, kind="stable")
        for share in shares:
            top = order[: max(1, round(share * len(order)))]
            with _zeroed(model, top):
                add(name, share, len(top))
    return pd.DataFrame(rows), columns


@contextmanager
def _zeroed(model: Any, places: np.ndarray) -> Iterator[None]:
    """Inside, some weights are zero; afterwards they are what they were, bit for bit.

    Args:
        model: the model.
        places: numbers of weights, in the order of its parameters laid end to end.
    """
    weights = [weight for _, weight in _weights(model)]
    kept = [weight.detach().clone() for weight in weights]
    chosen = np.zeros(sum(weight.numel() for weight in weights), dtype=bool)
    chosen[places] = True
    ends = np.cumsum([weight.numel() for weight in weights])
    try:
        with torch.no_grad():
            for weight, end in zip(weights, ends):
                mask = torch.from_numpy(chosen[end - weight.numel() : end]).view_as(weight)
                weight.masked_fill_(mask.to(weight.device), 0.0)
        yield
    finally:
        with torch.no_grad():
            for weight, before in zip(weights, kept):
                weight.copy_(before)
