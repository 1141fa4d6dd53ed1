"""alpha on RecBole's own models: exact at 1, right elsewhere, and gone afterwards."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from recbole.model.layers import MultiHeadAttention, TransformerEncoder
from recbole.model.sequential_recommender import BERT4Rec, GRU4Rec, SASRec
from torch import nn

from recbole_residual import SASRecResidual, residual_alpha, scale_residual
from recbole_residual.errors import NoAttentionError
from recbole_residual.model.architecture.blocks import attention_blocks, feed_forward_blocks
from recbole_residual.model.residual import check_alpha
from tests.conftest import TinyDataset, random_interaction, tiny_config


def hooks_of(model: nn.Module) -> int:
    return sum(
        len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules()
    )


def direct_block(block: MultiHeadAttention, x: torch.Tensor, mask: torch.Tensor, alpha: float):
    """The formula of the paper written out, without RecBole's forward."""
    batch, length, size = x.shape
    heads, width = block.num_attention_heads, block.attention_head_size

    def split(linear: nn.Linear) -> torch.Tensor:
        return linear(x).view(batch, length, heads, width).transpose(1, 2)

    query, key, value = split(block.query), split(block.key), split(block.value)
    weights = torch.softmax(query @ key.transpose(-1, -2) / width**0.5 + mask, dim=-1)
    received = (weights @ value).transpose(1, 2).reshape(batch, length, size)
    z = alpha * x + block.dense(received)
    centred = z - z.mean(-1, keepdim=True)
    sigma = (centred.pow(2).mean(-1, keepdim=True) + block.LayerNorm.eps).sqrt()
    return block.LayerNorm.weight * centred / sigma + block.LayerNorm.bias


@pytest.fixture
def models() -> tuple[SASRec, SASRecResidual]:
    """RecBole's SASRec and ours with the same weights."""
    torch.manual_seed(0)
    theirs = SASRec(tiny_config(), TinyDataset(30)).eval()
    ours = SASRecResidual(tiny_config(), TinyDataset(30)).eval()
    ours.load_state_dict(theirs.state_dict())
    return theirs, ours


def test_alpha_one_is_recboles_sasrec_bit_for_bit(models) -> None:
    theirs, ours = models
    interaction = random_interaction()
    assert torch.equal(ours.full_sort_predict(interaction), theirs.full_sort_predict(interaction))
    assert torch.equal(ours.predict(interaction), theirs.predict(interaction))
    assert hooks_of(ours) == 0


def test_same_seed_gives_the_same_weights_whatever_alpha_is() -> None:
    weights = []
    for alpha in (1.0, 0.3):
        torch.manual_seed(1)
        weights.append(SASRecResidual(tiny_config(alpha=alpha), TinyDataset(30)).state_dict())
    assert weights[0].keys() == weights[1].keys()
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_a_context_wins_over_an_alpha_that_is_set_inside_it(models) -> None:
    theirs, ours = models
    interaction = random_interaction()

    def expected(alpha: float) -> torch.Tensor:
        with scale_residual(theirs, alpha):
            return theirs.full_sort_predict(interaction)

    for inside in (0.3, 1.0):
        with scale_residual(ours, inside):
            ours.alpha = 0.7
            assert ours.alpha == [0.7, 0.7]
            assert residual_alpha(ours) == [inside, inside]
            assert torch.equal(ours.full_sort_predict(interaction), expected(inside))
            with ours.as_trained():
                assert residual_alpha(ours) == [1.0, 1.0]
                ours.alpha = 0.7
                assert residual_alpha(ours) == [1.0, 1.0]
        assert torch.equal(ours.full_sort_predict(interaction), expected(0.7))
    ours.alpha = 1
    assert hooks_of(ours) == 0


def test_models_own_alpha_is_in_force_and_a_context_overrides_it(models) -> None:
    theirs, ours = models
    interaction = random_interaction()
    plain = theirs.full_sort_predict(interaction)
    ours.alpha = [0.2, 1.0]
    assert residual_alpha(ours) == [0.2, 1.0]
    with scale_residual(theirs, [0.2, 1.0]):
        expected = theirs.full_sort_predict(interaction)
    assert not torch.allclose(expected, plain)
    assert torch.equal(ours.full_sort_predict(interaction), expected)
    with scale_residual(ours, 1):
        assert torch.equal(ours.full_sort_predict(interaction), plain)
    assert torch.equal(ours.full_sort_predict(interaction), expected)
    ours.alpha = 1
    assert hooks_of(ours) == 0


@settings(deadline=None, max_examples=30)
@given(
    alpha=st.floats(0, 2),
    heads=st.sampled_from([1, 2, 4]),
    length=st.integers(1, 6),
    seed=st.integers(0, 10_000),
)
def test_scaled_block_is_the_formula(alpha: float, heads: int, length: int, seed: int) -> None:
    torch.manual_seed(seed)
    block = MultiHeadAttention(heads, 8, 0.5, 0.5, 1e-12).double().eval()
    nn.init.normal_(block.LayerNorm.weight)
    nn.init.normal_(block.LayerNorm.bias)
    x = torch.randn(3, length, 8, dtype=torch.float64)
    mask = torch.full((length, length), -10000.0, dtype=torch.float64).triu(1)
    with scale_residual(block, alpha):
        scaled = block(x, mask)
    assert torch.allclose(scaled, direct_block(block, x, mask, alpha), atol=1e-9)


