"""Every row is in one share, and in one only."""

from __future__ import annotations

import hypothesis.strategies as st
import torch
from hypothesis import given
from recbole.data.interaction import Interaction

from recbole_residual.trainer.shares import cut_batches, own_parts, own_rows


@given(st.integers(1, 40), st.integers(1, 7))
def test_every_training_row_is_one_process_s(n_rows: int, count: int) -> None:
    batch = Interaction({"row": torch.arange(n_rows)})
    shares = [own_rows(batch, number, count)["row"] for number in range(count)]
    assert torch.cat(shares).sort().values.tolist() == list(range(n_rows))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


@given(st.integers(0, 300), st.integers(1, 100), st.integers(1, 7), st.integers(1, 40))
def test_evaluation_parts_in_the_order_of_processes_are_all_rows(
    n_rows: int, step: int, count: int, fewest: int
) -> None:
    parts = cut_batches(n_rows, step, count, fewest)
    own = [own_parts(parts, number, count) for number in range(count)]
    assert [row for of_one in own for part in of_one for row in part] == list(range(n_rows))
    for part in parts:  # of one batch, and small only where the batch is
        batch = range(part.start // step * step, min(part.start // step * step + step, n_rows))
        assert part.stop <= batch.stop
        assert len(part) >= min(fewest, len(batch))


def test_two_processes_have_about_as_much_to_do() -> None:
    parts = cut_batches(6040, 4096, 2, 32)
    rows = [sum(map(len, own_parts(parts, number, 2))) for number in range(2)]
    assert rows == [3020, 3020]
