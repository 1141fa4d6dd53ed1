"""SSM and gBCE: against direct computations, and against full cross-entropy in expectation."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from recbole.data.interaction import Interaction

from recbole_residual.errors import ModelError
from recbole_residual.model import SASRecResidual
from recbole_residual.model.fast_forward import can_run_fast
from recbole_residual.model.objective import target_list_field
from recbole_residual.model.sampled_loss import (
    SampledLoss,
    gbce_beta,
    gbce_loss,
    sampled_softmax_loss,
)
from tests.conftest import TinyDataset, random_interaction, tiny_config

N_ITEMS = 30


class Counted(TinyDataset):
    """A dataset whose training targets are known."""

    def __init__(self) -> None:
        super().__init__(N_ITEMS)
        self.targets = torch.arange(1, N_ITEMS).repeat_interleave(torch.arange(1, N_ITEMS))

    @property
    def inter_feat(self) -> dict[str, torch.Tensor]:
        return {"item_id": self.targets}


def problem(n_rows: int = 5, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    hidden = torch.randn(n_rows, 4, generator=generator, dtype=torch.float64)
    weight = torch.randn(N_ITEMS, 4, generator=generator, dtype=torch.float64)
    return hidden, weight, torch.randint(1, N_ITEMS, (n_rows,), generator=generator)


def in_groups(targets: torch.Tensor) -> tuple[torch.Tensor, list[int]]:
    """Negatives of two groups, a target among them, and the group of each of five rows."""
    negatives = torch.tensor([[3, 3, 7, int(targets[0]), 12], [5, 8, int(targets[4]), 1, 5]])
    return negatives, [0, 0, 0, 1, 1]


def made(**changes: Any) -> SampledLoss:
    config = tiny_config(**{"loss_type": "SSM", **changes})
    return SampledLoss(config, Counted(), N_ITEMS, "item_id")


def test_sampled_softmax_row_by_row() -> None:
    hidden, weight, targets = problem()
    negatives, group = in_groups(targets)
    log_q = torch.log(torch.tensor([[0.2, 0.2, 0.05, 0.1, 0.01]] * 2, dtype=torch.float64))
    log_q[1] -= 1
    losses = []
    for h, target, g in zip(hidden, targets.tolist(), group):
        total = math.exp(h @ weight[target])
        for negative, log in zip(negatives[g].tolist(), log_q[g].tolist()):
            if negative != target:
                total += math.exp(h @ weight[negative]) / (5 * math.exp(log))
        losses.append(math.log(total) - float(h @ weight[target]))
    loss = sampled_softmax_loss(hidden, weight, targets, negatives, log_q)
    assert loss.item() == pytest.approx(sum(losses) / len(losses), rel=1e-5)


@pytest.mark.parametrize("t", [0.0, 0.4, 1.0])
def test_gbce_row_by_row(t: float) -> None:
    hidden, weight, targets = problem()
    negatives, group = in_groups(targets)
    share = 5 / (N_ITEMS - 2)
    beta = share * (t * (1 - 1 / share) + 1 / share)
    assert gbce_beta(5, N_ITEMS - 1, t) == pytest.approx(beta)
    losses = []
    for h, target, g in zip(hidden, targets.tolist(), group):
        kept = [negative for negative in negatives[g].tolist() if negative != target]
        loss = -beta * math.log(1 / (1 + math.exp(-(h @ weight[target]))))
        loss -= sum(math.log(1 - 1 / (1 + math.exp(-(h @ weight[j])))) for j in kept)
        losses.append(loss / (len(kept) + 1))
    loss = gbce_loss(hidden, weight, targets, negatives, t)
    assert loss.item() == pytest.approx(sum(losses) / len(losses), rel=1e-5)


def test_gbce_of_all_items_and_of_t_zero_is_binary_cross_entropy() -> None:
    hidden, weight, targets = problem()
    bce = torch.nn.functional.binary_cross_entropy_with_logits
    for negatives, t in ((torch.arange(1, N_ITEMS), 1.0), (torch.tensor([2, 9]), 0.0)):
        losses = []
        for h, target in zip(hidden, targets):
            items = torch.cat([target.view(1), negatives[negatives != target]])
            losses.append(bce(weight[items] @ h, (items == target).double()))
        loss = gbce_loss(hidden, weight, targets, negatives[None], t)
        torch.testing.assert_close(loss.double(), torch.stack(losses).mean(), rtol=1e-5, atol=0)


@pytest.mark.parametrize("sampling", ["uniform", "in_batch"])
def test_the_expected_denominator_is_that_of_full_cross_entropy(sampling: str) -> None:
    """exp(loss) is the denominator over exp(s+); its mean over draws is exact, whatever K is."""
    torch.manual_seed(0)
    hidden, weight, targets = problem(n_rows=1)
    hidden = hidden * 0.5
    loss = made(negative_sampling=sampling, num_negatives=4)
    pool = Counted().targets if sampling == "in_batch" else targets
    ratios = []
    for _ in range(20000):
        negatives, log_q = loss.draw(pool)
        ratios.append(sampled_softmax_loss(hidden, weight, targets, negatives, log_q).exp())
    scores = weight[1:] @ hidden[0]  # padding is never drawn
    expected = scores.exp().sum() / (weight[targets[0]] @ hidden[0]).exp()
    drawn = torch.stack(ratios)
    error = (drawn.std() / len(drawn) ** 0.5).item()
    assert error < 0.02 * expected
    assert drawn.mean().item() == pytest.approx(expected.item(), abs=4 * error)


@pytest.mark.parametrize("sampling", ["uniform", "in_batch"])
def test_many_negatives_give_full_cross_entropy(sampling: str) -> None:
    torch.manual_seed(0)
    hidden, weight, targets = problem(n_rows=50)
    loss = made(negative_sampling=sampling, num_negatives=400_000)
    pool = Counted().targets if sampling == "in_batch" else targets
    negatives, log_q = loss.draw(pool)
    sampled = sampled_softmax_loss(hidden, weight, targets, negatives, log_q)
    full = torch.nn.functional.cross_entropy(hidden @ weight[1:].t(), targets - 1)
    assert sampled.item() == pytest.approx(full.item(), rel=1e-2)


@pytest.mark.parametrize("loss_type", ["SSM", "gBCE"])
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_a_model_trains_with_it_at_every_position_and_at_the_last(
    loss_type: str, norm: str
) -> None:
    torch.manual_seed(0)
    config = tiny_config(loss_type=loss_type, norm=norm, num_negatives=7)
    model = SASRecResidual(config, Counted()).train()
    plain = SASRecResidual(tiny_config(norm=norm), Counted())
    plain.load_state_dict(model.state_dict())  # no parameter of its own
    assert can_run_fast(model)
    interaction = random_interaction()
    item_seq, item_seq_len = interaction["item_id_list"], interaction["item_length"]
    targets = torch.randint(1, N_ITEMS, item_seq.shape) * (item_seq > 0)
    whole = Interaction({**interaction.interaction, target_list_field("item_id_list"): targets})
    hidden = model.all_positions(item_seq, item_seq_len)[item_seq > 0]
    last = model(item_seq, item_seq_len)
    for batch, states, items in (
        (whole, hidden, targets[item_seq > 0]),
        (interaction, last, interaction["item_id"]),
    ):
        torch.manual_seed(3)
        loss = model.calculate_loss(batch)
        torch.manual_seed(3)
        negatives, log_q = model.sampled_loss.draw(items)
        weight = model.item_embedding.weight
        if loss_type == "SSM":
            expected = sampled_softmax_loss(states, weight, items, negatives, log_q)
        else:
            expected = gbce_loss(states, weight, items, negatives, 0.75)
        torch.testing.assert_close(loss, expected, rtol=1e-4, atol=0)
        loss.backward(retain_graph=True)
        assert model.item_embedding.weight.grad.abs().sum() > 0


def test_uniform_negatives_are_items_and_in_batch_ones_are_targets() -> None:
    torch.manual_seed(0)
    targets = torch.tensor([4, 4, 9])
    negatives, log_q = made(num_negatives=5000).draw(targets)
    assert set(negatives.flatten().tolist()) == set(range(1, N_ITEMS))
    assert log_q.unique().tolist() == [pytest.approx(-math.log(N_ITEMS - 1))]
    negatives, log_q = made(num_negatives=5000, negative_sampling="in_batch").draw(targets)
    assert set(negatives.flatten().tolist()) == {4, 9}
    share = len(Counted().targets)
    assert sorted(log_q.unique().tolist()) == pytest.approx(
        [math.log(4 / share), math.log(9 / share)]
    )


def test_neighbours_share_negatives_and_others_have_their_own() -> None:
    torch.manual_seed(0)
    loss = made(num_negatives=9)
    for n_rows, n_groups in ((1, 1), (64, 1), (65, 2), (300, 5)):
        negatives, log_q = loss.draw(torch.ones(n_rows, dtype=torch.long))
        assert negatives.shape == log_q.shape == (n_groups, 9)
        assert len({tuple(group) for group in negatives.tolist()}) == n_groups


def test_what_is_not_usable_is_refused() -> None:
    for changes in (
        {"num_negatives": 0},
        {"negative_sampling": "popularity"},
        {"gbce_t": 1.5},
        {"loss_type": "gBCE", "negative_sampling": "in_batch"},
    ):
        with pytest.raises(ModelError):
            made(**changes)
