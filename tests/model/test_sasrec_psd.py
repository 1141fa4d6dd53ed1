"""SASRecPSD: a teacher that never sees the target, a loss written out, and SASRecResidual at 0."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from recbole.data.interaction import Interaction

from recbole_residual.config.residual_config import ResidualConfig
from recbole_residual.errors import ConfigError, ModelError
from recbole_residual.model import SASRecPSD, SASRecResidual
from recbole_residual.model.architecture.blocks import attention_blocks
from recbole_residual.model.fast_forward import can_run_fast
from recbole_residual.model.objective import target_list_field
from recbole_residual.model.sasrec_psd import (
    Gated,
    Teacher,
    gated_divergence,
    privileged_states,
)
from tests.conftest import TinyDataset, random_interaction, tiny_config

CASES: list[dict[str, Any]] = [
    {},
    {"norm": "pre"},
    {"block": "ligr"},
    {"position": "none"},
    {"attention_norm_p": 2.0},
    {"alpha_train": "learned"},
]


def built(model_class: type = SASRecPSD, **changes: Any) -> Any:
    torch.manual_seed(0)
    settings = {"psd_weight": 0.7, "psd_temperature": 2.0, "psd_momentum": 0.9, "psd_topk": 5}
    return model_class(tiny_config(**{**settings, **changes}), TinyDataset(30)).eval()


def batch_of(rows: int = 6, seed: int = 0) -> Interaction:
    interaction = random_interaction(rows=rows, seed=seed)
    item_seq, length = interaction["item_id_list"], interaction["item_length"]
    targets = torch.zeros_like(item_seq)
    targets[:, :-1] = item_seq[:, 1:]
    targets[torch.arange(rows), length - 1] = torch.arange(rows) * 7 % 29 + 1
    return Interaction({**interaction.interaction, target_list_field("item_id_list"): targets})


def without_target(model: Any, items: list[int], i: int) -> torch.Tensor:
    """The teacher's state of position i from an input in which the target (item i + 1) is not."""
    kept = [*range(i), *range(i + 2, len(items)), i]
    n_before, n = i, len(kept)
    ids, positions = torch.tensor([items[j] for j in kept]), torch.tensor(kept)
    embedded = model.item_embedding(ids) + model.position_embedding(positions)
    hidden = model.dropout(model.LayerNorm(embedded.unsqueeze(0)))
    mask = torch.full((n, n), -10000.0)
    for query in range(n):
        for key in range(n):
            future, last = range(n_before, n - 1), query == n - 1
            causal = query < n_before and key <= query
            anticausal = query in future and key in future and key >= query
            if last or causal or anticausal:
                mask[query, key] = 0
    return model.trm_encoder(hidden, mask[None, None], output_all_encoded_layers=True)[-1][0, -1]


@torch.no_grad()
@pytest.mark.parametrize("choice", CASES, ids=str)
def test_the_teacher_is_what_it_is_without_the_target_in_the_input(choice: dict[str, Any]) -> None:
    model = built(**choice)
    interaction = random_interaction(rows=6)
    item_seq = interaction["item_id_list"]
    states = privileged_states(model, item_seq)
    for row, length in enumerate(interaction["item_length"].tolist()):
        items = item_seq[row, :length].tolist()
        for i in range(length):
            expected = without_target(model, items, i)
            torch.testing.assert_close(states[row, i], expected, rtol=1e-4, atol=1e-4)
            if i + 1 < length:  # whatever the target is
                changed = item_seq.clone()
                changed[row, i + 1] = changed[row, i + 1] % 29 + 1
                moved = privileged_states(model, changed)[row, i]
                assert torch.equal(moved, states[row, i])
        last = model(item_seq[row : row + 1], torch.tensor([length]))[0]
        torch.testing.assert_close(states[row, length - 1], last, rtol=1e-4, atol=1e-4)


def test_the_teacher_sees_the_future() -> None:
    model = built()
    item_seq = torch.tensor([[3, 4, 5, 6]])
    states = privileged_states(model, item_seq)
    changed = privileged_states(model, torch.tensor([[3, 4, 5, 9]]))
    assert not torch.allclose(states[0, 1], changed[0, 1], atol=1e-3)
    assert torch.equal(states[0, 2], changed[0, 2])  # 6 is its target


def distillation(
    student: torch.Tensor, teacher: torch.Tensor, targets: torch.Tensor, temperature: float, k: int
) -> torch.Tensor:
    """The gated divergence of each row, for torch to take the gradient of."""
    row = torch.arange(len(targets))
    with torch.no_grad():
        p_s, p_t = student.softmax(1), teacher.softmax(1)
        advantage = (p_t[row, targets] / p_s[row, targets]).log().clamp(min=0)
        reach = p_s.gather(1, teacher.argsort(dim=1, descending=True)[:, :k]).sum(1)
        gate = (1 - (-advantage).exp()) * reach
        soft_t = (teacher / temperature).softmax(1)
    divergence = (soft_t * (soft_t.log() - (student / temperature).log_softmax(1))).sum(1)
    return gate * divergence * temperature**2