def test_every_layer_gets_its_own_factor_and_nesting_restores(models) -> None:
    theirs, _ = models
    with scale_residual(theirs, [0.1, 0.2]):
        with scale_residual(theirs, 0.5):
            assert residual_alpha(theirs) == [0.5, 0.5]
            with scale_residual(theirs, 1):
                assert residual_alpha(theirs) == [1, 1]
        assert residual_alpha(theirs) == [0.1, 0.2]
    assert residual_alpha(theirs) == [1, 1]
    assert hooks_of(theirs) == 0


def test_nested_one_gives_recboles_scores_again(models) -> None:
    theirs, _ = models
    interaction = random_interaction()
    plain = theirs.full_sort_predict(interaction)
    with scale_residual(theirs, 0), scale_residual(theirs, 1):
        assert torch.equal(theirs.full_sort_predict(interaction), plain)


def test_an_exception_leaves_no_hook(models) -> None:
    theirs, _ = models
    with pytest.raises(RuntimeError, match="inside"), scale_residual(theirs, 0.3):
        raise RuntimeError("inside")
    assert hooks_of(theirs) == 0
    assert all("_residual_scaling" not in vars(block) for block in attention_blocks(theirs))


def test_a_forward_that_fails_half_way_does_not_poison_the_next(models) -> None:
    theirs, _ = models
    interaction = random_interaction()
    with scale_residual(theirs, 0.3):
        expected = theirs.full_sort_predict(interaction)
        block = attention_blocks(theirs)[0]
        with pytest.raises(RuntimeError):
            block(torch.randn(2, 3, 7), torch.zeros(3, 3))
        assert torch.equal(theirs.full_sort_predict(interaction), expected)


def test_contexts_may_end_in_any_order(models) -> None:
    theirs, _ = models
    first, second = scale_residual(theirs, 0.1), scale_residual(theirs, 0.2)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert residual_alpha(theirs) == [0.2, 0.2]
    second.__exit__(None, None, None)
    assert hooks_of(theirs) == 0


def test_feed_forward_residual(models) -> None:
    theirs, _ = models
    block = feed_forward_blocks(theirs)[0]
    x = torch.randn(2, 4, 16)
    with scale_residual(theirs, feed_forward=0.5):
        scaled = block(x)
        assert residual_alpha(theirs) == [1, 1]
    branch = block.dense_2(block.intermediate_act_fn(block.dense_1(x)))
    assert torch.allclose(scaled, block.LayerNorm(branch + 0.5 * x), atol=1e-6)
    assert hooks_of(theirs) == 0


def test_bidirectional_model() -> None:
    model = BERT4Rec(tiny_config(), TinyDataset(30)).eval()
    interaction = random_interaction()
    plain = model.full_sort_predict(interaction)
    with scale_residual(model, 0.5):
        assert not torch.allclose(model.full_sort_predict(interaction), plain)
    assert torch.equal(model.full_sort_predict(interaction), plain)


def test_copies_and_pickles_keep_their_own_alpha(models) -> None:
    _, ours = models
    interaction = random_interaction()
    ours.alpha = 0.3
    expected = ours.full_sort_predict(interaction)
    for other in (copy.deepcopy(ours), pickle.loads(pickle.dumps(ours))):
        assert torch.equal(other.full_sort_predict(interaction), expected)
        other.alpha = 1
        assert hooks_of(other) == 0
    assert torch.equal(ours.full_sort_predict(interaction), expected)


def test_training_through_a_scaled_residual_has_gradients() -> None:
    encoder = TransformerEncoder(2, 2, 8, 16, 0.5, 0.5)
    x = torch.randn(2, 4, 8, requires_grad=True)
    with scale_residual(encoder, 0.5):
        encoder(x, torch.zeros(4, 4))[-1].sum().backward()
    assert x.grad is not None


def test_model_without_attention_is_refused() -> None:
    gru = GRU4Rec(tiny_config(embedding_size=8, num_layers=1, dropout_prob=0.0), TinyDataset(30))
    with pytest.raises(NoAttentionError, match=r"GRU4Rec.*SASRec"), scale_residual(gru, 0.5):
        pass


@pytest.mark.parametrize(
    "alpha", [-1, float("nan"), float("inf"), "abc", None, True, [0.5], [0.5, 0.5, 0.5], [1, "x"]]
)
def test_unusable_alpha_is_refused(alpha) -> None:
    with pytest.raises(ValueError, match="alpha"):
        check_alpha(alpha, 2)


def test_all_positions_agree_with_the_last(models) -> None:
    _, ours = models
    interaction = random_interaction()
    item_seq, item_seq_len = interaction["item_id_list"], interaction["item_length"]
    everything = ours.all_positions(item_seq, item_seq_len)
    assert everything.shape == (5, 8, 16)
    last = everything[torch.arange(5), item_seq_len - 1]
    assert torch.equal(last, ours(item_seq, item_seq_len))
