"""BERT4RecResidual: RecBole's numbers without its loops, room for [MASK], the masked loss."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from recbole.data.interaction import Interaction
from recbole.model.sequential_recommender import BERT4Rec
from torch import nn

from recbole_residual.model import BERT4RecResidual, bert4rec_residual
from recbole_residual.model.bert4rec_residual import mask_at_random
from recbole_residual.model.objective import negative_list_field, target_list_field
from tests.conftest import TinyDataset, random_interaction, tiny_config

LENGTH = 8


def pair(**changes: Any) -> tuple[BERT4Rec, BERT4RecResidual]:
    torch.manual_seed(0)
    theirs = BERT4Rec(tiny_config(**changes), TinyDataset(30)).eval()
    nn.init.normal_(theirs.output_bias)
    ours = BERT4RecResidual(tiny_config(**changes), TinyDataset(30)).eval()
    ours.load_state_dict(theirs.state_dict())
    return theirs, ours


@settings(deadline=None, max_examples=20)
@given(rows=st.integers(1, 6), length=st.integers(1, LENGTH), seed=st.integers(0, 1000))
def test_window_is_recboles_without_its_loop(rows: int, length: int, seed: int) -> None:
    theirs, ours = pair()
    interaction = random_interaction(rows, length, seed=seed)
    given_seq = interaction["item_id_list"].clone()
    arguments = (interaction["item_id_list"], interaction["item_length"])
    window = ours.reconstruct_test_data(*arguments)
    assert torch.equal(window, theirs.reconstruct_test_data(*arguments))
    assert torch.equal(interaction["item_id_list"], given_seq)


def test_recbole_position_scores_bit_for_bit() -> None:
    theirs, ours = pair(mask_position="recbole")
    interaction = random_interaction(rows=20)
    assert torch.equal(ours.full_sort_predict(interaction), theirs.full_sort_predict(interaction))
    assert torch.equal(ours.predict(interaction), theirs.predict(interaction))


def scored_by_hand(model: BERT4Rec, items: list[int]) -> torch.Tensor:
    """Scores read at [MASK] behind the items, without any padding."""
    seq = torch.tensor([[*items, model.mask_token]])
    hidden = model.forward(seq)[0, -1]
    return hidden @ model.item_embedding.weight[: model.n_items].t() + model.output_bias


def test_after_last_cuts_only_what_does_not_fit() -> None:
    theirs, ours = pair()
    interaction = random_interaction(rows=30)
    item_seq, lengths = interaction["item_id_list"], interaction["item_length"].tolist()
    assert {1, LENGTH - 1, LENGTH} <= set(lengths)
    with torch.no_grad():
        scores, one_by_one = ours.full_sort_predict(interaction), ours.predict(interaction)
        for row, length in enumerate(lengths):
            shown = item_seq[row, :length].tolist()[-(LENGTH - 1) :]
            expected = scored_by_hand(theirs, shown)
            assert torch.allclose(scores[row], expected, atol=1e-4)
            target = interaction["item_id"][row]
            assert torch.allclose(one_by_one[row], expected[target], atol=1e-4)
    assert torch.equal(interaction["item_length"], torch.tensor(lengths))


def test_a_trimmed_batch_is_scored_as_the_whole_one() -> None:
    _, ours = pair()
    interaction = random_interaction(rows=10)
    short = interaction[interaction["item_length"] <= 4]
    assert 4 in short["item_length"]
    trimmed = Interaction({**short.interaction, "item_id_list": short["item_id_list"][:, :4]})
    expected = ours.full_sort_predict(short)
    assert torch.allclose(ours.full_sort_predict(trimmed), expected, atol=1e-5)


def test_all_positions_are_the_forward_of_the_sequence_itself() -> None:
    theirs, ours = pair()
    interaction = random_interaction()
    item_seq = interaction["item_id_list"]
    found = ours.all_positions(item_seq, interaction["item_length"])
    assert torch.equal(found, theirs.forward(item_seq))


def whole_batch(
    width: int, seed: int, n_negatives: int = 0, at_padding: bool = False
) -> Interaction:
    """Sequences of inputs with the next item as target, as the loader of whole sequences gives."""
    whole = random_interaction(rows=6, length=width + 1, seed=seed)
    length = whole["item_length"].clamp(min=2)
    items = torch.randint(1, 30, (6, width + 1))
    items[torch.arange(width + 1) >= length[:, None]] = 0
    inputs = items[:, :-1].clone()
    inputs[torch.arange(width) >= length[:, None] - 1] = 0
    batch = {
        "item_id_list": inputs,
        "item_length": length - 1,
        target_list_field("item_id_list"): items[:, 1:],
    }
    if n_negatives:
        drawn = torch.randint(1, 30, (6, width, n_negatives))
        if not at_padding:
            drawn *= (items[:, 1:] > 0).unsqueeze(-1)
        batch[negative_list_field("item_id_list", "neg_")] = drawn
    return Interaction(batch)


def masked_loss_by_hand(model: Any, batch: Interaction, chosen: torch.Tensor) -> torch.Tensor:
    """One sequence and one masked position after the other."""
    losses = []
    negatives = (
        batch[negative_list_field("item_id_list", "neg_")] if model.loss_type == "BPR" else None
    )
    targets = batch[target_list_field("item_id_list")]
    for row, length in enumerate(batch["item_length"].tolist()):
        whole = [*batch["item_id_list"][row, :length].tolist(), int(targets[row, length - 1])]
        cut = max(0, len(whole) - LENGTH)
        whole = whole[cut:]
        where = chosen[row, : len(whole)].nonzero().flatten().tolist()
        shown = torch.tensor([whole])
        shown[0, where] = model.mask_token
        hidden = model.forward(shown)[0]
        table = model.item_embedding.weight[: model.n_items]
        for position in where:
            scores = hidden[position] @ table.t() + model.output_bias
            if negatives is None:
                losses.append(-torch.log_softmax(scores, 0)[whole[position]])
            else:
                assert position + cut > 0
                for negative in negatives[row, position + cut - 1].tolist():
                    gap = scores[whole[position]] - scores[negative]
                    losses.append(-torch.log(1e-10 + torch.sigmoid(gap)))
    return torch.stack(losses).mean()


@pytest.mark.parametrize("loss_type", ["CE", "BPR"])
@pytest.mark.parametrize("width", [4, LENGTH - 1, LENGTH])
@pytest.mark.parametrize("at_padding", [False, True])
def test_masked_loss_on_whole_sequences(
    loss_type: str, width: int, at_padding: bool, monkeypatch
) -> None:
    """Masks stand on items only, whether or not negatives are drawn at padding too."""
    _, model = pair(loss_type=loss_type)
    seen = []

    def keep(*args: Any) -> torch.Tensor:
        seen.append(mask_at_random(*args))
        return seen[-1].clone()

    monkeypatch.setattr(bert4rec_residual, "mask_at_random", keep)
    for seed in range(5):
        n_negatives = {"CE": 0, "BPR": 1 + seed % 3}[loss_type]
        batch = whole_batch(width, seed, n_negatives, at_padding)
        loss = model.calculate_loss(batch)
        n_items = (batch["item_length"] + 1).clamp(max=LENGTH)
        assert not (seen[-1] & (torch.arange(seen[-1].shape[1]) >= n_items[:, None])).any()
        expected = masked_loss_by_hand(model, batch, seen[-1])
        assert torch.allclose(loss, expected, rtol=1e-4), seed
        assert seen[-1].shape[1] == min(width + 1, LENGTH)


def test_masked_loss_has_gradients_for_the_output_bias() -> None:
    _, model = pair()
    model.calculate_loss(whole_batch(5, 0)).backward()
    assert model.output_bias.grad.abs().sum() > 0
    assert model.position_embedding.weight.grad[:6].abs().sum() > 0


@settings(deadline=None, max_examples=40)
@given(
    rows=st.integers(1, 8),
    width=st.integers(1, 9),
    mask_ratio=st.sampled_from([0.0, 0.3, 1.0]),
    ft_ratio=st.sampled_from([0.0, 0.5, 1.0]),
    seed=st.integers(0, 1000),
)
def test_masks(rows, width, mask_ratio, ft_ratio, seed) -> None:
    torch.manual_seed(seed)
    maskable = torch.rand(rows, width) < 0.7
    maskable[torch.arange(rows), torch.randint(width, (rows,))] = True
    chosen = mask_at_random(maskable, mask_ratio, ft_ratio)
    for row, allowed in zip(chosen, maskable):
        assert row.any()
        assert not row[~allowed].any()
        only_last = torch.arange(width) == allowed.nonzero().max()
        if mask_ratio == 0 or ft_ratio == 1:
            assert torch.equal(row, only_last)
        elif mask_ratio == 1 and ft_ratio == 0:
            assert torch.equal(row, allowed)


def test_shares_of_masks_are_the_ratios() -> None:
    torch.manual_seed(0)
    maskable = torch.ones(4000, 20, dtype=torch.bool)
    chosen = mask_at_random(maskable, 0.2, 0.0).float()
    assert 0.19 < chosen.mean() < 0.21
    chosen = mask_at_random(maskable, 0.2, 0.25)
    only_last = chosen.sum(1).eq(1) & chosen[:, -1]
    assert 0.23 < only_last.float().mean() < 0.28