@pytest.mark.parametrize("temperature", [1.0, 1.7])
@pytest.mark.parametrize("logits_chunk", [25, 10_000])
def test_the_divergence_row_by_row(temperature: float, logits_chunk: int) -> None:
    generator = torch.Generator().manual_seed(0)
    tensors = {"generator": generator, "dtype": torch.float64}
    hidden, teacher = torch.randn(2, 7, 4, **tensors) * 2
    weight, its_weight = torch.randn(2, 12, 4, **tensors)
    targets = torch.randint(12, (7,), generator=generator)
    hidden.requires_grad_(), weight.requires_grad_()
    gated = Gated(temperature, 4, logits_chunk)
    found = gated_divergence(hidden, weight, Teacher(teacher, its_weight), targets, gated)
    gates, terms = [], []
    for row in range(7):
        s, t = (hidden[row] @ weight.t()).detach(), teacher[row] @ its_weight.t()
        p_s, p_t = s.softmax(0), t.softmax(0)
        advantage = max(0.0, math.log(p_t[targets[row]] / p_s[targets[row]]))
        reach = sum(float(p_s[k]) for k in t.argsort(descending=True)[:4])
        gates.append((1 - math.exp(-advantage)) * reach)
        soft_s, soft_t = (s / temperature).softmax(0), (t / temperature).softmax(0)
        divergence = float((soft_t * (soft_t / soft_s).log()).sum())
        terms.append(gates[-1] * divergence * temperature**2)
    assert found.item() == pytest.approx(sum(terms) / 7, rel=1e-9)
    assert 0 <= min(gates) < 1e-12 < max(gates) <= 1
    direct = distillation(hidden @ weight.t(), teacher @ its_weight.t(), targets, temperature, 4)
    assert direct.tolist() == pytest.approx(terms, rel=1e-9, abs=1e-12)
    mine = torch.autograd.grad(3 * found, [hidden, weight])
    theirs = torch.autograd.grad(3 * direct.mean(), [hidden, weight])
    for ours, expected in zip(mine, theirs):
        torch.testing.assert_close(ours, expected)


@pytest.mark.parametrize("choice", CASES, ids=str)
@pytest.mark.parametrize("logits_chunk", [None, 100])
def test_the_loss_is_the_students_plus_the_gated_divergence(choice, logits_chunk) -> None:
    model = built(logits_chunk=logits_chunk, **choice).train()
    plain = built(SASRecResidual, **choice).train()
    plain.load_state_dict(model.state_dict())
    assert can_run_fast(model) == ("position" not in choice)
    teacher = built(**choice)
    average = {name: weight.clone() for name, weight in teacher.named_parameters()}
    for step in range(3):
        batch = batch_of(seed=step)
        with torch.no_grad():
            for weight in model.parameters():
                weight += 0.05 * torch.randn_like(weight)
            for name, weight in model.named_parameters():
                average[name] = 0.9 * average[name] + 0.1 * weight
        if step == 0:  # it starts as the student was at the first step
            average = {name: weight.clone() for name, weight in model.named_parameters()}
        plain.load_state_dict(model.state_dict())
        loss = model.calculate_loss(batch)
        with torch.no_grad():
            for name, weight in teacher.named_parameters():
                weight.copy_(average[name])
        item_seq = batch["item_id_list"]
        targets = batch[target_list_field("item_id_list")]
        valid = targets > 0
        student = plain.all_positions(item_seq, batch["item_length"])[valid]
        privileged = privileged_states(teacher, item_seq)[valid].detach()
        extra = distillation(
            student @ plain.item_embedding.weight.t(),
            privileged @ teacher.item_embedding.weight.t().detach(),
            targets[valid],
            2.0,
            5,
        ).mean()
        expected = plain.calculate_loss(batch) + 0.7 * extra
        assert extra > 0 or step == 0
        torch.testing.assert_close(loss, expected, rtol=1e-4, atol=1e-5)
        ours = torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)
        direct = torch.autograd.grad(expected, list(plain.parameters()), allow_unused=True)
        for mine, theirs in zip(ours, direct):
            if theirs is None:  # position: none has no use for its table
                assert mine is None
                continue
            torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-5)


def test_weight_zero_is_sasrec_residual_bit_for_bit() -> None:
    model = built(psd_weight=0.0, hidden_dropout_prob=0.3).train()
    plain = built(SASRecResidual, hidden_dropout_prob=0.3).train()
    assert model.state_dict().keys() == plain.state_dict().keys()
    losses = []
    for one in (model, plain):
        torch.manual_seed(5)
        losses.append(one.calculate_loss(batch_of()))
    assert torch.equal(*losses)
    assert model._teacher == []
    assert not hasattr(model, "other_parameter_name")


def test_the_teacher_is_no_part_of_the_model_and_is_saved_with_it() -> None:
    model = built().train()
    n_blocks, names = len(attention_blocks(model)), model.state_dict().keys()
    for step in range(3):
        model.calculate_loss(batch_of(seed=step))
        with torch.no_grad():
            for weight in model.parameters():
                weight += 0.05 * torch.randn_like(weight)
    assert len(attention_blocks(model)) == n_blocks
    assert model.state_dict().keys() == names
    again = built().train()
    again.load_state_dict(model.state_dict())
    saved = {
        name: {key: weight.clone() for key, weight in value.items()}
        for name, value in model.other_parameter().items()
    }
    again.load_other_parameter(saved)
    assert torch.equal(model.calculate_loss(batch_of()), again.calculate_loss(batch_of()))


def test_what_cannot_be_taught_is_refused() -> None:
    with pytest.raises(ModelError, match="loss_positions: all"):
        built().calculate_loss(random_interaction())
    with pytest.raises(ModelError, match="positions that are added"):
        built(position="rotary")
    for changes in ({"psd_weight": -1}, {"psd_momentum": 1}, {"psd_topk": 0}):
        with pytest.raises(ModelError, match="psd_"):
            built(**changes)
    for changes in ({"loss_positions": "last"}, {"position": "rotary"}):
        with pytest.raises(ConfigError, match="psd_weight above 0"):
            ResidualConfig("SASRecPSD", "ml-100k", config_dict=changes)
        ResidualConfig("SASRecPSD", "ml-100k", config_dict={**changes, "psd_weight": 0})
