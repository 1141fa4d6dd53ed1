"""Perturbed sequences: what moves, what stays, and that nothing depends on the batches."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from recbole.data.interaction import Interaction

from recbole_residual.data.perturbation import SequenceFields, check_mode, perturb
from tests.conftest import random_interaction

FIELDS = SequenceFields("item_id_list", "item_length", 30)
MODES = ("original", "shuffle_prefix", "shuffle_all", "reverse", "drop_last", "random_last")


def sequences(interaction: Interaction) -> list[list[int]]:
    rows = zip(interaction["item_id_list"].tolist(), interaction["item_length"].tolist())
    found = []
    for row, length in rows:
        assert not any(row[length:])
        found.append(row[:length])
    return found


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 2**63), rows=st.integers(1, 12), length=st.integers(1, 9))
def test_what_each_mode_keeps(seed: int, rows: int, length: int) -> None:
    given_rows = random_interaction(rows, length, 30, seed % 1000)
    before = sequences(given_rows)
    after = {mode: sequences(perturb(given_rows, mode, FIELDS, seed=seed)) for mode in MODES}
    after["keep_last_3"] = sequences(perturb(given_rows, "keep_last_3", FIELDS))
    for index, sequence in enumerate(before):
        assert after["original"][index] == sequence
        shuffled = after["shuffle_prefix"][index]
        assert shuffled[-1] == sequence[-1]
        assert sorted(shuffled) == sorted(sequence)
        assert sorted(after["shuffle_all"][index]) == sorted(sequence)
        assert after["reverse"][index] == sequence[::-1]
        assert after["drop_last"][index] == (sequence[:-1] or sequence)
        replaced = after["random_last"][index]
        assert replaced[:-1] == sequence[:-1]
        assert replaced[-1] != sequence[-1]
        assert 1 <= replaced[-1] < FIELDS.n_items
        assert after["keep_last_3"][index] == sequence[-3:]
    assert sequences(given_rows) == before


@pytest.mark.parametrize("mode", ["shuffle_prefix", "shuffle_all", "random_last"])
def test_draws_depend_on_the_seed_and_not_on_the_batch(mode: str) -> None:
    rows = random_interaction(40, 9)
    whole = sequences(perturb(rows, mode, FIELDS, seed=3))
    parts = []
    for start in range(0, 40, 7):
        part = perturb(rows[start : start + 7], mode, FIELDS, seed=3, first_row=start)
        parts += sequences(part)
    assert parts == whole
    assert sequences(perturb(rows, mode, FIELDS, seed=4)) != whole


def test_every_order_and_every_item_is_as_likely_as_the_others() -> None:
    n_rows = 6000
    rows = Interaction(
        {
            "item_id_list": torch.tensor([[1, 2, 3, 0]]).expand(n_rows, -1),
            "item_length": torch.full((n_rows,), 3),
        }
    )
    orders = perturb(rows, "shuffle_all", FIELDS, seed=1)["item_id_list"]
    _, counts = torch.unique(orders, dim=0, return_counts=True)
    assert len(counts) == 6
    assert (counts - 1000).abs().max() < 150  # five standard deviations are 144
    fields = SequenceFields("item_id_list", "item_length", 6)
    last = perturb(rows, "random_last", fields, seed=1)["item_id_list"][:, 2]
    counts = torch.bincount(last, minlength=6)
    assert counts[3] == 0
    assert (counts[[1, 2, 4, 5]] - 1500).abs().max() < 170


def test_other_values_per_position_move_along() -> None:
    rows = random_interaction(20, 8)
    rows.update(
        Interaction(
            {
                "time_list": rows["item_id_list"].float() * 10,
                "pair_list": torch.stack([rows["item_id_list"], -rows["item_id_list"]], dim=2),
                "user_id": torch.arange(20),
            }
        )
    )
    for mode in ("shuffle_all", "shuffle_prefix", "reverse", "keep_last_2", "drop_last"):
        found = perturb(rows, mode, FIELDS, seed=5)
        assert torch.equal(found["time_list"], found["item_id_list"].float() * 10)
        assert torch.equal(found["pair_list"][:, :, 1], -found["item_id_list"])
        assert torch.equal(found["user_id"], rows["user_id"])
        assert torch.equal(found["item_id"], rows["item_id"])


@pytest.mark.parametrize("mode", ["shuffle", "keep_last_0", "keep_last_", "keep_last_-1"])
def test_unknown_modes_are_refused(mode: str) -> None:
    with pytest.raises(ValueError, match="unknown mode"):
        check_mode(mode)


def test_a_catalogue_of_one_item_has_no_other() -> None:
    with pytest.raises(ValueError, match="two items"):
        perturb(
            random_interaction(2, 3, 2),
            "random_last",
            SequenceFields("item_id_list", "item_length", 2),
        )
