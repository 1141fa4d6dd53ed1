"""The chunked loss against torch's cross-entropy on all scores at once."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from hypothesis import given, settings
from hypothesis import strategies as st
from recbole.model.loss import BPRLoss

from recbole_residual.model import loss
from recbole_residual.model.loss import linear_cross_entropy, pairwise_loss, rows_per_chunk


def case(n_rows, n_items, width, dtype=torch.float64, seed=0, scale=1.0):
    generator = torch.Generator().manual_seed(seed)
    hidden = torch.randn(n_rows, width, dtype=dtype, generator=generator) * scale
    weight = torch.randn(n_items, width, dtype=dtype, generator=generator) * scale
    targets = torch.randint(0, n_items, (n_rows,), generator=generator)
    return hidden.requires_grad_(), weight.requires_grad_(), targets


def gradients(value, *inputs):
    return torch.autograd.grad(value, inputs)


@settings(deadline=None, max_examples=60)
@given(
    st.integers(1, 40),
    st.integers(1, 12),
    st.integers(1, 6),
    st.integers(1, 200),
    st.integers(0, 9),
)
def test_value_and_gradients_are_torchs(n_rows, n_items, width, chunk, seed):
    hidden, weight, targets = case(n_rows, n_items, width, seed=seed)
    ours = linear_cross_entropy(hidden, weight, targets, chunk)
    theirs = F.cross_entropy(hidden @ weight.t(), targets)
    torch.testing.assert_close(ours, theirs)
    for mine, other in zip(
        gradients(3 * ours, hidden, weight), gradients(3 * theirs, hidden, weight)
    ):
        torch.testing.assert_close(mine, other)


def test_gradcheck():
    hidden, weight, targets = case(7, 5, 3)
    assert torch.autograd.gradcheck(
        lambda h, w: linear_cross_entropy(h, w, targets, logits_chunk=10), (hidden, weight)
    )


@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0])
def test_float32_with_small_and_huge_scores(scale):
    hidden, weight, targets = case(50, 80, 8, torch.float32, scale=scale)
    exact = F.cross_entropy(hidden.double() @ weight.double().t(), targets)
    ours = linear_cross_entropy(hidden, weight, targets, 300)
    torch.testing.assert_close(ours.double(), exact, rtol=1e-5, atol=0)
    assert all(torch.isfinite(g).all() for g in gradients(ours, hidden, weight))


@pytest.mark.parametrize("frozen", ["hidden", "weight", "both"])
def test_what_is_frozen_gets_no_gradient(frozen):
    hidden, weight, targets = case(9, 6, 4)
    expected = gradients(F.cross_entropy(hidden @ weight.t(), targets), hidden, weight)
    ours = linear_cross_entropy(
        hidden.detach() if frozen != "weight" else hidden,
        weight.detach() if frozen != "hidden" else weight,
        targets,
        12,
    )
    if frozen == "both":
        assert not ours.requires_grad
    elif frozen == "hidden":
        torch.testing.assert_close(gradients(ours, weight)[0], expected[1])
    else:
        torch.testing.assert_close(gradients(ours, hidden)[0], expected[0])


def test_autocast_computes_in_half_precision_and_sums_in_single():
    hidden, weight, targets = case(60, 90, 16, torch.float32)
    exact = linear_cross_entropy(hidden, weight, targets)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half = linear_cross_entropy(hidden, weight, targets, 1000)
    assert half.dtype == torch.float32
    torch.testing.assert_close(half, exact, rtol=2e-2, atol=0)
    for mine, other in zip(gradients(half, hidden, weight), gradients(exact, hidden, weight)):
        assert mine.dtype == torch.float32
        torch.testing.assert_close(mine, other, rtol=0.1, atol=2e-3)


@settings(deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 10**6), st.integers(1, 2**27))
def test_chunks_stay_within_the_bound(n_rows, n_items, logits_chunk):
    for device in ("cpu", "meta"):
        rows = rows_per_chunk(n_rows, n_items, logits_chunk, torch.device(device))
        assert rows >= 1
        assert rows == 1 or rows * n_items <= logits_chunk


def test_never_holds_more_scores_than_the_bound(monkeypatch):
    largest = 0
    real = torch.mm

    def watched(*args, **kwargs):
        nonlocal largest
        result = real(*args, **kwargs)
        if result.shape[-1] == 90:
            largest = max(largest, result.numel())
        return result

    monkeypatch.setattr(loss.torch, "mm", watched)
    hidden, weight, targets = case(500, 90, 4, torch.float32)
    linear_cross_entropy(hidden, weight, targets, 1000).backward()
    assert 0 < largest <= 1000


@settings(deadline=None)
@given(st.integers(1, 20), st.integers(1, 4), st.integers(0, 9))
def test_bpr_is_recboles_on_all_pairs(n_rows, n_negatives, seed):
    hidden, weight, targets = case(n_rows, 7, 3, seed=seed)
    negatives = torch.randint(
        0, 7, (n_rows, n_negatives), generator=torch.Generator().manual_seed(seed)
    )
    ours = pairwise_loss(hidden, weight, targets, negatives)
    positive = (hidden * weight[targets]).sum(-1)
    pairs = [(positive, (hidden * weight[negatives[:, i]]).sum(-1)) for i in range(n_negatives)]
    theirs = BPRLoss()(*(torch.cat(side) for side in zip(*pairs)))
    torch.testing.assert_close(ours, theirs)
    for mine, other in zip(gradients(ours, hidden, weight), gradients(theirs, hidden, weight)):
        torch.testing.assert_close(mine, other)
