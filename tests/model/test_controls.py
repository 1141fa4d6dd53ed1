"""The controls against forwards written out by hand, at inference and in training."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from recbole.data.interaction import Interaction
from recbole.model.sequential_recommender import SASRec
from torch import nn

from recbole_residual.config.residual_config import ResidualConfig
from recbole_residual.errors import ConfigError, ModelError
from recbole_residual.model import SASRecResidual, SASRecUniform
from recbole_residual.model.controls import rotate
from recbole_residual.model.fast_forward import can_run_fast
from recbole_residual.model.objective import target_list_field
from recbole_residual.model.residual import scale_residual
from recbole_residual.model.switches import uniform_attention, without_position
from tests.conftest import TinyDataset, random_interaction, tiny_config

CHANGES: list[dict[str, Any]] = [
    {"position": "none"},
    {"position": "rotary"},
    {"norm": "pre"},
    {"norm": "pre", "position": "rotary", "residual": "attention+ffn", "alpha": [0.4, 0.7]},
    {"norm": "post", "position": "rotary", "residual": "attention+ffn", "alpha": 0.0},
    {"norm": "pre", "position": "none", "alpha": 0.3},
]


def written_out(model: Any, item_seq: torch.Tensor, uniform: bool = False, **choice: Any):
    """SASRec with its controls, position by position and head by head, [B, L, D], no dropout."""
    alpha = choice.get("alpha", 1.0)
    alphas = alpha if isinstance(alpha, list) else [alpha] * len(model.trm_encoder.layer)
    position, norm = choice.get("position", "learned"), choice.get("norm", "post")
    outputs = []
    for items in item_seq:
        x = model.item_embedding(items)
        if position == "learned":
            x = x + model.position_embedding.weight[: len(items)]
        stream = x
        x = normed(model.LayerNorm, x)
        for layer, scale in zip(model.trm_encoder.layer, alphas):
            block, feed = layer.multi_head_attention, layer.feed_forward
            carried = stream if norm == "pre" else x
            stream = scale * carried + attend(block, x, position == "rotary", uniform)
            x = normed(block.LayerNorm, stream)
            if choice.get("residual") != "attention+ffn":
                scale = 1.0
            carried = stream if norm == "pre" else x
            inner = feed.intermediate_act_fn(feed.dense_1(x))
            stream = scale * carried + feed.dense_2(inner)
            x = normed(feed.LayerNorm, stream)
        outputs.append(x)
    return torch.stack(outputs)


def normed(norm: nn.LayerNorm, x: torch.Tensor) -> torch.Tensor:
    """Without the module's hooks."""
    centred = x - x.mean(-1, keepdim=True)
    return norm.weight * centred / (centred.pow(2).mean(-1, keepdim=True) + norm.eps).sqrt()


def turned(vector: torch.Tensor, position: int) -> torch.Tensor:
    """Rotary embedding of one head, pair by pair, in complex numbers."""
    half = len(vector) // 2
    result = torch.empty_like(vector)
    for k in range(half):
        angle = torch.tensor(position * 10000.0 ** (-k / half))
        unit = torch.polar(torch.tensor(1.0), angle)
        pair = torch.complex(vector[k], vector[k + half]) * unit
        result[k], result[k + half] = pair.real, pair.imag
    return result


def attend(block: nn.Module, x: torch.Tensor, rotary: bool, uniform: bool) -> torch.Tensor:
    heads = block.num_attention_heads
    query, key, value = (
        nn.functional.linear(x, part.weight, part.bias).unflatten(-1, (heads, -1))
        for part in (block.query, block.key, block.value)
    )
    rows = []
    for i in range(len(x)):
        context = []
        for h in range(heads):
            q, keys = query[i, h], key[: i + 1, h]
            if rotary:
                q = turned(q, i)
                keys = torch.stack([turned(k, j) for j, k in enumerate(keys)])
            scores = keys @ q / q.shape[0] ** 0.5
            weights = torch.softmax(scores * (not uniform), dim=0)
            context.append(weights @ value[: i + 1, h])
        rows.append(block.dense(torch.cat(context)))
    return torch.stack(rows)


def built(model_class: type = SASRecResidual, **changes: Any) -> Any:
    torch.manual_seed(0)
    if model_class is SASRecUniform:
        changes["attention"] = "uniform"
    return model_class(tiny_config(**changes), TinyDataset(30)).eval()


