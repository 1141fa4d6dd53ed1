"""Hooks: they change nothing, see what LayerNorm sees, and go away."""

from __future__ import annotations

from typing import Any, Callable

import pytest
import torch
from recbole.model.layers import MultiHeadAttention, TransformerEncoder
from recbole.model.sequential_recommender import GRU4Rec, SASRec
from torch import nn

from recbole_residual.decomposition import capture, observe
from recbole_residual.decomposition.blocks import tapped
from recbole_residual.decomposition.states import AttentionState
from recbole_residual.errors import NoAttentionError, TrainingModeError
from recbole_residual.model.architecture.layers import model_layers
from recbole_residual.model.residual import scale_residual
from recbole_residual.model.sasrec_residual import SASRecResidual
from tests.conftest import TinyDataset, random_interaction, tiny_config
from tests.decomposition.cases import make_case


@pytest.fixture
def model() -> Any:
    torch.manual_seed(0)
    return SASRec(tiny_config(), TinyDataset(30)).eval()


def hooks(model: nn.Module) -> int:
    return sum(
        len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules()
    )


@torch.no_grad()
@pytest.mark.parametrize("alpha", [1.0, 0.3])
def test_the_forward_stays_as_it_is_bit_for_bit(model: Any, alpha: float) -> None:
    interaction = random_interaction()
    with scale_residual(model, alpha):
        before = model.full_sort_predict(interaction)
        with capture(model, ("attn", "res", "ln", "ffn"), maps=True, heads=True, parts=True):
            inside = model.full_sort_predict(interaction)
        assert torch.equal(before, inside)
    with capture(model), scale_residual(model, alpha):
        assert torch.equal(before, model.full_sort_predict(interaction))


