"""Intervals and tests against scipy's own and against loops."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from recbole_residual.probe.uncertainty import (
    bootstrap_means,
    holm,
    paired_test,
    percentile_interval,
    wilson,
)


@settings(deadline=None)
@given(n=st.integers(1, 300), share=st.floats(0, 1), level=st.sampled_from([0.9, 0.95, 0.99]))
def test_wilson_is_that_of_scipy(n: int, share: float, level: float) -> None:
    successes = round(n * share)
    expected = stats.binomtest(successes, n).proportion_ci(level, method="wilson")
    low, high = wilson(successes, n, level)
    assert (float(low), float(high)) == pytest.approx((expected.low, expected.high), abs=1e-12)
    assert 0 <= low <= successes / n <= high <= 1


def test_no_trial_has_no_interval() -> None:
    low, high = wilson(np.array([0, 1]), np.array([0, 2]))
    assert np.isnan([low[0], high[0]]).all()
    assert low[1] < 0.5 < high[1]


def test_bootstrap_draws_users_one_by_one() -> None:
    """Against a loop over users, with weights and with users that have no value."""
    generator = np.random.default_rng(3)
    values, weights = generator.random((17, 3)), generator.integers(1, 9, (17, 3)).astype(float)
    values[generator.random((17, 3)) < 0.3] = np.nan
    found = bootstrap_means(values, weights, seed=5, n_resamples=20)
    again = np.random.default_rng(5).integers(0, 17, (20, 17))
    for row, drawn in zip(found, again):
        for column in range(3):
            total = weight = 0.0
            for user in drawn:
                if not math.isnan(values[user, column]):
                    total += values[user, column]
                    weight += weights[user, column]
            assert row[column] == pytest.approx(total / weight)


def test_blocks_of_resamples_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(0).random((40, 2))
    whole = bootstrap_means(values)
    monkeypatch.setattr("recbole_residual.probe.uncertainty._CELLS", 130)
    np.testing.assert_allclose(bootstrap_means(values), whole, rtol=1e-14)


def test_interval_is_that_of_scipy_but_for_the_draw() -> None:
    values = np.random.default_rng(1).exponential(size=200)
    low, high = percentile_interval(bootstrap_means(values[:, None], n_resamples=20000))
    expected = stats.bootstrap(
        (values,), np.mean, n_resamples=20000, method="percentile"
    ).confidence_interval
    assert (low[0], high[0]) == pytest.approx((expected.low, expected.high), rel=0.01)


def test_interval_of_nothing() -> None:
    distribution = bootstrap_means(np.array([[np.nan, 1.0], [np.nan, 3.0]]))
    low, high = percentile_interval(distribution)
    assert np.isnan([low[0], high[0]]).all()
    assert (low[1], high[1]) == (1.0, 3.0)
    assert np.isnan(bootstrap_means(np.empty((0, 2)))).all()


def means_over_seeds(hits: list[list[int]]) -> np.ndarray:
    return np.array([sum(map(float, of_user)) / len(of_user) for of_user in hits])


@settings(deadline=None)
@given(
    st.integers(2, 7).flatmap(
        lambda n_seeds: st.lists(
            st.tuples(*[st.lists(st.integers(0, 1), min_size=n_seeds, max_size=n_seeds)] * 2),
            min_size=60,
            max_size=120,
        )
    )
)
def test_fractions_are_tested_as_fractions(users: list) -> None:
    """Wilcoxon's statistic from exact fractions, with ties where fractions are equal."""
    found = paired_test(
        means_over_seeds([a for a, _ in users]), means_over_seeds([b for _, b in users])
    )
    exact = [Fraction(sum(a) - sum(b), len(a)) for a, b in users]
    if len(set(exact)) == 1:
        assert math.isnan(found.p_wilcoxon)
        assert math.isnan(found.p_t)
        return
    numerators = np.array([sum(a) - sum(b) for a, b in users])
    assert found.p_wilcoxon == pytest.approx(stats.wilcoxon(numerators).pvalue, rel=1e-9)
    assert found.p_t == pytest.approx(stats.ttest_1samp(numerators, 0).pvalue, rel=1e-6)
    assert found.difference == pytest.approx(float(sum(exact)) / len(exact), abs=1e-12)


def test_symmetric_thirds_have_p_one() -> None:
    found = paired_test(np.array([1 / 3] * 30 + [2 / 3] * 30), np.array([0.0] * 30 + [1.0] * 30))
    assert found.p_t == found.p_wilcoxon == 1.0
    assert found.low < 0 < found.high


def test_the_same_difference_for_every_user_is_no_test() -> None:
    values = np.random.default_rng(0).random(300)
    for shift in (0.0, 0.25, 0.1):
        found = paired_test(values, values + shift)
        assert math.isnan(found.p_t)
        assert math.isnan(found.p_wilcoxon)
        assert found.difference == pytest.approx(-shift)
    assert paired_test(np.array([np.nan]), np.array([1.0])) is None


@given(st.lists(st.floats(0, 1), max_size=8))
def test_holm_against_its_definition(p_values: list[float]) -> None:
    """The adjusted p-value is the least level at which the step-down procedure rejects."""
    found = holm(p_values)
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    largest = 0.0
    for place, index in enumerate(order):
        largest = max(largest, min(1.0, (len(order) - place) * p_values[index]))
        assert found[index] == pytest.approx(largest)
