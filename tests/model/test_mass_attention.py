"""attention_norm_p: softmax at 1, the norm of the exponentials elsewhere, in every path."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from recbole.data.interaction import Interaction
from recbole.model.sequential_recommender import SASRec
from torch import nn

from recbole_residual.decomposition import decompose, observe, score_shares
from recbole_residual.errors import ModelError
from recbole_residual.evaluator.sasrec_states import sasrec_states
from recbole_residual.evaluator.states import is_plain_sasrec
from recbole_residual.model import SASRecResidual
from recbole_residual.model.fast_forward import can_run_fast
from recbole_residual.model.mass_attention import MassAwareSoftmax
from recbole_residual.model.objective import target_list_field
from recbole_residual.model.residual import scale_residual
from recbole_residual.model.switches import uniform_attention
from recbole_residual.probe.engine.encoder import SweepEncoder
from recbole_residual.probe.engine.setting import ScalableResiduals
from recbole_residual.probe.engine.setting_tree import SettingTree
from tests.conftest import TinyDataset, random_interaction, tiny_config


def built(p: float = 2.0, **changes: Any) -> Any:
    torch.manual_seed(0)
    return SASRecResidual(tiny_config(attention_norm_p=p, **changes), TinyDataset(30)).eval()


def written_out(model: Any, item_seq: torch.Tensor, p: float, alpha: float = 1.0) -> torch.Tensor:
    """SASRec without RecBole's blocks, weights divided by their norm, one query after the other."""
    length = item_seq.shape[1]
    x = model.item_embedding(item_seq) + model.position_embedding.weight[:length]
    x = model.LayerNorm(x)
    for layer in model.trm_encoder.layer:
        block, ffn = layer.multi_head_attention, layer.feed_forward
        heads = (block.num_attention_heads, block.attention_head_size)
        query, key, value = (
            linear(x).unflatten(-1, heads) for linear in (block.query, block.key, block.value)
        )
        outputs = []
        for i in range(length):
            scores = torch.einsum("bhw,bjhw->bhj", query[:, i], key[:, : i + 1]).double()
            exps = torch.exp(scores / heads[1] ** 0.5)
            weights = exps / exps.pow(p).sum(-1, keepdim=True).pow(1 / p)
            outputs.append(torch.einsum("bhj,bjhw->bhw", weights.float(), value[:, : i + 1]))
        x = block.LayerNorm(block.dense(torch.stack(outputs, 1).flatten(-2)) + alpha * x)
        written = ffn.dense_2(ffn.intermediate_act_fn(ffn.dense_1(x)))
        x = ffn.LayerNorm(written + x)
    return x


def test_one_is_recboles_sasrec_bit_for_bit() -> None:
    model, plain = built(p=1), SASRec(tiny_config(), TinyDataset(30)).eval()
    plain.load_state_dict(model.state_dict())
    interaction = random_interaction()
    assert torch.equal(model.full_sort_predict(interaction), plain.full_sort_predict(interaction))
    assert all(type(module) is not MassAwareSoftmax for module in model.modules())
    assert model.attention_norm_p == 1
    assert built(p=3).state_dict().keys() == plain.state_dict().keys()


@torch.no_grad()
@pytest.mark.parametrize("p", [1.5, 2, 6])
def test_scores_are_those_written_out(p: float) -> None:
    model = built(p)
    interaction = random_interaction(rows=9)
    item_seq, item_seq_len = interaction["item_id_list"], interaction["item_length"]
    for alpha in (1.0, 0.3):
        hidden = written_out(model, item_seq, p, alpha)
        expected = hidden[torch.arange(9), item_seq_len - 1] @ model.item_embedding.weight.t()
        with scale_residual(model, alpha):
            scores = model.full_sort_predict(interaction)
        torch.testing.assert_close(scores, expected, rtol=1e-4, atol=1e-4)
        assert not torch.allclose(scores, built(1).full_sort_predict(interaction), atol=1e-2)


@settings(deadline=None, max_examples=40)
@given(
    p=st.floats(1, 50),
    size=st.sampled_from([1.0, 1e2, 1e4]),
    n=st.integers(1, 9),
    seed=st.integers(0, 999),
)
def test_weights_are_stable_in_float32(p: float, size: float, n: int, seed: int) -> None:
    scores = torch.randn(3, n, generator=torch.Generator().manual_seed(seed)) * size
    scores[:, 0] -= 10000.0  # RecBole's mask
    weights = MassAwareSoftmax(p)(scores)
    exact = scores.double()
    exact = torch.exp(exact - torch.logsumexp(p * exact, -1, keepdim=True) / p)
    assert (weights <= 1 + 1e-2).all()
    torch.testing.assert_close(weights, exact.float(), rtol=1e-2, atol=1e-5)


