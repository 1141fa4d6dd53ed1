"""Every setting's representations in one pass against the model's own forwards."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from recbole.model.sequential_recommender import BERT4Rec, SASRec

from recbole_residual.evaluator.states import is_plain_sasrec
from recbole_residual.model import SASRecResidual
from recbole_residual.model.residual import scale_residual
from recbole_residual.model.switches import uniform_attention, without_position
from recbole_residual.probe.engine.encoder import SweepEncoder
from recbole_residual.probe.engine.setting import Setting, applied
from recbole_residual.probe.engine.setting_tree import SettingTree
from tests.conftest import random_interaction
from tests.probe.conftest import N_ITEMS, build

CONTROLS = {
    "position": "learned",
    "norm": "post",
    "residual": "attention",
    "attention": "learned",
    "logits_chunk": None,
}


@settings(deadline=None, max_examples=20)
@given(
    seed=st.integers(0, 1000),
    n_layers=st.integers(1, 3),
    n_settings=st.integers(1, 6),
    data=st.data(),
)
@torch.no_grad()
def test_representations_are_those_of_the_model(seed, n_layers, n_settings, data) -> None:
    model = build(seed=seed, n_layers=n_layers)
    factors = st.tuples(*[st.sampled_from([0.0, 0.25, 1.0, 1.5])] * n_layers)
    asked = data.draw(
        st.lists(st.builds(Setting, factors, factors), min_size=1, max_size=n_settings, unique=True)
    )
    rows = random_interaction(9, 7, N_ITEMS, seed)
    item_seq, length = rows["item_id_list"], rows["item_length"]
    encoded = SweepEncoder(model, SettingTree.of(asked), len(asked) - 1, 2).encode(
        item_seq[:, : int(length.max())], length
    )
    for setting, hidden in zip(asked, encoded.hidden):
        with applied(model, setting):
            expected = model.forward(item_seq, length)
        torch.testing.assert_close(hidden, expected, rtol=1e-4, atol=1e-5)
    with applied(model, asked[-1]):
        for back, read in enumerate(encoded.read, start=1):
            expected = model.forward(item_seq, (length - back).clamp(min=1))
            torch.testing.assert_close(read, expected, rtol=1e-4, atol=1e-5)


def test_what_is_a_plain_sasrec() -> None:
    model = build()
    assert is_plain_sasrec(model)
    assert is_plain_sasrec(build(SASRecResidual, alpha=0.3, **CONTROLS))
    with scale_residual(model, 0.5, feed_forward=0.1):
        assert is_plain_sasrec(model)
    with uniform_attention(model):
        assert not is_plain_sasrec(model)
    with without_position(model):
        assert not is_plain_sasrec(model)
    assert is_plain_sasrec(model)


@pytest.mark.parametrize(
    "change",
    [
        {"norm": "pre"},
        {"norm": "pre", "block": "ligr"},
        {"position": "rotary"},
        {"attention": "uniform"},
    ],
)
def test_controls_are_other_networks(change: dict[str, str]) -> None:
    assert not is_plain_sasrec(build(SASRecResidual, **{**CONTROLS, **change}))


def test_other_models_and_changed_subclasses_are_other_networks() -> None:
    class Rescored(SASRec):
        def full_sort_predict(self, interaction):
            return -super().full_sort_predict(interaction)

    class Other(SASRec):
        def forward(self, item_seq, item_seq_len):
            return 2 * super().forward(item_seq, item_seq_len)

    class Same(SASRec):
        pass

    assert not is_plain_sasrec(build(BERT4Rec))
    assert not is_plain_sasrec(build(Rescored))
    assert not is_plain_sasrec(build(Other))
    assert is_plain_sasrec(build(Same))
