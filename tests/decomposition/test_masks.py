"""Counting from the end, with padding on either side."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from recbole_residual.decomposition.masks import positions_from_end, recent_positions


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(0, 6), min_size=1, max_size=4), st.integers(1, 9), st.booleans())
def test_against_a_loop(lengths: list[int], recent: int, at_the_right: bool) -> None:
    mask = torch.arange(6) < torch.tensor(lengths).unsqueeze(1)
    if not at_the_right:
        mask = mask.flip(1)
    from_end = positions_from_end(mask)
    found = recent_positions(mask, recent)
    assert found.index.shape == found.valid.shape == (len(lengths), recent)
    for row, valid in enumerate(mask):
        places = valid.nonzero().flatten().tolist()
        assert from_end[row, places].tolist() == list(range(len(places)))[::-1]
        kept = places[max(0, len(places) - recent) :]
        assert found.index[row][found.valid[row]].tolist() == kept
        assert found.valid[row].tolist() == [False] * (recent - len(kept)) + [True] * len(kept)
