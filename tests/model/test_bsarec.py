"""BSARec's layer against the Fourier transform written out; alpha and ratios on its attention."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from recbole.model.sequential_recommender import SASRec

from recbole_residual.config.residual_config import ResidualConfig
from recbole_residual.decomposition import observe
from recbole_residual.decomposition.result import Decomposition
from recbole_residual.errors import ConfigError
from recbole_residual.model import BSARec, BSARecResidual
from recbole_residual.model.bsarec import FrequencyLayer
from recbole_residual.model.residual import residual_alpha, scale_residual
from tests.conftest import TinyDataset, random_interaction, tiny_config

FREQUENCY = {"frequency_weight": 0.7, "frequency_components": 3}


def low_pass(x: torch.Tensor, n_components: int) -> torch.Tensor:
    """The n lowest of the L components of the discrete Fourier transform, [L, D], n odd."""
    length = len(x)
    kept = [k for k in range(length) if min(k, length - k) <= n_components // 2]
    result = torch.zeros_like(x)
    for k in kept:
        wave = torch.tensor([2 * math.pi * k * t / length for t in range(length)], dtype=x.dtype)
        real, imaginary = wave.cos() @ x, -(wave.sin() @ x)
        result += (torch.outer(wave.cos(), real) - torch.outer(wave.sin(), imaginary)) / length
    return result


@settings(deadline=None, max_examples=30)
@given(
    length=st.integers(1, 12), n_components=st.sampled_from([1, 3, 5, 9]), seed=st.integers(0, 99)
)
def test_frequency_layer(length: int, n_components: int, seed: int) -> None:
    torch.manual_seed(seed)
    layer = FrequencyLayer(4, n_components, 0.5, 1e-12).double().eval()
    x = torch.randn(2, length, 4, dtype=torch.float64)
    for row, found in zip(x, layer(x)):
        low = low_pass(row, n_components)
        branch = low + layer.beta[0] ** 2 * (row - low)
        assert torch.allclose(found, layer.LayerNorm(row + branch), atol=1e-9)


def built(model_class: type = BSARecResidual, **changes: Any) -> Any:
    torch.manual_seed(0)
    return model_class(tiny_config(**{**FREQUENCY, **changes}), TinyDataset(30)).eval()


@pytest.mark.parametrize("alpha", [1.0, 0.3])
def test_scores_are_those_written_out(alpha: float) -> None:
    model = built(alpha=alpha)
    interaction = random_interaction()
    item_seq, length = interaction["item_id_list"], interaction["item_length"]
    position = model.position_embedding.weight[: item_seq.shape[1]]
    x = model.LayerNorm(model.item_embedding(item_seq) + position)
    mask = model.get_attention_mask(item_seq)
    for layer in model.trm_encoder.layer:
        block = layer.multi_head_attention
        query, key, value = (
            part(x).unflatten(-1, (2, -1)).transpose(1, 2)
            for part in (block.query, block.key, block.value)
        )
        weights = torch.softmax(query @ key.transpose(-1, -2) / 8**0.5 + mask, dim=-1)
        context = (weights @ value).transpose(1, 2).flatten(-2)
        attention = torch.nn.functional.layer_norm(
            alpha * x + block.dense(context), (16,), block.LayerNorm.weight, block.LayerNorm.bias
        )
        x = layer.feed_forward(0.7 * layer.frequency(x) + 0.3 * attention)
    expected = x[torch.arange(len(x)), length - 1] @ model.item_embedding.weight.t()
    assert torch.allclose(model.full_sort_predict(interaction), expected, atol=1e-4)


def test_weight_zero_is_sasrec_and_alpha_one_is_bsarec() -> None:
    interaction = random_interaction()
    plain = built(SASRec)
    without = built(frequency_weight=0.0)
    without.load_state_dict(plain.state_dict(), strict=False)
    scores = plain.full_sort_predict(interaction)
    assert torch.equal(without.full_sort_predict(interaction), scores)
    theirs, ours = built(BSARec), built()
    assert torch.equal(ours.full_sort_predict(interaction), theirs.full_sort_predict(interaction))


def test_alpha_and_ratios_are_those_of_the_attention_block() -> None:
    model = built()
    assert residual_alpha(model) == [1.0, 1.0]
    interaction = random_interaction()
    seen: list[Decomposition] = []
    with observe(model, seen.append):
        model.full_sort_predict(interaction)
        with scale_residual(model, 0.0):
            model.full_sort_predict(interaction)
    plain = built(SASRec)
    plain.load_state_dict(model.state_dict(), strict=False)
    with observe(plain, seen.append):
        plain.full_sort_predict(interaction)
    # the first blocks see the same input, whatever stands beside them
    assert torch.equal(seen[0].ratios[0], seen[2].ratios[0])
    assert not torch.allclose(seen[0].ratios[1], seen[2].ratios[1])
    first_layer_res = [each.ratios[0, 1][each.mask].mean() for each in seen]
    assert first_layer_res[1] > first_layer_res[0]


def test_it_looks_ahead_so_it_is_not_trained_at_all_positions() -> None:
    model = built()
    item_seq = torch.tensor([[3, 4, 5, 6]])
    length = torch.tensor([4])
    before = model.all_positions(item_seq, length)[0, 0]
    after = model.all_positions(torch.tensor([[3, 4, 5, 7]]), length)[0, 0]
    assert not torch.allclose(before, after)
    assert ResidualConfig("BSARecResidual", "ml-100k")["loss_positions"] == "last"
    with pytest.raises(ConfigError, match="loss_positions"):
        ResidualConfig("BSARecResidual", "ml-100k", config_dict={"loss_positions": "all"})


def test_share_out_of_range_is_refused() -> None:
    with pytest.raises(ValueError, match=r"frequency_weight = 1\.5"):
        built(frequency_weight=1.5)
