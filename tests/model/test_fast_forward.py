"""The fast forward against RecBole's modules: values, gradients, dropout, when it steps aside."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from hypothesis import given, settings
from hypothesis import strategies as st
from recbole.model.sequential_recommender import SASRec
from torch import nn

from recbole_residual.model.fast_forward import (
    Packing,
    can_run_fast,
    packed_positions,
)
from recbole_residual.model.residual import scale_residual
from recbole_residual.model.sasrec_residual import SASRecResidual
from tests.conftest import TinyDataset, tiny_config


def make_model(dropout=0.0, model_class=SASRecResidual, **changes):
    torch.manual_seed(3)
    config = tiny_config(
        MAX_ITEM_LIST_LENGTH=9,
        hidden_size=8,
        inner_size=12,
        hidden_dropout_prob=dropout,
        attn_dropout_prob=dropout,
        **changes,
    )
    return model_class(config, TinyDataset(23))


def make_batch(lengths, width=None):
    generator = torch.Generator().manual_seed(sum(lengths))
    width = width or max(lengths)
    items = torch.randint(1, 23, (len(lengths), width), generator=generator)
    lengths = torch.tensor(lengths)
    return items.masked_fill(torch.arange(width) >= lengths.unsqueeze(1), 0), lengths


def slow_positions(model, item_seq, item_seq_len):
    return model.all_positions(item_seq, item_seq_len)[item_seq > 0]


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=5),
    st.sampled_from(["gelu", "relu", "swish", "tanh", "sigmoid"]),
    st.sampled_from([(1, 1), (2, 2), (3, 4)]),
    st.sampled_from([1.0, 0.3, 0.0]),
    st.sampled_from(["post", "pre", "ligr"]),
    st.sampled_from([1.0, "learned"]),
)
def test_values_and_gradients_are_recboles(lengths, act, shape, alpha, block, alpha_train):
    changes = {"hidden_act": act, "n_layers": shape[0], "n_heads": shape[1]}
    model = make_model(block=block, alpha_train=alpha_train, **changes).double()
    with torch.no_grad():  # LayerNorms that differ, and gates with a bias
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    item_seq, item_seq_len = make_batch(lengths)
    results = []
    with scale_residual(model, alpha, feed_forward=1.5):
        assert can_run_fast(model)
        for forward in (
            lambda: packed_positions(model, item_seq, Packing(item_seq)),
            lambda: slow_positions(model, item_seq, item_seq_len),
        ):
            model.zero_grad()
            hidden = forward()
            (hidden * torch.arange(1.0, 9.0)).sin().sum().backward()
            results.append([hidden] + [parameter.grad for parameter in model.parameters()])
    for fast, slow in zip(*results):
        torch.testing.assert_close(fast, slow, rtol=1e-9, atol=1e-12)


def test_float32_within_1e6_in_evaluation():
    model = make_model(dropout=0.5, initializer_range=0.02).eval()
    item_seq, item_seq_len = make_batch([9, 1, 4, 7])
    fast = packed_positions(model, item_seq, Packing(item_seq))
    torch.testing.assert_close(
        fast, slow_positions(model, item_seq, item_seq_len), rtol=0, atol=1e-6
    )


@pytest.mark.parametrize("block", ["post", "pre", "ligr"])
def test_dropout_is_recboles_on_average(block):
    model = make_model(dropout=0.2, n_layers=1, block=block).train()
    item_seq, item_seq_len = make_batch([9, 5])
    torch.manual_seed(0)
    n = 3000
    many = item_seq.repeat(n, 1)
    packing = Packing(many)
    with torch.no_grad():
        fast = packed_positions(model, many, packing).view(n, -1)
        slow = slow_positions(model, many, item_seq_len.repeat(n)).view(n, -1)
    error = slow.std(0) * (2 / n) ** 0.5
    assert ((fast.mean(0) - slow.mean(0)).abs() < 5 * error).all()
    torch.testing.assert_close(fast.std(0), slow.std(0), rtol=0.1, atol=0.02)


def test_packing_and_unpacking():
    item_seq, _ = make_batch([3, 1, 5])
    packing = Packing(item_seq)
    padded = torch.randn(15, 2, dtype=torch.float64, requires_grad=True)
    assert torch.equal(packing.pack(padded), padded[item_seq.flatten() > 0])
    assert torch.autograd.gradcheck(packing.pack, (padded,))
    packed = torch.randn(9, 2, dtype=torch.float64, requires_grad=True)
    assert torch.equal(packing.unpack(packed)[item_seq.flatten() > 0], packed)
    assert (packing.unpack(packed)[item_seq.flatten() == 0] == 0).all()
    assert torch.autograd.gradcheck(packing.unpack, (packed,))


class OtherForward(SASRecResidual):
    def forward(self, item_seq, item_seq_len):
        return 2 * super().forward(item_seq, item_seq_len)


class OtherMask(SASRecResidual):
    def get_attention_mask(self, item_seq, bidirectional=False):
        return super().get_attention_mask(item_seq, bidirectional=True)


def replace_block(model):
    model.trm_encoder.layer[1].feed_forward.dense_2 = nn.Bilinear(2, 2, 2)


def hook(model):
    model.trm_encoder.layer[0].register_forward_hook(lambda *args: None)


def patch(model):
    model.position_embedding.forward = lambda ids: torch.zeros(1, ids.shape[1], 8)


@pytest.mark.parametrize("change", [replace_block, hook, patch])
def test_steps_aside_for_a_changed_model(change):
    model = make_model()
    assert can_run_fast(model)
    change(model)
    assert not can_run_fast(model)


@pytest.mark.parametrize("model_class", [OtherForward, OtherMask])
def test_steps_aside_for_a_changed_class(model_class):
    assert not can_run_fast(make_model(model_class=model_class))


def test_plain_sasrec_runs_fast_and_others_do_not():
    assert can_run_fast(make_model(model_class=SASRec))
    assert not can_run_fast(nn.Linear(2, 2))


def test_gelu_is_recboles():
    x = torch.linspace(-6, 6, 1001)
    block = make_model().trm_encoder.layer[0].feed_forward
    torch.testing.assert_close(F.gelu(x), block.gelu(x), rtol=0, atol=1e-6)
