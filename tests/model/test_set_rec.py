"""SetRec: no order changes a bit, prefixes are histories, and it trains."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from recbole.data.interaction import Interaction
from recbole.utils.enum_type import FeatureType
from torch import nn

from recbole_residual.data.perturbation import SequenceFields, perturb
from recbole_residual.diagnose.explanation import explain
from recbole_residual.diagnose.full_run import run
from recbole_residual.diagnose.sequence_reading import RATINGS_NOTE
from recbole_residual.errors import ModelError
from recbole_residual.model.objective import negative_list_field, target_list_field
from recbole_residual.model.set_rec import SetRec
from tests.conftest import SMALL, TinyDataset, random_interaction, tiny_config

pools = pytest.mark.parametrize("pooling", ["sum", "attention"])
with_ratings = pytest.mark.parametrize("rated", [False, True])
FIELDS = SequenceFields("item_id_list", "item_length", 30)


class RatedDataset(TinyDataset):
    field2type = {"rating": FeatureType.FLOAT}
    inter_feat = {"rating": torch.tensor([1.0, 4.0, 4.0, 5.0])}


def built(pooling: str = "sum", rated: bool = False, **changes: Any) -> Any:
    torch.manual_seed(0)
    changes = {"pooling": pooling, "dropout_prob": 0.0, "RATING_FIELD": "rating", **changes}
    dataset = RatedDataset(30) if rated else TinyDataset(30)
    return SetRec(tiny_config(**changes), dataset).eval()


def histories(rows: int, seed: int = 0, rated: bool = False, repeat: bool = False) -> Interaction:
    """Random ones; with ``repeat`` of two items, so that one item has several ratings."""
    interaction = random_interaction(rows=rows, seed=seed)
    item_seq = interaction["item_id_list"]
    if repeat:
        interaction["item_id_list"] = (item_seq % 2 + 1) * (item_seq > 0)
    if rated:
        draw = torch.Generator().manual_seed(seed)
        ratings = torch.randint(1, 6, item_seq.shape, generator=draw).float()
        interaction["rating_list"] = ratings * (item_seq > 0)
    return interaction


def written_out(model: Any, items: list[int], ratings: list[float] | None = None) -> torch.Tensor:
    """One set, one item and one head after the other."""
    vectors = model.item_embedding(torch.tensor(items))
    if ratings is not None:
        mean = 3.5
        deviation = ((2.5**2 + 0.5**2 + 0.5**2 + 1.5**2) / 4) ** 0.5
        vectors = torch.stack(
            [
                vector + (rating - mean) / deviation * model.rating.direction.weight[:, 0]
                for vector, rating in zip(vectors, ratings)
            ]
        )
    elements = model.element(vectors)
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
@with_ratings
@pytest.mark.parametrize("repeat", [False, True])
@pytest.mark.parametrize("mode", ["shuffle_prefix", "shuffle_all", "reverse"])
def test_a_shuffle_changes_nothing_not_by_a_bit(
    pooling: str, rated: bool, repeat: bool, mode: str
) -> None:
    model = built(pooling, rated)
    interaction = histories(40, rated=rated, repeat=repeat)
    shuffled = perturb(interaction, mode, FIELDS)
    assert not torch.equal(shuffled["item_id_list"], interaction["item_id_list"])
    assert torch.equal(model.full_sort_predict(shuffled), model.full_sort_predict(interaction))
    assert torch.equal(model.predict(shuffled), model.predict(interaction))


@torch.no_grad()
@pools
def test_ratings_belong_to_their_items(pooling: str) -> None:
    model, interaction = built(pooling, rated=True), histories(40, rated=True)
    scores = model.full_sort_predict(interaction)
    shuffled = perturb(interaction, "shuffle_all", FIELDS)
    shuffled["item_id_list"] = interaction["item_id_list"]  # the ratings have moved alone
    assert not torch.equal(model.full_sort_predict(shuffled), scores)
    with pytest.raises(KeyError, match="rating_list"):
        model.full_sort_predict(histories(40))


@torch.no_grad()
@pools
def test_without_ratings_it_is_the_model_that_knows_none(pooling: str) -> None:
    plain, off = built(pooling), built(pooling, rated=True, ratings="off")
    assert off.rating_seq_field is None
    assert list(plain.state_dict()) == list(off.state_dict())
    interaction = histories(5, rated=True)
    assert torch.equal(off.full_sort_predict(interaction), plain.full_sort_predict(interaction))


@torch.no_grad()
@pools
@with_ratings
@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 999), repeat=st.booleans())
def test_scores_are_those_of_the_set_written_out(
    pooling: str, rated: bool, seed: int, repeat: bool
) -> None:
    model = built(pooling, rated)
    interaction = histories(4, seed, rated, repeat)
    scores = model.full_sort_predict(interaction)
    for row, length in enumerate(interaction["item_length"].tolist()):
        items = interaction["item_id_list"][row, :length].tolist()
        ratings = interaction["rating_list"][row, :length].tolist() if rated else None
        expected = written_out(model, items, ratings) @ model.item_embedding.weight.t()
        torch.testing.assert_close(scores[row], expected, rtol=1e-4, atol=1e-4)


@pools
@with_ratings
@pytest.mark.parametrize("loss_type", ["CE", "BPR"])
def test_training_on_all_prefixes_is_training_on_each(
    pooling: str, rated: bool, loss_type: str
) -> None:
    model = built(pooling, rated, loss_type=loss_type).train()
    interaction = histories(6, rated=rated)
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
            ratings = None
            if rated:
                one["rating_list"] = shown * 0.0
                one["rating_list"][0, :n] = interaction["rating_list"][row, :n]
                ratings = interaction["rating_list"][row, :n].tolist()
            losses.append(model.calculate_loss(Interaction(one)))
            if loss_type == "CE":
                scores = written_out(model, item_seq[row, :n].tolist(), ratings)
                scores = scores @ model.item_embedding.weight.t()
                direct = nn.functional.cross_entropy(scores[None], targets[row, n - 1 : n])
                torch.testing.assert_close(losses[-1], direct, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(loss, torch.stack(losses).mean(), rtol=1e-4, atol=1e-5)
    loss.backward()
    assert model.element[0].weight.grad.abs().sum() > 0
    if rated:
        assert model.rating.direction.weight.grad.abs().sum() > 0


def test_what_is_not_usable_is_refused() -> None:
    for changes in ({"n_heads": 3}, {"pooling": "max"}, {"ratings": 1}, {"loss_type": "SSM"}):
        with pytest.raises(ModelError):
            built(**changes)


@pools
def test_a_whole_run_on_ratings(pooling: str, tmp_path: Path) -> None:
    """Trained, evaluated, probed, reported; a shuffle costs exactly nothing."""
    folder = tmp_path / "run"
    told = {"pooling": pooling, "probe": "full", "report": True, "output_dir": str(folder)}
    result = run("SetRec", "ml-100k", config_dict={**SMALL, "epochs": 1, **told})
    assert (folder / "report.html").is_file()
    table = pd.read_csv(folder / "probe" / "shuffle.csv").set_index("mode")
    ndcg = result["test_result_unrounded"]["ndcg@10"]
    assert table.loc["original", "ndcg@10"] == pytest.approx(ndcg)
    changed = table.loc[["shuffle_prefix", "shuffle_all", "reverse"], ["hit@10", "ndcg@10"]]
    assert (changed == table.loc["original", ["hit@10", "ndcg@10"]]).all(axis=None)
    assert RATINGS_NOTE in explain(folder, ["242", "302"]).notes
