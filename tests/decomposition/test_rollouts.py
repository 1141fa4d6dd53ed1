"""Rollouts against products of whole matrices."""

from __future__ import annotations

from typing import Any, Callable

import pytest
import torch

from recbole_residual.decomposition import Decomposition, decompose, rollout
from recbole_residual.model.sasrec_residual import SASRecResidual
from tests.conftest import TinyDataset, random_interaction, tiny_config
from tests.decomposition.conftest import tiny_interaction


def slow(maps: torch.Tensor, length: int, half: bool) -> torch.Tensor:
    """One sequence: normalise its rows, multiply layer on layer, take the last row."""
    product = torch.eye(length, dtype=maps.dtype)
    for layer in maps:
        layer = layer[:length, :length]
        layer = layer / layer.sum(-1, keepdim=True)
        if half:
            layer = (layer + torch.eye(length, dtype=maps.dtype)) / 2
        product = layer @ product
    return product[-1]


def test_against_whole_products() -> None:
    model = SASRecResidual(tiny_config(n_layers=3), TinyDataset(30)).eval()
    seen = decompose(model, random_interaction(rows=9), maps=True)
    found = rollout(seen)
    assert seen.contributions is not None
    assert seen.attention is not None
    for row, length in enumerate(seen.mask.sum(1).tolist()):
        for result, maps, half in (
            (found.contribution, seen.contributions, False),
            (found.attention, seen.attention, True),
        ):
            torch.testing.assert_close(result[row, :length], slow(maps[:, row], length, half))
            assert (result[row, length:] == 0).all()
    torch.testing.assert_close(found.contribution.sum(1), torch.ones(9))
    torch.testing.assert_close(found.attention.sum(1), torch.ones(9))
    distance = 0.5 * (found.contribution - found.attention).abs().sum(1)
    torch.testing.assert_close(found.distance, distance)


def test_a_layer_that_keeps_everything_rolls_out_to_the_last_position() -> None:
    eye = torch.eye(3).expand(2, 1, 3, 3)
    mask = torch.tensor([[True, True, True]])
    seen = Decomposition(
        ("1", "2"),
        ("ln",),
        torch.zeros(2, 1, 1, 3),
        mask,
        contributions=eye,
        attention=torch.full((2, 1, 3, 3), 1 / 3),
        map_mask=mask,
    )
    found = rollout(seen)
    assert found.contribution.tolist() == [[0, 0, 1]]
    assert found.distance.item() == pytest.approx(1 - (0.25 + 0.75 / 3))


def test_frame() -> None:
    model = SASRecResidual(tiny_config(), TinyDataset(30)).eval()
    seen = decompose(model, random_interaction(), maps=True)
    found = rollout(seen)
    frame = found.to_frame()
    assert len(frame) == seen.mask.sum()
    last = frame[frame.from_end == 0]
    lengths = seen.mask.sum(1)
    expected = found.contribution.gather(1, lengths.unsqueeze(1) - 1).squeeze(1)
    assert last.contribution.tolist() == expected.tolist()


def test_two_encoders_are_not_mixed(build_model: Callable[..., Any]) -> None:
    seen = decompose(build_model("FDSA"), tiny_interaction(), maps=True)
    with pytest.raises(ValueError, match="item_trm_encoder"):
        rollout(seen)
    assert seen.contributions is not None
    found = rollout(seen, encoder="feature_trm_encoder")
    lengths = seen.mask.sum(1).tolist()
    for row, length in enumerate(lengths):
        expected = slow(seen.contributions[2:, row], length, False)
        torch.testing.assert_close(found.contribution[row, :length], expected)


def test_whole_maps_are_needed() -> None:
    model = SASRecResidual(tiny_config(), TinyDataset(30)).eval()
    with pytest.raises(ValueError, match="maps=True"):
        rollout(decompose(model, random_interaction()))
    with pytest.raises(ValueError, match="all positions"):
        rollout(decompose(model, random_interaction(), maps=True, recent=2))
    with pytest.raises(ValueError, match="choose one"):
        rollout(decompose(model, random_interaction(), maps=True), encoder="item_trm_encoder")