@torch.no_grad()
def test_z_is_what_layer_norm_sees_in_any_order_of_contexts(model: Any) -> None:
    interaction = random_interaction()
    states: list[AttentionState] = []
    layers = model_layers(model)

    def watch() -> Any:
        return tapped(model, layers, lambda index, state: states.append(state))

    with scale_residual(model, 0.3), watch():
        model.full_sort_predict(interaction)
    with watch(), scale_residual(model, 0.3):
        model.full_sort_predict(interaction)
    with scale_residual(model, 0.9), watch(), scale_residual(model, 0.3), watch():
        model.full_sort_predict(interaction)
    model = SASRecResidual(tiny_config(alpha=0.3), TinyDataset(30)).eval()
    for index, state in enumerate(states):
        assert state.alpha == 0.3
        torch.testing.assert_close(state.z, state.branch + 0.3 * state.x)
        torch.testing.assert_close(state.norm(state.z), state.h)
        if index >= 2:
            assert torch.equal(state.z, states[index % 2 if index < 4 else (index - 4) // 2].z)


@torch.no_grad()
def test_alpha_of_the_model_itself_counts() -> None:
    model = SASRecResidual(tiny_config(alpha=[0.3, 0.8]), TinyDataset(30)).eval()
    with capture(model) as trace:
        model.full_sort_predict(random_interaction())
    assert trace.decomposition.alpha == (0.3, 0.8)


def test_hooks_are_gone_also_after_an_exception_and_when_nested(model: Any) -> None:
    before = hooks(model)
    outer = capture(model)
    with outer:
        one = hooks(model)
        assert one > before
        with pytest.raises(ZeroDivisionError), capture(model, maps=True):
            assert hooks(model) == before + 2 * (one - before)
            raise ZeroDivisionError
        assert hooks(model) == one
    assert hooks(model) == before
    first, second = observe(model, print), observe(model, print)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert hooks(model) == one
    second.__exit__(None, None, None)
    assert hooks(model) == before


@torch.no_grad()
def test_a_forward_that_breaks_off_leaves_nothing_in_the_next(model: Any) -> None:
    interaction = random_interaction()
    seen: list[Any] = []
    with observe(model, seen.append):
        handle = model.trm_encoder.layer[1].register_forward_pre_hook(lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            model.full_sort_predict(interaction)
        handle.remove()
        model.full_sort_predict(interaction)
        model.full_sort_predict(random_interaction(rows=3, seed=1))
    assert [decomposition.ratios.shape for decomposition in seen] == [(2, 3, 5, 8), (2, 3, 3, 8)]


@torch.no_grad()
def test_half_a_forward_is_refused(model: Any) -> None:
    layer = model.trm_encoder.layer[1]
    with (
        observe(model, print),
        pytest.raises(RuntimeError, match="out of order"),
    ):
        layer(torch.randn(2, 3, 16), torch.zeros(2, 1, 1, 3))


def test_training_mode_is_refused(model: Any) -> None:
    model.train()
    with pytest.raises(TrainingModeError, match=r"model\.eval\(\)"), capture(model):
        pass
    model.eval()
    with capture(model) as trace:
        model.train()
        with pytest.raises(TrainingModeError):
            model.full_sort_predict(random_interaction())
    assert trace.decompositions == []


def test_models_without_attention_are_told_which_have_it() -> None:
    config = tiny_config(embedding_size=8, num_layers=1, dropout_prob=0.1)
    model = GRU4Rec(config, TinyDataset(30)).eval()
    with pytest.raises(NoAttentionError, match="SASRec, SASRecF"), capture(model):
        pass


def test_a_block_that_skips_its_submodules_is_named() -> None:
    class Shortcut(MultiHeadAttention):
        def forward(self, input_tensor: torch.Tensor, attention_mask: torch.Tensor) -> Any:
            context = self.value(input_tensor)
            return self.LayerNorm(self.out_dropout(self.dense(context)) + input_tensor)

    block = nn.ModuleDict({"block": Shortcut(2, 8, 0.0, 0.0, 1e-12)}).eval()
    with capture(block), pytest.raises(RuntimeError, match="Shortcut ran without its 'attn_drop"):
        block["block"](torch.randn(2, 3, 8), torch.zeros(2, 1, 1, 3))


def test_a_layer_without_feed_forward_has_no_such_stages() -> None:
    block = nn.ModuleDict({"block": MultiHeadAttention(2, 8, 0.0, 0.0, 1e-12)}).eval()
    with pytest.raises(ValueError, match="without a feed-forward"), capture(block, ("ffn",)):
        pass


def test_layers_are_labelled_by_encoder_only_if_there_are_several(
    build_model: Callable[..., Any],
) -> None:
    assert [layer.label for layer in model_layers(build_model("SASRec"))] == ["1", "2"]
    assert [layer.label for layer in model_layers(build_model("FEARec"))] == ["1", "2"]
    assert [layer.label for layer in model_layers(build_model("FDSA"))] == [
        "item_trm_encoder.1",
        "item_trm_encoder.2",
        "feature_trm_encoder.1",
        "feature_trm_encoder.2",
    ]


def _cpu_multiplies_halves() -> bool:
    try:
        torch.nn.Linear(2, 2).half()(torch.ones(1, 2).half())
    except RuntimeError:  # torch 2.1
        return False
    return True


needs_half = pytest.mark.skipif(
    not _cpu_multiplies_halves(), reason="this torch has no half precision on the CPU"
)


@pytest.mark.parametrize("dtype", [pytest.param(torch.float16, marks=needs_half), torch.bfloat16])
@torch.no_grad()
def test_half_precision_is_worked_out_in_float32(dtype: torch.dtype) -> None:
    case = make_case([7, 1, 4], extra=2, n_heads=2, head_size=8, dtype=dtype)
    exact = make_case([7, 1, 4], extra=2, n_heads=2, head_size=8)
    seen = []
    for one in (case, exact):
        with capture(one.encoder, maps=True, heads=True, parts=True) as trace:
            one.encoder(one.x, one.attention_mask)
        seen.append(trace.decomposition)
    half, full = seen
    for name in ("ratios", "head_ratios", "contributions", "attention"):
        tensor = getattr(half, name)
        assert tensor.dtype == torch.float32
        assert torch.isfinite(tensor).all()
    torch.testing.assert_close(half.ratios, full.ratios, rtol=0, atol=0.02)
    assert (half.ratios[..., 0] == 0).all()


@torch.no_grad()
def test_autocast(model: Any) -> None:
    interaction = random_interaction()
    with capture(model, maps=True, parts=True) as trace:
        model.full_sort_predict(interaction)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            model.full_sort_predict(interaction)
    full, half = trace.decompositions
    for name in ("ratios", "contributions", "attention"):
        assert getattr(half, name).dtype == torch.float32
        assert torch.isfinite(getattr(half, name)).all()
    assert (half.ratios - full.ratios).abs().mean() < 0.01
    assert (half.ratios[..., 0] == 0).all()


@needs_half
@torch.no_grad()
def test_huge_half_values_do_not_overflow() -> None:
    encoder = TransformerEncoder(1, 2, 8, 16).eval().half()
    encoder.layer[0].multi_head_attention.query.weight.zero_()  # scores overflow by themselves
    x = (torch.randn(2, 3, 8) * 300).half()
    with capture(encoder) as trace:
        assert torch.isfinite(encoder(x, torch.zeros(2, 1, 1, 3).half())[0]).all()
    assert torch.isfinite(trace.decomposition.ratios).all()
    assert torch.isinf(x.square().sum(dim=-1)).any()


@torch.no_grad()
def test_nan_of_the_model_is_not_hidden(model: Any) -> None:
    model.item_embedding.weight[3] = torch.nan
    item_seq = random_interaction()["item_id_list"]
    with capture(model) as trace:
        model(item_seq.fill_(3), torch.full((5,), 8))
    assert torch.isnan(trace.decomposition.ratios).all()
