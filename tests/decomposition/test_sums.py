"""Sums of ratios over groups of positions, against loops."""

from __future__ import annotations

import torch

from recbole_residual.decomposition.masks import positions_from_end
from recbole_residual.decomposition.sums import all_and_last, counted_from_end, ratio_sums


def test_groups_and_sums_against_loops() -> None:
    generator = torch.Generator().manual_seed(0)
    lengths = [1, 4, 7, 3]
    mask = torch.arange(7) < torch.tensor(lengths).unsqueeze(1)
    ratios = torch.rand(2, 3, 4, 7, generator=generator)
    sums = ratio_sums(ratios, all_and_last(mask))
    back = ratio_sums(ratios, counted_from_end(mask, (0, 2)))
    assert sums.dtype == torch.float64
    for layer in range(2):
        for stage in range(3):
            of = [ratios[layer, stage, row, :n].double() for row, n in enumerate(lengths)]
            expected = torch.stack([sum(r.sum() for r in of), sum(r[-1] for r in of)])
            torch.testing.assert_close(sums[layer, stage], expected)
            expected = torch.stack([expected[1], sum(r[-3] for r in of if len(r) > 2)])
            torch.testing.assert_close(back[layer, stage], expected)


def test_padding_before_the_items_and_rows_without_any() -> None:
    mask = torch.tensor([[False, True, True], [False, False, False]])
    assert all_and_last(mask).sum(dim=(0, 1)).tolist() == [2, 1]
    assert counted_from_end(mask, (0, 1, 2)).sum(dim=(0, 1)).tolist() == [1, 1, 0]
    assert positions_from_end(mask)[0, 1:].tolist() == [1, 0]
