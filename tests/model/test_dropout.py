"""Dropout masks: the right share, independent neighbours, torch's seed."""

from __future__ import annotations

import pytest
import torch

from recbole_residual.model.dropout import keep_mask


@pytest.mark.parametrize("p", [1e-6, 0.1, 0.5, 0.9])
def test_mask_drops_the_right_share_and_keeps_the_mean(p):
    torch.manual_seed(1)
    mask = keep_mask((1001, 333), p, torch.zeros(()))
    values = mask.unique()
    assert len(values) <= 2
    kept = values.max()
    assert kept.item() == pytest.approx(1 / (1 - p), rel=1e-4)
    n = mask.numel()
    assert (mask == 0).double().mean().item() == pytest.approx(
        p, abs=5 * (p * (1 - p) / n) ** 0.5 + 1e-5
    )
    # neighbours come from the same random word and must not know of each other
    zero = (mask == 0).double().flatten()
    both = (zero[1:] * zero[:-1]).mean().item()
    assert both == pytest.approx(p * p, abs=5 * (p / n) ** 0.5)


def test_mask_takes_the_seed_of_torch():
    def draw():
        torch.manual_seed(5)
        return keep_mask((3, 5, 7), 0.3, torch.zeros((), dtype=torch.float64))

    assert torch.equal(draw(), draw())
    assert draw().dtype == torch.float64