def last_of(output: torch.Tensor, item_seq_len: torch.Tensor) -> torch.Tensor:
    return output[torch.arange(len(output)), item_seq_len - 1]


@pytest.mark.parametrize("choice", CHANGES, ids=str)
def test_scores_are_those_written_out(choice: dict[str, Any]) -> None:
    model = built(**choice)
    interaction = random_interaction()
    item_seq, item_seq_len = interaction["item_id_list"], interaction["item_length"]
    with torch.no_grad():
        expected = last_of(written_out(model, item_seq, **choice), item_seq_len)
        expected = expected @ model.item_embedding.weight.t()
        assert torch.allclose(model.full_sort_predict(interaction), expected, atol=2e-4)
        plain = built().full_sort_predict(interaction)
        assert not torch.allclose(plain, expected, atol=1e-2)


@pytest.mark.parametrize("choice", [{}, *CHANGES], ids=str)
def test_every_control_has_the_parameters_of_sasrec_and_its_first_weights(choice) -> None:
    torch.manual_seed(0)
    plain = SASRec(tiny_config(), TinyDataset(30)).state_dict()
    for model_class in (SASRecResidual, SASRecUniform):
        state = built(model_class, **choice).state_dict()
        assert state.keys() == plain.keys()
        assert all(torch.equal(state[name], plain[name]) for name in plain)


@pytest.mark.parametrize("choice", [{}, *CHANGES], ids=str)
@pytest.mark.parametrize("model_class", [SASRecResidual, SASRecUniform])
def test_training_at_all_positions_trains_the_control(model_class, choice) -> None:
    """The loss is that of the module's own forward: no fast path computes plain SASRec instead."""
    model = built(model_class, **choice).train()
    interaction = random_interaction()
    item_seq = interaction["item_id_list"]
    targets = torch.randint(1, 30, item_seq.shape) * (item_seq > 0)
    batch = Interaction({**interaction.interaction, target_list_field("item_id_list"): targets})
    loss = model.calculate_loss(batch)
    uniform = model_class is SASRecUniform
    hidden = written_out(model, item_seq, uniform, **choice)[item_seq > 0]
    logits = hidden @ model.item_embedding.weight.t()
    expected = nn.functional.cross_entropy(logits, targets[item_seq > 0])
    assert torch.allclose(loss, expected, rtol=1e-4)
    plain_loss = built(SASRecResidual).train().calculate_loss(batch)
    is_plain = not choice and not uniform
    assert torch.allclose(loss, plain_loss, rtol=1e-4) == is_plain
    assert can_run_fast(model) == (not uniform and "position" not in choice)
    loss.backward()
    assert model.item_embedding.weight.grad.abs().sum() > 0


def test_uniform_model_is_sasrec_under_the_switch() -> None:
    uniform, plain = built(SASRecUniform), built(SASRec)
    interaction = random_interaction()
    with uniform_attention(plain):
        expected = plain.full_sort_predict(interaction)
    assert torch.equal(uniform.full_sort_predict(interaction), expected)


def test_uniform_model_drops_attention_weights_as_sasrec_does() -> None:
    model = built(SASRecUniform, attn_dropout_prob=0.5).train()
    interaction = random_interaction()
    item_seq, item_seq_len = interaction["item_id_list"], interaction["item_length"]
    assert not torch.equal(model(item_seq, item_seq_len), model(item_seq, item_seq_len))


def test_pre_norm_drops_the_embedding_once_before_its_norm() -> None:
    model = built(norm="pre", hidden_dropout_prob=0.5).train()
    seen: dict[str, torch.Tensor] = {}
    model.LayerNorm.register_forward_hook(lambda m, args, out: seen.update(given=args[0], out=out))
    first = model.trm_encoder.layer[0].multi_head_attention
    first.register_forward_pre_hook(lambda m, args: seen.update(read=args[0]))
    interaction = random_interaction(rows=200)
    model(interaction["item_id_list"], interaction["item_length"])
    dropped = (seen["given"] == 0).float().mean()
    assert 0.47 < dropped < 0.53
    assert torch.equal(seen["read"], seen["out"])


