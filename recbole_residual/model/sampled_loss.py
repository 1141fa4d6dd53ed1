r"""Losses over a sample of the catalogue, for catalogues whose every score is too much.

Sampled softmax (``SSM``), with K negatives drawn from q over the items:

.. math::
    -\log \frac{\exp s_+}{\exp s_+ + \sum_{j \ne +} \exp(s_j - \log(K q_j))}

Each negative stands for the 1 / (K q_j) items like it, so the denominator is, on average, that of
the softmax over the catalogue.

gBCE, the binary cross-entropy whose positive term makes up for the share of negatives that is
drawn, with :math:`\alpha = K / (|I| - 1)`:

.. math::
    -\frac{1}{K + 1}\left(\beta \log\sigma(s_+) + \sum_j \log(1 - \sigma(s_j))\right), \qquad
    \beta = \alpha \left(t \left(1 - \frac{1}{\alpha}\right) + \frac{1}{\alpha}\right)

t = 0 is plain binary cross-entropy, t = 1 calibrates the scores fully.

One sample serves `ROWS_PER_SAMPLE` positions that stand side by side in the batch; a position
whose target is in it leaves it out there. One sample for a whole batch would be one product too,
but pushes few items at each step, all of them hard, and the loss jumps about.

Reference:
    Bengio and Senecal. "Adaptive Importance Sampling to Accelerate Training of a Neural
    Probabilistic Language Model." 2008 (the correction by log q).
    Petrov and Macdonald. "gSASRec: Reducing Overconfidence in Sequential Recommendation Trained
    with Negative Sampling." RecSys 2023.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812

from recbole_residual.errors import ModelError

SSM, GBCE = "SSM", "gBCE"
SAMPLED_LOSSES = (SSM, GBCE)
"""Values of ``loss_type`` that RecBole does not have."""

ROWS_PER_SAMPLE = 64
"""Positions that share their negatives: enough for a product that is worth its name."""

NEGATIVE_SAMPLING = ("uniform", "in_batch")
DEFAULT_NUM_NEGATIVES = 256
DEFAULT_GBCE_T = 0.75


class ParentConfig:
    """A configuration as RecBole's class sees it, which knows CE and BPR only."""

    def __init__(self, config: Any) -> None:
        self._config = config

    def __getitem__(self, key: str) -> Any:
        value = self._config[key]
        return "CE" if key == "loss_type" and value in SAMPLED_LOSSES else value

    def __contains__(self, key: str) -> bool:
        return key in self._config


