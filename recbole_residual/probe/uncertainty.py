"""How sure a figure is: intervals of shares and means, tests of differences, all in one place.

- A share (HR, HRLI, RecoveryRate) gets Wilson's interval, :func:`wilson`.
- A mean over users that is no share (NDCG, MRR, mixing ratios) and the difference between two
  settings on the same users get the percentile interval of a bootstrap over users,
  :func:`bootstrap_means` and :func:`percentile_interval`. One seed gives one set of resamples, so
  differences are paired.
- Two configurations on the same users get a paired t-test and Wilcoxon's, :func:`paired_test`;
  several of those are corrected by :func:`holm`.

References:
    Wilson "Probable inference, the law of succession, and statistical inference", JASA 1927;
    Efron & Tibshirani "An Introduction to the Bootstrap", 1993 (percentile intervals, chapter 13);
    Holm "A simple sequentially rejective multiple test procedure", Scand. J. Stat. 1979.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Union

import numpy as np

LEVEL = 0.95
"""Of every interval."""

N_RESAMPLES = 1000
"""Bootstrap samples of the users."""

SEED = 0
"""Of the bootstrap, for all figures."""

_DECIMALS = 12
"""Differences of means over seeds are rounded to this many places: 1/3 - 0 and 1 - 2/3 are equal,
though not as floats."""

_CELLS = 2**22
"""Numbers in a block of resamples."""


def wilson(
    successes: Union[np.ndarray, float], n: Union[np.ndarray, float], level: float = LEVEL
) -> tuple[np.ndarray, np.ndarray]:
    """Wilson's interval of a share, which never leaves 0 to 1.

    Args:
        successes: number of successes, any shape.
        n: number of trials, of that shape; 0 gives NaN.
        level: of the interval.

    Returns:
        Its lower and its upper end.

    Example:
        >>> low, high = wilson(10, 94)
        >>> round(float(low), 4), round(float(high), 4)
        (0.0588, 0.1849)
    """
    successes, n = np.asarray(successes, dtype=float), np.asarray(n, dtype=float)
    z = NormalDist().inv_cdf((1 + level) / 2)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = successes / n
        centre = (share + z**2 / (2 * n)) / (1 + z**2 / n)
        half = z / (1 + z**2 / n) * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
        low = np.where(successes == 0, 0.0, centre - half)
        high = np.where(successes == n, 1.0, centre + half)
    nothing = n == 0
    return np.where(nothing, np.nan, low), np.where(nothing, np.nan, high)


def bootstrap_means(
    values: np.ndarray,
    weights: np.ndarray | None = None,
    *,
    seed: int = SEED,
    n_resamples: int = N_RESAMPLES,
) -> np.ndarray:
    """Means over users, in samples of the users with replacement.

    The same seed and the same number of users give the same samples, whatever the values.

    Args:
        values: one row per user, NaN where a column is not defined for a user, [n, V].
        weights: what a user counts for, [n, V]; the mean is ``sum(values) / sum(weights)``. By
            default 1, so that it is the mean over the users that have a value.
        seed: of the samples.
        n_resamples: how many.

    Returns:
        numpy.ndarray: [n_resamples, V], NaN where a sample holds no user with a value.

    Example:
        >>> bootstrap_means(np.array([[0.0], [1.0], [1.0]])).shape
        (1000, 1)
    """
    values = np.asarray(values, dtype=float)
    defined = ~np.isnan(values)
    weights = defined.astype(float) if weights is None else np.where(defined, weights, 0.0)
    both = np.concatenate([np.where(defined, values, 0.0), weights], axis=1)
    sums = bootstrap_sums(both, seed=seed, n_resamples=n_resamples)
    with np.errstate(divide="ignore", invalid="ignore"):
        return sums[:, : values.shape[1]] / sums[:, values.shape[1] :]


def bootstrap_sums(
    values: np.ndarray, *, seed: int = SEED, n_resamples: int = N_RESAMPLES
) -> np.ndarray:
    """Sums over users, in the samples of :func:`bootstrap_means`.

    Args:
        values: one row per user, without NaN, [n, V].
        seed: of the samples.
        n_resamples: how many.

    Returns:
        numpy.ndarray: [n_resamples, V].
    """
    n = len(values)
    generator = np.random.default_rng(seed)
    sums = np.zeros((n_resamples, values.shape[1]))
    step = max(1, _CELLS // max(n, 1))
    for start in range(0, n_resamples if n else 0, step):
        size = min(step, n_resamples - start)
        drawn = generator.integers(0, n, (size, n))
        drawn += np.arange(size)[:, None] * n
        times = np.bincount(drawn.ravel(), minlength=size * n).reshape(size, n).astype(float)
        sums[start : start + size] = times @ values
    return sums


def percentile_interval(
    distribution: np.ndarray, level: float = LEVEL
) -> tuple[np.ndarray, np.ndarray]:
    """Ends of the interval that holds a share ``level`` of the middle of each column.

    Args:
        distribution: [n_resamples, V]; NaN is left out, a column of nothing else gives NaN.
        level: of the interval.
    """
    empty = np.isnan(distribution).all(axis=0)
    tails = [(1 - level) / 2, (1 + level) / 2]
    low, high = np.nanquantile(np.where(empty, 0.0, distribution), tails, axis=0)
    return np.where(empty, np.nan, low), np.where(empty, np.nan, high)


@dataclass(frozen=True)
class PairedTest:
    """One metric under two configurations on the same users.

    Attributes:
        n: number of users.
        mean_a, mean_b: the means.
        difference: mean of ``a - b``.
        low, high: bootstrap interval of the difference.
        p_t: of the paired t-test, two-sided.
        p_wilcoxon: of Wilcoxon's signed-rank test, two-sided.
    """

    n: int
    mean_a: float
    mean_b: float
    difference: float
    low: float
    high: float
    p_t: float
    p_wilcoxon: float


def paired_test(a: np.ndarray, b: np.ndarray) -> PairedTest | None:
    """Test whether a metric differs between two configurations.

    Differences are rounded to 12 places first: values averaged over seeds are fractions that floats
    do not hold, and equal differences must be ties.

    Args:
        a, b: a value for each user, NaN where there is none; those users are left out, [n].

    Returns:
        The p-values are NaN where the difference is the same for every user; None without users.

    Example:
        >>> test = paired_test(np.array([1, 1, 2, 2]) / 3, np.array([0, 0, 1, 1]))
        >>> test.p_t, test.p_wilcoxon  # two users gain a third, two lose one
        (1.0, 1.0)
    """
    from scipy import stats

    a, b = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    both = ~(np.isnan(a) | np.isnan(b))
    a, b = a[both], b[both]
    if not len(a):
        return None
    differences = np.round(a - b, _DECIMALS)
    difference = math.fsum(differences) / len(differences)
    p_t = p_wilcoxon = float("nan")
    if np.ptp(differences) > 0:
        p_t = float(stats.ttest_1samp(differences, 0.0).pvalue) if difference else 1.0
        p_wilcoxon = float(stats.wilcoxon(differences).pvalue)
    low, high = percentile_interval(bootstrap_means(differences[:, None]))
    return PairedTest(
        n=len(a),
        mean_a=float(a.mean()),
        mean_b=float(b.mean()),
        difference=difference,
        low=float(low[0]),
        high=float(high[0]),
        p_t=p_t,
        p_wilcoxon=p_wilcoxon,
    )


def holm(p_values: Sequence[float]) -> np.ndarray:
    """Holm's correction for several tests: adjusted p-values, to be held against the usual level.

    Args:
        p_values: one per test; NaN is no test and stays NaN.

    Example:
        >>> holm([0.01, 0.04, 0.03, float("nan")]).round(3).tolist()
        [0.03, 0.06, 0.06, nan]
    """
    adjusted = np.asarray(p_values, dtype=float).copy()
    tests = np.flatnonzero(~np.isnan(adjusted))
    order = tests[np.argsort(adjusted[tests], kind="stable")]
    factors = np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(adjusted[order] * factors), 1.0)
    return adjusted
