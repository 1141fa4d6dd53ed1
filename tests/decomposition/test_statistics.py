"""Streaming statistics against numpy on everything at once."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from recbole_residual.decomposition import Decomposition, RatioStatistics, decompose
from recbole_residual.decomposition.statistics import BIN_WIDTH, POSITION_GROUPS
from recbole_residual.model.sasrec_residual import SASRecResidual
from tests.conftest import TinyDataset, random_interaction, tiny_config

LAYERS, STAGES = ("1", "2"), ("attn", "ln")


def batch(lengths: list[int], seed: int, length: int = 6) -> Decomposition:
    random = torch.Generator().manual_seed(seed)
    mask = torch.arange(length) < torch.tensor(lengths).unsqueeze(1)
    ratios = torch.rand(2, 2, len(lengths), length, generator=random).square()
    return Decomposition(LAYERS, STAGES, ratios * mask, mask)


def naive(batches: list[Decomposition]) -> pd.DataFrame:
    rows = []
    for layer_index, layer in enumerate((*LAYERS, "all")):
        for stage_index, stage in enumerate(STAGES):
            for group_index, group in enumerate(POSITION_GROUPS):
                values = []
                for seen in batches:
                    layers = range(2) if layer == "all" else [layer_index]
                    for which in layers:
                        for row, valid in enumerate(seen.mask.sum(1).tolist()):
                            places = (
                                range(valid)
                                if group == "all"
                                else [valid - group_index] * (valid >= group_index)
                            )
                            ratios = seen.ratios[which, stage_index, row]
                            values += [ratios[place].item() for place in places]
                rows.append((layer, stage, group, "count", len(values)))
                for name in ("mean", "median", "std"):
                    value = getattr(np, name)(values) if values else np.nan
                    rows.append((layer, stage, group, name, value))
    frame = pd.DataFrame(rows, columns=["layer", "stage", "position", "statistic", "value"])
    return frame.set_index(["layer", "stage", "position", "statistic"]).value.sort_index()


def table(statistics: RatioStatistics) -> pd.Series:
    frame = statistics.to_frame()
    return frame.set_index(["layer", "stage", "position", "statistic"]).value.sort_index()


lengths = st.lists(st.integers(0, 6), min_size=1, max_size=5)


@settings(deadline=None, max_examples=40)
@given(st.lists(lengths, min_size=1, max_size=4), st.integers(0, 999))
def test_against_numpy_in_any_order_and_merged(all_lengths: list[list[int]], seed: int) -> None:
    batches = [batch(one, seed + index) for index, one in enumerate(all_lengths)]
    expected = naive(batches)
    is_median = expected.index.get_level_values("statistic") == "median"
    forward, backward, merged = RatioStatistics(), RatioStatistics(), RatioStatistics()
    for seen in batches:
        forward.update(seen)
        alone = RatioStatistics()
        alone.update(seen)
        merged.merge(pickle.loads(pickle.dumps(alone)))
    for seen in reversed(batches):
        backward.update(seen)
    merged.merge(RatioStatistics())
    for statistics in (forward, backward, merged):
        found = table(statistics)
        np.testing.assert_allclose(found[~is_median], expected[~is_median], atol=1e-12)
        np.testing.assert_allclose(found[is_median], expected[is_median], atol=BIN_WIDTH / 2 + 1e-9)


def test_merging_into_nothing_leaves_the_other_as_it_was() -> None:
    first, second = RatioStatistics(), RatioStatistics()
    first.update(batch([3, 4], 0))
    before = table(first)
    second.merge(first)
    second.update(batch([1, 6], 1))
    pd.testing.assert_series_equal(table(first), before)


def test_ends_of_the_histogram_are_exact() -> None:
    mask = torch.ones(1, 3, dtype=torch.bool)
    for value in (0.0, 1.0):
        statistics = RatioStatistics()
        statistics.update(Decomposition(("1",), ("ln",), torch.full((1, 1, 1, 3), value), mask))
        assert table(statistics)["1", "ln", "all", "median"] == value
        assert table(statistics)["1", "ln", "all", "std"] == 0


def test_nan_is_an_error() -> None:
    seen = batch([3], 0)
    seen.ratios[0, 0, 0, 1] = torch.nan
    with pytest.raises(ValueError, match="NaN"):
        RatioStatistics().update(seen)


def test_what_does_not_belong_together_is_refused() -> None:
    statistics = RatioStatistics()
    seen = batch([3], 0)
    statistics.update(seen)
    gates = Decomposition(LAYERS, ("gate", "ln"), seen.ratios, seen.mask)
    masked = Decomposition(LAYERS, STAGES, seen.ratios, seen.mask, last_position="[MASK]")
    for other in (gates, masked):
        with pytest.raises(ValueError, match="cannot be added"):
            statistics.update(other)


def test_frame_of_one_decomposition() -> None:
    model = SASRecResidual(tiny_config(), TinyDataset(30)).eval()
    seen = decompose(model, random_interaction())
    frame = seen.to_frame()
    assert list(frame.columns) == [
        "layer",
        "stage",
        "position",
        "statistic",
        "value",
        "last_position",
    ]
    values = frame.set_index(["layer", "stage", "position", "statistic"]).value
    assert values["1", "ln", "all", "count"] == seen.mask.sum().item()
    assert values["all", "ln", "last", "count"] == 2 * len(seen.mask)
    expected = seen.ratios[1, 2][seen.mask].double().mean().item()
    assert values["2", "ln", "all", "mean"] == pytest.approx(expected)
    assert set(frame.last_position) == {"item"}