def test_repeated_evidence_grows_the_output() -> None:
    for n in (1, 4, 9):
        assert MassAwareSoftmax(2.0)(torch.full((n,), 0.7)).sum().item() == pytest.approx(n**0.5)
        assert MassAwareSoftmax(1.0)(torch.full((n,), 0.7)).sum().item() == pytest.approx(1)


@torch.no_grad()
def test_the_decomposition_is_complete_and_rows_do_not_sum_to_one() -> None:
    model = built().double()
    interaction = random_interaction(rows=9)
    with scale_residual(model, 0.4):
        decomposition = decompose(model, interaction, maps=True, parts=True)
        shares = score_shares(model, interaction)
    completeness = decomposition.completeness()
    assert (completeness.error <= 1e-10 * completeness.largest).all()
    torch.testing.assert_close(shares.total, shares.score)
    assert decomposition.attention is not None
    rows = decomposition.attention.sum(dim=-1)[:, decomposition.mask]
    assert (rows >= 1 - 1e-9).all()
    assert rows.max() > 1.2


@pytest.mark.parametrize("p", [1.5, 3])
def test_training_at_all_positions_is_fast_and_trains_the_control(p: float) -> None:
    model = built(p).train()
    assert can_run_fast(model)
    interaction = random_interaction(rows=9)
    item_seq = interaction["item_id_list"]
    targets = torch.randint(1, 30, item_seq.shape) * (item_seq > 0)
    batch = Interaction({**interaction.interaction, target_list_field("item_id_list"): targets})
    loss = model.calculate_loss(batch)
    logits = written_out(model, item_seq, p)[item_seq > 0] @ model.item_embedding.weight.t()
    expected = nn.functional.cross_entropy(logits, targets[item_seq > 0])
    torch.testing.assert_close(loss, expected, rtol=1e-4, atol=0)
    mine = torch.autograd.grad(loss, list(model.parameters()))
    theirs = torch.autograd.grad(expected, list(model.parameters()))
    for ours, direct in zip(mine, theirs):
        torch.testing.assert_close(ours, direct, rtol=1e-3, atol=1e-5)
    dropping = built(p, attn_dropout_prob=0.5).train()
    assert torch.isfinite(dropping.calculate_loss(batch))


@torch.no_grad()
def test_the_sweep_of_many_settings_at_once_is_right() -> None:
    model = built(2.5)
    assert is_plain_sasrec(model)
    interaction = random_interaction(rows=9)
    item_seq, item_seq_len = interaction["item_id_list"], interaction["item_length"]
    residuals = ScalableResiduals.of(model)
    sweep = [residuals.setting(alpha) for alpha in (1.0, 0.0, 0.3, [0.2, 0.9])]
    encoded = SweepEncoder(model, SettingTree.of(sweep), 0, 1).encode(item_seq, item_seq_len)
    for index, setting in enumerate(sweep):
        ratios: list[torch.Tensor] = []
        with (
            scale_residual(model, list(setting.alpha)),
            observe(model, lambda d, ratios=ratios: ratios.append(d.ratios)),
        ):
            hidden = model(item_seq, item_seq_len)
            states = sasrec_states(model, item_seq, item_seq_len, (0, 1))
        torch.testing.assert_close(states[:9], hidden, rtol=1e-4, atol=1e-4)
        with scale_residual(model, list(setting.alpha)):
            before = model(item_seq, (item_seq_len - 1).clamp(min=1))
        torch.testing.assert_close(states[9:], before, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(encoded.hidden[index], hidden, rtol=1e-4, atol=1e-4)
        total = ratios[0].double().sum(dim=(2, 3))[0]
        node = SettingTree.of(sweep).paths[index][0]
        torch.testing.assert_close(encoded.ratio_sums[0][node, :, 0], total, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("p", [0.5, 0, -1, float("inf"), float("nan"), "2", True])
def test_what_is_no_norm_is_refused(p: Any) -> None:
    with pytest.raises(ModelError, match="attention_norm_p"):
        built(p)


def test_uniform_attention_and_another_norm_exclude_each_other() -> None:
    with pytest.raises(ModelError, match="no average"):
        built(2, attention="uniform")
    model = built(2)
    with pytest.raises(ModelError, match="no average"):
        model.attention = "uniform"
    assert model.attention == "learned"
    with pytest.raises(ModelError, match="no average"), uniform_attention(model):
        pass