def test_pre_norm_keeps_nothing_after_a_forward_and_can_be_copied() -> None:
    model = built(norm="pre")
    interaction = random_interaction()
    expected = model.full_sort_predict(interaction)
    twin = copy.deepcopy(model)
    with torch.no_grad():
        for weight in model.parameters():
            weight.zero_()
    assert torch.equal(twin.full_sort_predict(interaction), expected)


def test_attention_switch_is_for_inference_only() -> None:
    learned, switched = built(), built(attention="uniform")
    interaction = random_interaction()
    with uniform_attention(learned):
        expected = learned.full_sort_predict(interaction)
    assert torch.equal(switched.full_sort_predict(interaction), expected)
    with switched.as_trained():
        assert switched.attention == "learned"
        assert torch.equal(
            switched.full_sort_predict(interaction), learned.full_sort_predict(interaction)
        )
    assert switched.attention == "uniform"
    assert torch.equal(switched.full_sort_predict(interaction), expected)
    switched.attention = "learned"
    assert torch.equal(
        switched.full_sort_predict(interaction), learned.full_sort_predict(interaction)
    )


def test_uniform_attention_of_sasrec_uniform_cannot_be_switched_off() -> None:
    model = built(SASRecUniform)
    interaction = random_interaction()
    expected = model.full_sort_predict(interaction)
    with pytest.raises(ModelError, match="attention = 'learned' is not usable"):
        model.attention = "learned"
    model.attention = "uniform"
    with model.as_trained():
        assert torch.equal(model.full_sort_predict(interaction), expected)
    assert model.attention == "uniform"
    assert torch.equal(model.full_sort_predict(interaction), expected)


def test_residual_switch_makes_every_scaling_reach_the_feed_forward_blocks() -> None:
    both, only = built(residual="attention+ffn"), built()
    interaction = random_interaction()
    with scale_residual(both, 0.3), scale_residual(only, 0.3, feed_forward=0.3):
        expected = only.full_sort_predict(interaction)
        assert torch.equal(both.full_sort_predict(interaction), expected)
    with scale_residual(both, 0.3, feed_forward=1.0), scale_residual(only, 0.3):
        expected = only.full_sort_predict(interaction)
        assert torch.equal(both.full_sort_predict(interaction), expected)


def test_no_position_is_the_switch_in_training_too() -> None:
    model, plain = built(position="none"), built()
    interaction = random_interaction()
    with without_position(plain):
        expected = plain.full_sort_predict(interaction)
    assert torch.equal(model.full_sort_predict(interaction), expected)


@settings(deadline=None, max_examples=25)
@given(
    heads=st.sampled_from([1, 2, 4]),
    shift=st.integers(1, 5),
    length=st.integers(2, 6),
    seed=st.integers(0, 1000),
)
def test_rotated_products_depend_on_the_distance_only(heads, shift, length, seed) -> None:
    torch.manual_seed(seed)
    query, key = torch.randn(2, 1, length, 8, dtype=torch.float64)
    moved = [nn.functional.pad(x, (0, 0, shift, 0)) for x in (query, key)]

    def products(query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        query, key = (rotate(x, heads).unflatten(-1, (heads, -1)) for x in (query, key))
        return torch.einsum("bihw,bjhw->bhij", query, key)

    far = products(*moved)[..., shift:, shift:]
    assert torch.allclose(products(query, key), far, rtol=0, atol=1e-12)
    assert torch.allclose(rotate(query, heads).norm(dim=-1), query.norm(dim=-1))


def test_wrong_choices_are_refused_before_anything_runs() -> None:
    with pytest.raises(ValueError, match="norm = 'middle'"):
        built(norm="middle")
    with pytest.raises(ValueError, match="must be even"):
        built(position="rotary", n_heads=2, hidden_size=6)
    with pytest.raises(ModelError, match=r"attention = 'learned' is not usable.*'uniform'"):
        SASRecUniform(tiny_config(attention="learned"), TinyDataset(30))
    for model, key, value in (
        ("SASRecResidual", "position", "sine"),
        ("SASRecUniform", "attention", "learned"),
        ("DuoRecResidual", "contrast", "both"),
        ("DuoRecResidual", "norm", "none"),
        ("BERT4RecResidual", "mask_position", "first"),
    ):
        with pytest.raises(ConfigError, match=f"{key} = '{value}' is not usable"):
            ResidualConfig(model, "ml-100k", config_dict={key: value})
