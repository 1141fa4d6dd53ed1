"""SetRec: no order changes a bit, prefixes are histories, and it trains."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from recbole.data.interaction import Interaction
from torch import nn

from recbole_residual.data.perturbation import SequenceFields, perturb
from recbole_residual.errors import ModelError
from recbole_residual.model.objective import negative_list_field, target_list_field
from recbole_residual.model.set_rec import SetRec
from tests.conftest import TinyDataset, random_interaction, tiny_config

pools = pytest.mark.parametrize("pooling", ["sum", "attention"])


def built(pooling: str = "sum", **changes: Any) -> Any:
    torch.manual_seed(0)
    config = tiny_config(**{"pooling": pooling, "dropout_prob": 0.0, **changes})
    return SetRec(config, TinyDataset(30)).eval()


def written_out(model: Any, items: list[int]) -> torch.Tensor:
    """One set, one item and one head after the other."""
    elements = model.element(model.item_embedding(torch.tensor(items)))
    if model.pooling == "sum":
        pooled = sum(elements)
    else:
        pool, heads = model.pool, []
        width = elements.shape[1] // pool.n_heads
        for head in range(pool.n_heads):
            columns = slice(head * width, (head + 1) * width)
            scores = pool.key(elements)[:, columns] @ pool.query[head] / width**0.5
            heads.append(scores.softmax(0) @ pool.value(elements)[:, columns])
        pooled = pool.dense(torch.cat(heads))
    hidden = model.pool_norm(pooled)
    return model.output_norm(hidden + model.output(hidden))


@torch.no_grad()
@pools
@pytest.mark.parametrize("mode", ["shuffle_prefix", "shuffle_all", "reverse"])
def test_a_shuffle_changes_nothing_not_by_a_bit(pooling: str, mode: str) -> None:
    model = built(pooling)
    interaction = random_interaction(rows=40)
    shuffled = perturb(interaction, mode, SequenceFields("item_id_list", "item_length", 30))
    assert not torch.equal(shuffled["item_id_list"], interaction["item_id_list"])
    assert torch.equal(model.full_sort_predict(shuffled), model.full_sort_predict(interaction))
    assert torch.equal(model.predict(shuffled), model.predict(interaction))


@torch.no_grad()
@pools
@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 999), repeat=st.booleans())
def test_scores_are_those_of_the_set_written_out(pooling: str, seed: int, repeat: bool) -> None:
    model = built(pooling)
    interaction = random_interaction(rows=4, seed=seed)
    if repeat:
        interaction["item_id_list"][:, 1:] = torch.where(
            interaction["item_id_list"][:, 1:] > 0, interaction["item_id_list"][:, :1], 0
        )
    scores = model.full_sort_predict(interaction)
    for row, length in enumerate(interaction["item_length"].tolist()):
        items = interaction["item_id_list"][row, :length].tolist()
        expected = written_out(model, items) @ model.item_embedding.weight.t()
        torch.testing.assert_close(scores[row], expected, rtol=1e-4, atol=1e-4)


@pools
@pytest.mark.parametrize("loss_type", ["CE", "BPR"])
def test_training_on_all_prefixes_is_training_on_each(pooling: str, loss_type: str) -> None:
    model = built(pooling, loss_type=loss_type).train()
    interaction = random_interaction(rows=6)
    item_seq = interaction["item_id_list"]
    targets = torch.randint(1, 30, item_seq.shape) * (item_seq > 0)
    negatives = torch.randint(1, 30, (*item_seq.shape, 1))
    columns = {
        **interaction.interaction,
        target_list_field("item_id_list"): targets,
        negative_list_field("item_id_list", "neg_"): negatives,
    }
    loss = model.calculate_loss(Interaction(columns))
    losses = []
    for row, length in enumerate(interaction["item_length"].tolist()):
        for n in range(1, length + 1):
            shown = torch.zeros(1, 8, dtype=torch.long)
            shown[0, :n] = item_seq[row, :n]
            one = {
                "item_id_list": shown,
                "item_length": torch.tensor([n]),
                "item_id": targets[row, n - 1 : n],
                "neg_item_id": negatives[row, n - 1],
            }
            losses.append(model.calculate_loss(Interaction(one)))
            if loss_type == "CE":
                scores = written_out(model, item_seq[row, :n].tolist())
                scores = scores @ model.item_embedding.weight.t()
                direct = nn.functional.cross_entropy(scores[None], targets[row, n - 1 : n])
                torch.testing.assert_close(losses[-1], direct, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(loss, torch.stack(losses).mean(), rtol=1e-4, atol=1e-5)
    loss.backward()
    assert model.element[0].weight.grad.abs().sum() > 0


def test_what_is_not_usable_is_refused() -> None:
    for changes in ({"n_heads": 3}, {"pooling": "max"}, {"loss_type": "SSM"}):
        with pytest.raises(ModelError):
            built(**changes)
