"""The gate decomposition against a GRU stepped by hand."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from recbole.model.sequential_recommender import GRU4Rec, SASRec
from torch import nn

from recbole_residual.decomposition import decompose, decompose_dataset
from recbole_residual.decomposition.gate import observe_gates
from recbole_residual.decomposition.result import Decomposition
from recbole_residual.errors import TrainingModeError
from recbole_residual.model import GRU4RecResidual
from recbole_residual.model.architecture.gates import find_gru
from tests.conftest import TinyDataset, random_interaction, tiny_config

SIZES = {"embedding_size": 6, "hidden_size": 10, "num_layers": 1, "dropout_prob": 0.1}


def stepped(gru: nn.GRU, layer: int, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """One layer, one position after the other, by the formulas of PyTorch's documentation."""
    weight = [
        part.chunk(3)
        for part in (getattr(gru, f"weight_ih_l{layer}"), getattr(gru, f"weight_hh_l{layer}"))
    ]
    (w_ir, w_iz, w_in), (w_hr, w_hz, w_hn) = weight
    state = torch.zeros(gru.hidden_size, dtype=x.dtype)
    states, ratios = [], []
    for step in x:
        reset = torch.sigmoid(w_ir @ step + w_hr @ state)
        update = torch.sigmoid(w_iz @ step + w_hz @ state)
        new = torch.tanh(w_in @ step + reset * (w_hn @ state))
        mixing, preserving = (update * state).norm(), ((1 - update) * new).norm()
        ratios.append(mixing / (mixing + preserving))
        state = (1 - update) * new + update * state
        states.append(state)
    return torch.stack(states), torch.stack(ratios)


@settings(deadline=None, max_examples=15)
@given(layers=st.integers(1, 3), length=st.integers(1, 7), seed=st.integers(0, 1000))
def test_ratios_are_those_of_the_recurrence(layers, length, seed) -> None:
    torch.manual_seed(seed)
    model = GRU4Rec(tiny_config(**{**SIZES, "num_layers": layers}), TinyDataset(30))
    model = model.double().eval()
    interaction = random_interaction(rows=3, length=length, seed=seed)
    item_seq = interaction["item_id_list"]
    seen: list[Decomposition] = []
    before = torch.get_rng_state()
    plain = model.full_sort_predict(interaction)
    with observe_gates(model, seen.append):
        assert torch.equal(model.full_sort_predict(interaction), plain)
    assert torch.equal(torch.get_rng_state(), before)
    assert not model.gru_layers._forward_hooks
    assert seen[0].stages == ("gate",)
    assert seen[0].alpha is None
    assert seen[0].layers == tuple(str(n + 1) for n in range(layers))
    assert seen[0].ratios.shape == (layers, 1, 3, length)
    assert torch.equal(seen[0].mask, item_seq != 0)
    for row in range(3):
        n_items = int(interaction["item_length"][row])
        x = model.item_embedding(item_seq[row])
        for layer in range(layers):
            x, ratios = stepped(model.gru_layers, layer, x)
            found = seen[0].ratios[layer, 0, row]
            assert torch.allclose(found[:n_items], ratios[:n_items], atol=1e-12)
            assert found[0] == 0
            assert (found[n_items:] == 0).all()


def test_alpha_of_the_added_skip_is_reported() -> None:
    model = GRU4RecResidual(tiny_config(**SIZES, alpha=0.25, alpha_train=0.0), TinyDataset(30))
    seen: list[Decomposition] = []
    with observe_gates(model.eval(), seen.append):
        model.full_sort_predict(random_interaction())
    assert seen[0].alpha == (0.25,)


def test_training_mode_and_models_without_a_gru_are_refused() -> None:
    interaction = random_interaction()
    model = GRU4Rec(tiny_config(**SIZES), TinyDataset(30)).train()
    with pytest.raises(TrainingModeError), observe_gates(model, print):
        model.full_sort_predict(interaction)
    assert not model.gru_layers._forward_hooks
    sasrec = SASRec(tiny_config(), TinyDataset(30))
    assert find_gru(sasrec) is None
    with pytest.raises(TypeError, match="SASRec has no GRU"), observe_gates(sasrec, print):
        pass


def test_observing_and_decomposing_gru4rec_residual_speaks_of_its_gate() -> None:
    torch.manual_seed(0)
    model = GRU4RecResidual(tiny_config(**SIZES, alpha=0.0, alpha_train=0.0), TinyDataset(30))
    model.eval()
    interaction = random_interaction()
    direct: list[Decomposition] = []
    with observe_gates(model, direct.append):
        model.full_sort_predict(interaction)
    seen = decompose(model, interaction)
    assert seen.stages == ("gate",)
    assert torch.equal(seen.ratios, direct[0].ratios)
    frame = decompose_dataset(model, [interaction]).statistics.to_frame()
    assert set(frame["stage"]) == {"gate"}
    with pytest.raises(ValueError, match="only stage is 'gate'"):
        decompose(model, interaction, ["attn"])
    with pytest.raises(ValueError, match="neither maps nor heads"):
        decompose(model, interaction, maps=True)
    with pytest.raises(TrainingModeError):
        decompose(model.train(), interaction)
