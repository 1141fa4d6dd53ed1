"""The average map of recent positions against a loop."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from recbole_residual.decomposition import Decomposition, RecentMap, decompose
from recbole_residual.model.sasrec_residual import SASRecResidual
from tests.conftest import TinyDataset, random_interaction, tiny_config


def batch(lengths: list[int], seed: int, length: int = 6) -> Decomposition:
    random = torch.Generator().manual_seed(seed)
    mask = torch.arange(length) < torch.tensor(lengths).unsqueeze(1)
    maps = torch.rand(2, 2, len(lengths), length, length, generator=random)
    return Decomposition(
        ("1", "2"),
        ("ln",),
        torch.zeros(2, 1, len(lengths), length),
        mask,
        contributions=maps[0],
        attention=maps[1],
        map_mask=mask,
    )


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.lists(st.integers(0, 6), min_size=1, max_size=4), min_size=1, max_size=3),
    st.integers(1, 8),
)
def test_against_a_loop(all_lengths: list[list[int]], recent: int) -> None:
    batches = [batch(lengths, seed) for seed, lengths in enumerate(all_lengths)]
    found, merged = RecentMap(recent), RecentMap(recent)
    for seen in batches:
        found.update(seen)
    for seen in reversed(batches):
        alone = RecentMap(recent)
        alone.update(seen)
        merged.merge(alone)
    merged.merge(RecentMap(recent))
    total, count = np.zeros((2, 2, recent, recent)), np.zeros((recent, recent))
    for seen in batches:
        for row, length in enumerate(seen.mask.sum(1).tolist()):
            for i in range(min(length, recent)):
                for j in range(min(length, recent)):
                    where = recent - 1 - i, recent - 1 - j
                    count[where] += 1
                    for kind, maps in enumerate((seen.contributions, seen.attention)):
                        assert maps is not None
                        total[(kind, slice(None), *where)] += maps[
                            :, row, length - 1 - i, length - 1 - j
                        ].numpy()
    with np.errstate(invalid="ignore"):
        expected = total / count
    for one in (found, merged):
        np.testing.assert_array_equal(one.count, count)
        np.testing.assert_allclose(one.contributions, expected[0], atol=1e-12)
        np.testing.assert_allclose(one.attention, expected[1], atol=1e-12)


def test_maps_of_recent_positions_give_the_same_as_whole_maps() -> None:
    model = SASRecResidual(tiny_config(), TinyDataset(30)).eval()
    interaction = random_interaction(rows=9)
    whole, corner = RecentMap(3), RecentMap(3)
    whole.update(decompose(model, interaction, maps=True))
    corner.update(decompose(model, interaction, maps=True, recent=3))
    torch.testing.assert_close(corner.contributions, whole.contributions, atol=1e-6, rtol=0)
    torch.testing.assert_close(corner.attention, whole.attention)


def test_frame() -> None:
    found = RecentMap(3)
    found.update(batch([2, 6], 0))
    frame = found.to_frame().set_index(["layer", "query", "key"])
    assert len(frame) == 2 * 3 * 3
    assert frame.loc[("2", 0, 1), "contribution"] == found.contributions[1, 2, 1].item()
    assert frame.loc[("2", 0, 1), "attention"] == found.attention[1, 2, 1].item()
    assert frame.loc[("1", 2, 0), "count"] == 1
    assert frame.loc[("1", 1, 0), "count"] == 2


def test_what_does_not_fit_is_refused() -> None:
    model = SASRecResidual(tiny_config(), TinyDataset(30)).eval()
    found = RecentMap(3)
    with pytest.raises(ValueError, match="maps=True"):
        found.update(decompose(model, random_interaction()))
    with pytest.raises(ValueError, match="recent=3"):
        found.update(decompose(model, random_interaction(), maps=True, recent=2))
    found.update(batch([3], 0))
    one_layer = SASRecResidual(tiny_config(n_layers=1), TinyDataset(30)).eval()
    with pytest.raises(ValueError, match="cannot be added"):
        found.update(decompose(one_layer, random_interaction(), maps=True))
    other = RecentMap(4)
    with pytest.raises(ValueError, match="3"):
        other.merge(found)
