"""The loss at every position equals RecBole's loss on every prefix."""

from __future__ import annotations

import pytest
import torch
from recbole.data.interaction import Interaction
from recbole.model.loss import BPRLoss

from recbole_residual.model import objective
from recbole_residual.model.residual import scale_residual
from tests.model.test_fast_forward import make_batch, make_model


def all_positions_batch(lengths, negatives=0, holes=False):
    items, length = make_batch(lengths, max(lengths) + 1)
    sequences, targets = items[:, :-1].clone(), items[:, 1:].clone()
    sequences[targets == 0] = 0
    if holes:
        targets[:, ::3] = 0
    batch = {
        "item_id_list": sequences,
        "item_length": length - 1,
        "target_item_id_list": targets,
    }
    if negatives:
        generator = torch.Generator().manual_seed(4)
        batch["neg_item_id_list"] = torch.randint(
            1, 23, (*targets.shape, negatives), generator=generator
        )
    return Interaction(batch)


def prefixes(batch):
    """RecBole's rows: one per target, with everything before it."""
    rows = []
    for row, targets in enumerate(batch["target_item_id_list"]):
        for i in targets.nonzero().flatten().tolist():
            sequence = torch.zeros_like(targets)
            sequence[: i + 1] = batch["item_id_list"][row, : i + 1]
            rows.append((sequence, i + 1, targets[i], row, i))
    sequences, lengths, targets, row, column = zip(*rows)
    return (
        Interaction(
            {
                "item_id_list": torch.stack(sequences),
                "item_length": torch.tensor(lengths),
                "item_id": torch.stack(targets),
            }
        ),
        list(row),
        list(column),
    )


def loss_and_gradients(model, compute):
    model.zero_grad()
    loss = compute()
    loss.backward()
    return [loss, *(parameter.grad for parameter in model.parameters())]


def assert_all_close(ours, theirs):
    for mine, other in zip(ours, theirs):
        torch.testing.assert_close(mine, other, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("holes", [True, False])
def test_cross_entropy_is_recboles_on_all_prefixes(monkeypatch, fast, holes):
    if not fast:
        monkeypatch.setattr(objective, "can_run_fast", lambda model: False)
    model = make_model(logits_chunk=60).double()
    batch = all_positions_batch([9, 2, 5], holes=holes)
    rows, _, _ = prefixes(batch)
    assert_all_close(
        loss_and_gradients(model, lambda: model.calculate_loss(batch)),
        loss_and_gradients(model, lambda: model.calculate_loss(rows)),
    )


def test_bpr_is_recboles_on_all_prefixes_and_negatives():
    model = make_model().double()
    model.loss_type, model.loss_fct = "BPR", BPRLoss()
    batch = all_positions_batch([4, 7], negatives=3)
    rows, row, column = prefixes(batch)
    rows = rows.repeat(3)
    rows.update(Interaction({"neg_item_id": batch["neg_item_id_list"][row, column].t().flatten()}))
    assert_all_close(
        loss_and_gradients(model, lambda: model.calculate_loss(batch)),
        loss_and_gradients(model, lambda: model.calculate_loss(rows)),
    )


def test_alpha_in_force_reaches_training():
    model = make_model().double()
    batch = all_positions_batch([6, 3])
    rows, _, _ = prefixes(batch)
    plain = model.calculate_loss(batch)
    with scale_residual(model, [0.2, 0.7]):
        assert objective.can_run_fast(model)
        torch.testing.assert_close(model.calculate_loss(batch), model.calculate_loss(rows))
        assert not torch.allclose(model.calculate_loss(batch), plain)


@pytest.mark.parametrize(
    "switch",
    [{"position": "none"}, {"position": "rotary"}, {"norm": "pre"}, {"residual": "attention+ffn"}],
    ids=str,
)
def test_controls_train_as_they_predict(switch):
    model = make_model(**switch).double()
    model.alpha = 0.4
    batch = all_positions_batch([6, 3])
    rows, _, _ = prefixes(batch)
    torch.testing.assert_close(model.calculate_loss(batch), model.calculate_loss(rows))


def test_uniform_attention_reaches_the_loss():
    model = make_model().double()
    batch = all_positions_batch([6, 3])
    rows, _, _ = prefixes(batch)
    model.attention = "uniform"
    torch.testing.assert_close(model.calculate_loss(batch), model.calculate_loss(rows))
