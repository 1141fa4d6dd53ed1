"""DuoRec's losses against sums written out, and its parity with SASRecResidual."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from recbole.data.interaction import Interaction
from recbole.model.sequential_recommender import SASRec

from recbole_residual.diagnose.full_run import run
from recbole_residual.model import DuoRec, DuoRecResidual, SASRecResidual
from recbole_residual.model.contrast_sampler import ItemSequences
from recbole_residual.model.duorec import info_nce
from recbole_residual.model.objective import target_list_field
from tests.conftest import SMALL, TinyDataset, random_interaction, tiny_config

DUO = {"lmd": 0.3, "lmd_sem": 0.2, "contrast": "us", "tau": 0.7, "sim": "dot"}


def info_nce_by_hand(first: torch.Tensor, second: torch.Tensor, tau: float, sim: str) -> float:
    vectors = [*first.tolist(), *second.tolist()]

    def similarity(a: list[float], b: list[float]) -> float:
        product = sum(x * y for x, y in zip(a, b))
        if sim == "cos":
            product /= math.sqrt(sum(x * x for x in a)) * math.sqrt(sum(y * y for y in b))
        return math.exp(product / tau)

    losses = []
    for i, vector in enumerate(vectors):
        others = [similarity(vector, other) for j, other in enumerate(vectors) if j != i]
        positive = similarity(vector, vectors[(i + len(first)) % len(vectors)])
        losses.append(-math.log(positive / sum(others)))
    return sum(losses) / len(losses)


@settings(deadline=None, max_examples=40)
@given(
    batch=st.integers(1, 5),
    tau=st.sampled_from([0.2, 1.0, 3.0]),
    sim=st.sampled_from(["dot", "cos"]),
    seed=st.integers(0, 1000),
)
def test_info_nce(batch: int, tau: float, sim: str, seed: int) -> None:
    torch.manual_seed(seed)
    first, second = torch.randn(2, batch, 4, dtype=torch.float64)
    expected = info_nce_by_hand(first, second, tau, sim)
    assert info_nce(first, second, tau, sim).item() == pytest.approx(expected, rel=1e-9, abs=1e-12)


class FixedPartner:
    """Draws the sequences in reverse order, whatever their target."""

    def draw(self, target: torch.Tensor, item_seq: torch.Tensor, length: torch.Tensor):
        self.target = target
        wider = torch.nn.functional.pad(item_seq.flip(0), (0, 1))
        return ItemSequences(wider, length.flip(0))


def whole_sequences(interaction: Interaction) -> Interaction:
    """The same inputs with a target at every position."""
    item_seq, length = interaction["item_id_list"], interaction["item_length"]
    targets = torch.cat([item_seq[:, 1:], torch.zeros_like(item_seq[:, :1])], dim=1)
    targets[torch.arange(len(item_seq)), length - 1] = interaction["item_id"]
    batch = dict(interaction.interaction)
    del batch["item_id"]
    return Interaction({**batch, target_list_field("item_id_list"): targets})


@pytest.mark.parametrize("contrast", ["us", "un", "su"])
@pytest.mark.parametrize("positions", ["last", "all"])
@pytest.mark.parametrize("sim", ["dot", "cos"])
def test_loss_is_the_sum_of_its_terms(contrast: str, positions: str, sim: str) -> None:
    torch.manual_seed(0)
    config = tiny_config(**{**DUO, "contrast": contrast, "sim": sim, "MAX_ITEM_LIST_LENGTH": 9})
    model = DuoRecResidual(config, TinyDataset(30))  # no dropout, so both views are the same
    model._same_target = FixedPartner()
    plain = SASRecResidual(config, TinyDataset(30))
    plain.load_state_dict(model.state_dict())
    interaction = random_interaction()
    batch = whole_sequences(interaction) if positions == "all" else interaction
    with torch.no_grad():
        anchor = plain.forward(interaction["item_id_list"], interaction["item_length"])
        expected = plain.calculate_loss(batch).item()
        if contrast in ("us", "un"):
            expected += 0.3 * info_nce_by_hand(anchor, anchor, 0.7, sim)
        if contrast in ("us", "su"):
            expected += 0.2 * info_nce_by_hand(anchor, anchor.flip(0), 0.7, sim)
        loss = model.calculate_loss(batch).item()
    assert loss == pytest.approx(expected, rel=1e-5)
    if contrast != "un":
        assert torch.equal(model._same_target.target, interaction["item_id"])


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_views_differ_by_dropout_alone(norm: str) -> None:
    torch.manual_seed(0)
    config = tiny_config(**DUO, hidden_dropout_prob=0.5, norm=norm)
    model = DuoRecResidual(config, TinyDataset(30)).train()
    interaction = random_interaction()
    view = ItemSequences(interaction["item_id_list"], interaction["item_length"])
    first, second = model._represent([view, view])
    assert not torch.equal(first, second)
    first, second = model.eval()._represent([view, view])
    assert torch.allclose(first, second, atol=1e-5)
    assert torch.allclose(first, model.forward(*view), atol=1e-5)


def test_contrasts_reach_the_embeddings() -> None:
    torch.manual_seed(0)
    model = DuoRec(tiny_config(**DUO, hidden_dropout_prob=0.1), TinyDataset(30)).train()
    model._same_target = FixedPartner()
    plain = SASRec(tiny_config(hidden_dropout_prob=0.1), TinyDataset(30)).train()
    plain.load_state_dict(model.state_dict())
    gradients = []
    for each in (model, plain):
        torch.manual_seed(1)
        each.calculate_loss(random_interaction(length=7)).backward()
        gradients.append(each.item_embedding.weight.grad)
    assert not torch.allclose(*gradients)


def run_small(model: str, positions: str, **changes: Any) -> dict[str, Any]:
    batch = 64 if positions == "all" else 512
    setup = {**SMALL, "loss_positions": positions, "train_batch_size": batch, "probe": "none"}
    setup.update(changes)
    return run(model, "ml-100k", config_dict=setup, saved=False)


@pytest.mark.parametrize("positions", ["last", "all"])
def test_without_contrasts_it_is_sasrec_residual(positions: str) -> None:
    plain = run_small("SASRecResidual", positions)
    without = run_small("DuoRecResidual", positions, lmd=0.0, lmd_sem=0.0)
    assert without["train_losses"] == plain["train_losses"]
    assert without["test_result"] == plain["test_result"]
    contrasted = run_small("DuoRecResidual", positions)
    assert contrasted["train_losses"] > plain["train_losses"]
