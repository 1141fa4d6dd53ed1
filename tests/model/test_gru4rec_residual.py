"""GRU4RecResidual: RecBole's GRU4Rec at alpha = 0, an added skip elsewhere."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from recbole.model.sequential_recommender import GRU4Rec, SASRec
from torch import nn

from recbole_residual.errors import NoAttentionError
from recbole_residual.model import GRU4RecResidual
from recbole_residual.model.architecture.residuals import neutral_alpha
from recbole_residual.model.residual import residual_alpha, scale_residual
from tests.conftest import TinyDataset, random_interaction, tiny_config

SIZES = {
    "embedding_size": 6,
    "hidden_size": 10,
    "num_layers": 2,
    "dropout_prob": 0.0,
    "alpha": 0.0,
    "alpha_train": 0.0,
}


def pair(**changes: Any) -> tuple[GRU4Rec, GRU4RecResidual]:
    torch.manual_seed(0)
    theirs = GRU4Rec(tiny_config(**{**SIZES, **changes}), TinyDataset(30)).eval()
    ours = GRU4RecResidual(tiny_config(**{**SIZES, **changes}), TinyDataset(30)).eval()
    ours.load_state_dict(theirs.state_dict())
    return theirs, ours


def with_skip(model: GRU4Rec, interaction: Any, alpha: float) -> torch.Tensor:
    item_seq, rows = interaction["item_id_list"], torch.arange(len(interaction))
    x = model.item_embedding(item_seq)
    output = model.dense(model.gru_layers(x)[0]) + alpha * x
    return output[rows, interaction["item_length"] - 1] @ model.item_embedding.weight.t()


def test_alpha_zero_is_recboles_gru4rec_bit_for_bit() -> None:
    theirs, ours = pair()
    interaction = random_interaction()
    assert theirs.state_dict().keys() == ours.state_dict().keys()
    assert torch.equal(ours.full_sort_predict(interaction), theirs.full_sort_predict(interaction))
    assert torch.equal(ours.predict(interaction), theirs.predict(interaction))
    assert torch.equal(ours.calculate_loss(interaction), theirs.calculate_loss(interaction))


def test_alpha_scales_the_added_skip() -> None:
    theirs, ours = pair(alpha=0.5)
    interaction = random_interaction()
    assert torch.allclose(ours.full_sort_predict(interaction), with_skip(theirs, interaction, 0.5))
    with scale_residual(ours, 2.0):
        assert residual_alpha(ours) == [2.0]
        scores = ours.full_sort_predict(interaction)
        assert torch.allclose(scores, with_skip(theirs, interaction, 2.0))
        with scale_residual(ours, 0.0):
            plain = ours.full_sort_predict(interaction)
            assert torch.equal(plain, theirs.full_sort_predict(interaction))
    assert residual_alpha(ours) == [0.5]
    ours.alpha = 0.0
    assert torch.equal(ours.full_sort_predict(interaction), theirs.full_sort_predict(interaction))


def test_training_is_at_alpha_train() -> None:
    theirs, ours = pair(alpha=0.5, alpha_train=0.0)
    interaction = random_interaction()
    with ours.as_trained():
        scores = ours.full_sort_predict(interaction)
    assert torch.equal(scores, theirs.full_sort_predict(interaction))


def test_gradients_flow_through_the_skip() -> None:
    theirs, ours = pair(alpha=0.7)
    interaction = random_interaction()
    ours.calculate_loss(interaction).backward()
    loss = nn.functional.cross_entropy(with_skip(theirs, interaction, 0.7), interaction["item_id"])
    loss.backward()
    ours_grad, expected = ours.item_embedding.weight.grad, theirs.item_embedding.weight.grad
    assert torch.allclose(ours_grad, expected, atol=1e-6)


def test_neutral_alpha_by_model() -> None:
    theirs, ours = pair()
    assert neutral_alpha(ours) == 0.0
    assert neutral_alpha(SASRec(tiny_config(), TinyDataset(30))) == 1.0
    with pytest.raises(NoAttentionError):
        neutral_alpha(theirs)


def test_one_alpha_whatever_the_number_of_layers() -> None:
    with pytest.raises(ValueError, match="1 layers"):
        pair(alpha=[0.0, 0.0])