class SampledLoss:
    """One of the two losses, with its negatives.

    Args:
        config: with ``loss_type``, ``num_negatives``, ``negative_sampling`` and ``gbce_t``.
        dataset: the training part; its targets are counted at the first use of ``in_batch``.
        n_items: number of items, padding included.
        item_field: field of the target.

    Raises:
        ModelError: if a value is not usable, or gBCE, which is defined for uniform negatives, is
            asked for with others.
    """

    def __init__(self, config: Any, dataset: Any, n_items: int, item_field: str) -> None:
        def value(key: str, default: Any) -> Any:
            return default if config[key] is None else config[key]

        self.loss_type = config["loss_type"]
        self.num_negatives = value("num_negatives", DEFAULT_NUM_NEGATIVES)
        self.sampling = value("negative_sampling", NEGATIVE_SAMPLING[0])
        self.gbce_t = value("gbce_t", DEFAULT_GBCE_T)
        self._dataset, self._item_field, self._n_items = dataset, item_field, n_items
        self._log_q: torch.Tensor | None = None
        if self.sampling not in NEGATIVE_SAMPLING:
            raise ModelError(
                f"negative_sampling = {self.sampling!r} is not usable: one of "
                f"{list(NEGATIVE_SAMPLING)}."
            )
        if self.num_negatives < 1:
            raise ModelError(f"num_negatives = {self.num_negatives!r} is not usable: at least 1.")
        if not 0 <= self.gbce_t <= 1:
            raise ModelError(f"gbce_t = {self.gbce_t!r} is not usable: it is from 0 to 1.")
        if self.loss_type == GBCE and self.sampling != "uniform":
            raise ModelError(
                "loss_type = 'gBCE' is defined for uniform negatives: set negative_sampling: "
                "uniform, or loss_type: SSM."
            )

    def __call__(
        self, hidden: torch.Tensor, weight: torch.Tensor, targets: torch.Tensor
    ) -> torch.Tensor:
        """The mean loss over positions.

        Args:
            hidden: representations, [T, D].
            weight: item vectors, padding first, [n_items, D].
            targets: item ids, [T].

        Returns:
            torch.Tensor: scalar.
        """
        negatives, log_q = self.draw(targets)
        if self.loss_type == GBCE:
            return gbce_loss(hidden, weight, targets, negatives, self.gbce_t)
        return sampled_softmax_loss(hidden, weight, targets, negatives, log_q)

    def draw(self, targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Negatives for a batch, with replacement, for each group of positions.

        Args:
            targets: of all positions of the batch, [T].

        Returns:
            Item ids, and the logarithm of the probability with which each is drawn, [G, K] each,
            where G groups of `ROWS_PER_SAMPLE` hold the T positions.
        """
        device = targets.device
        size = (-(-len(targets) // ROWS_PER_SAMPLE), self.num_negatives)
        if self.sampling == "uniform":
            negatives = torch.randint(1, self._n_items, size, device=device)
            return negatives, torch.full_like(
                negatives, -math.log(self._n_items - 1), dtype=torch.float32
            )
        chosen = torch.randint(len(targets), size, device=device)
        negatives = targets[chosen]
        if self._log_q is None:
            items = self._dataset.inter_feat[self._item_field]
            count = torch.bincount(items, minlength=self._n_items).clamp(min=1)
            self._log_q = (count.double().log() - math.log(len(items))).float()
        return negatives, self._log_q.to(device)[negatives]


def _scores(
    hidden: torch.Tensor, weight: torch.Tensor, targets: torch.Tensor, negatives: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Scores of the targets [T] and of the negatives [T, K], and where a negative is the target."""
    positive = (hidden * F.embedding(targets, weight)).sum(-1)
    n_groups = len(negatives)
    n_rows = -(-len(hidden) // n_groups)
    missing = n_groups * n_rows - len(hidden)
    grouped = F.pad(hidden, (0, 0, 0, missing)).view(n_groups, n_rows, -1)
    negative = torch.bmm(grouped, F.embedding(negatives, weight).transpose(1, 2)).flatten(0, 1)
    wanted = F.pad(targets, (0, missing)).view(n_groups, n_rows, 1)
    is_target = (negatives.unsqueeze(1) == wanted).flatten(0, 1)
    return positive.float(), negative[: len(hidden)].float(), is_target[: len(hidden)]


def _by_row(of_groups: torch.Tensor, n_rows: int) -> torch.Tensor:
    """What each group has, for each of its rows: [G, K] becomes [T, K]."""
    return of_groups.repeat_interleave(-(-n_rows // len(of_groups)), dim=0)[:n_rows]


def sampled_softmax_loss(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    targets: torch.Tensor,
    negatives: torch.Tensor,
    log_q: torch.Tensor,
) -> torch.Tensor:
    """The mean of the sampled softmax over positions.

    Args:
        hidden: representations, [T, D].
        weight: item vectors, [n_items, D].
        targets: item ids, [T].
        negatives: item ids, drawn with replacement, [G, K]: the rows in G groups of equal size, the
            last one smaller where they do not come out even.
        log_q: logarithm of the probability with which each of them is drawn, [G, K].

    Returns:
        torch.Tensor: scalar.
    """
    positive, negative, is_target = _scores(hidden, weight, targets, negatives)
    corrected = negative - _by_row(log_q + math.log(negatives.shape[1]), len(hidden))
    corrected = corrected.masked_fill(is_target, -torch.inf)
    logits = torch.cat([positive.unsqueeze(1), corrected], dim=1)
    return (torch.logsumexp(logits, dim=1) - positive).mean()


def gbce_beta(num_negatives: int, n_items: int, t: float) -> float:
    """Power of the positive's probability in gBCE.

    Args:
        num_negatives: K.
        n_items: number of items without padding, |I|.
        t: 0 for none, 1 for full calibration.

    Example:
        >>> gbce_beta(10, 101, 0.0), round(gbce_beta(10, 101, 1.0), 3)
        (1.0, 0.1)
    """
    alpha = min(num_negatives / (n_items - 1), 1.0)
    return alpha * (t * (1 - 1 / alpha) + 1 / alpha)


def gbce_loss(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    targets: torch.Tensor,
    negatives: torch.Tensor,
    t: float,
) -> torch.Tensor:
    """The mean of gBCE over positions.

    Args:
        hidden: representations, [T, D].
        weight: item vectors, padding first, [n_items, D].
        targets: item ids, [T].
        negatives: item ids in groups, [G, K], as above.
        t: see :func:`gbce_beta`.

    Returns:
        torch.Tensor: scalar.
    """
    positive, negative, is_target = _scores(hidden, weight, targets, negatives)
    beta = gbce_beta(negatives.shape[1], len(weight) - 1, t)
    losses = F.softplus(negative).masked_fill(is_target, 0).sum(dim=1)
    losses = losses - beta * F.logsigmoid(positive)
    return (losses / (1 + (~is_target).sum(dim=1))).mean()
