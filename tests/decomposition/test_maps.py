"""The fast maps against the [B, L, L, D] form."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings

from recbole_residual.decomposition.maps import attention_map, contribution_map
from recbole_residual.decomposition.masks import recent_positions
from tests.decomposition.cases import Case, cases, make_case
from tests.decomposition.direct import direct_map


@torch.no_grad()
def slow(case: Case) -> torch.Tensor:
    block, direct = case.direct()
    return direct_map(
        direct.contributions, direct.residual, block.dense, block.LayerNorm, case.mask
    )


@settings(deadline=None, max_examples=150)
@given(cases())
def test_map_is_that_of_the_direct_form(case: Case) -> None:
    fast, expected = contribution_map(case.state()), slow(case)
    assert fast.dtype == case.x.dtype
    tolerance = 1e-4 if case.x.dtype == torch.float32 else 1e-9
    assert (fast - expected).abs().max() <= tolerance * expected.max()


def test_heads_that_cancel_leave_no_rounding_behind() -> None:
    case = make_case([6, 6], n_heads=2, head_size=4)
    block = case.block
    for linear in (block.query, block.key, block.value):
        half = linear.weight.data[:4]
        linear.weight.data = torch.cat([half, half])
        linear.bias.data = torch.cat([linear.bias.data[:4]] * 2)
    block.dense.weight.data[:, 4:] = -block.dense.weight.data[:, :4]
    off = ~torch.eye(6, dtype=torch.bool)
    fast, expected = contribution_map(case.state()), slow(case)
    assert expected[:, off].max() < 1e-12
    assert fast[:, off].max() < 1e-6 * expected.max()


def test_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    case = make_case([7, 1, 3], n_heads=3, head_size=4)
    whole = contribution_map(case.state())
    monkeypatch.setattr("recbole_residual.decomposition.maps._CELLS", {"cpu": 1})
    assert torch.equal(contribution_map(case.state()), whole)


@settings(deadline=None, max_examples=30)
@given(cases())
def test_attention_is_averaged_over_heads(case: Case) -> None:
    direct = case.direct()[1]
    expected = direct.weights.mean(1) * case.mask[:, :, None] * case.mask[:, None, :]
    attention = attention_map(case.state())
    torch.testing.assert_close(attention.double(), expected, rtol=0, atol=1e-5)
    torch.testing.assert_close(attention.sum(-1), case.mask.to(attention.dtype))


@settings(deadline=None, max_examples=30)
@given(cases())
def test_map_of_recent_positions_is_the_corner_of_the_whole_map(case: Case) -> None:
    state = case.state()
    whole = contribution_map(state)
    recent = contribution_map(state.take(recent_positions(case.mask, 3)))
    for row, length in enumerate(case.mask.sum(1).tolist()):
        kept = min(length, 3)
        corner = whole[row, length - kept : length, length - kept : length]
        torch.testing.assert_close(recent[row, 3 - kept :, 3 - kept :], corner)
        assert (recent[row, : 3 - kept] == 0).all()
        assert (recent[row, :, : 3 - kept] == 0).all()
