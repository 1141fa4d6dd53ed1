from __future__ import annotations

from typing import Any, Callable

import pytest
import torch
from recbole.data.interaction import Interaction
from recbole.model import sequential_recommender
from recbole.model.layers import MultiHeadAttention
from recbole.model.sequential_recommender import SASRec

from recbole_residual.config.residual_config import ResidualConfig
from recbole_residual.errors import NoPositionError
from recbole_residual.evaluator.earlier_ranking import position_scores
from recbole_residual.model.residual import is_unscaled, scale_residual, unscaled

Sessions = Callable[..., Any]

SCALED = {
    "model": "SASRecResidual",
    "config_class": ResidualConfig,
    "strict_config": False,
    "alpha": 0.5,
}


def batch(session: Any) -> Interaction:
    return next(iter(session.test_data))[0]


def cut(interaction: Interaction, n_items: int) -> Interaction:
    """The same sequences without their last items; those that would be empty keep the first."""
    length = (interaction["item_length"] - n_items).clamp(min=1)
    kept = torch.arange(interaction["item_id_list"].shape[1]) < length.unsqueeze(1)
    return Interaction(
        {
            **interaction.interaction,
            "item_id_list": interaction["item_id_list"] * kept,
            "item_length": length,
        }
    )


@pytest.mark.parametrize("name", ["SASRec", "SASRecF", "FDSA", "CORE", "SASRecCPR", "S3Rec"])
def test_causal_models_know_at_an_earlier_position_what_the_shorter_input_tells(
    session: Sessions, name: str
) -> None:
    opened = session(name, dtype=torch.float64)
    scores = position_scores(opened.model, batch(opened), (0, 1, 3))
    for read, offset in zip(scores, (0, 1, 3)):
        torch.testing.assert_close(
            read, opened.model.full_sort_predict(cut(batch(opened), offset)), rtol=0, atol=1e-10
        )


def test_bert4rec_reads_positions_before_its_mask(session: Sessions) -> None:
    model = session("BERT4Rec", dtype=torch.float64).model
    item_seq = torch.tensor([[3, 4, 5, 6, 0, 0, 0, 0], [7, 8, 0, 0, 0, 0, 0, 0]])
    length = torch.tensor([4, 2])
    interaction = Interaction({"item_id_list": item_seq, "item_length": length})
    scores = position_scores(model, interaction, (0, 1))
    hidden = model.forward(model.reconstruct_test_data(item_seq, length))
    for row, mask_at in enumerate((3, 1)):
        for offset in (0, 1):
            expected = hidden[row, mask_at - offset] @ model.item_embedding.weight[:-1].T
            torch.testing.assert_close(scores[offset, row], expected + model.output_bias)


@pytest.mark.parametrize("name", ["GCSAN", "LightSANs", "FEARec", "BERT4Rec", "SASRec"])
def test_offset_0_is_the_models_own_ranking(session: Sessions, name: str) -> None:
    opened = session(name)
    scores = position_scores(opened.model, batch(opened), (0, 2))
    assert scores.shape == (2, len(batch(opened)), opened.train_data._dataset.item_num)
    torch.testing.assert_close(scores[0], opened.model.full_sort_predict(batch(opened)))
    assert not torch.equal(scores[0], scores[1])


def test_the_model_is_as_before_also_after_an_error(session: Sessions) -> None:
    opened = session(**SCALED)
    model, interaction = opened.model, batch(opened)
    before = model.full_sort_predict(interaction)
    position_scores(model, interaction, (0, 1))
    with pytest.raises(KeyError):
        position_scores(model, Interaction({"item_length": torch.tensor([1])}), (0, 1))
    assert "gather_indexes" not in vars(model)
    assert torch.equal(model.full_sort_predict(interaction), before)


def test_unscaled_undoes_every_factor_for_a_while(session: Sessions) -> None:
    opened = session(**SCALED)
    model, interaction = opened.model, batch(opened)
    plain = session("SASRec").model
    assert not is_unscaled(model)
    with scale_residual(plain, feed_forward=0.5):
        assert not is_unscaled(plain)
        with unscaled(plain):
            assert is_unscaled(plain)
    with unscaled(model):
        assert is_unscaled(model)
        at_one = model.full_sort_predict(interaction)
    model.alpha = 1.0
    assert is_unscaled(model)
    assert torch.equal(model.full_sort_predict(interaction), at_one)


class PicksForItself(SASRec):
    """A user's own model that does not use gather_indexes."""

    def gather_indexes(self, output: torch.Tensor, gather_index: torch.Tensor) -> torch.Tensor:
        raise AssertionError

    def forward(self, item_seq: torch.Tensor, item_seq_len: torch.Tensor) -> torch.Tensor:
        hidden = self.item_embedding(item_seq)
        mask = self.get_attention_mask(item_seq)
        block = next(m for m in self.modules() if isinstance(m, MultiHeadAttention))
        return block(hidden, mask)[torch.arange(len(item_seq)), item_seq_len - 1]


def test_a_model_that_picks_its_position_otherwise_is_refused(session: Sessions) -> None:
    opened = session("SASRec")
    model = PicksForItself(opened.config, opened.train_data._dataset).eval()
    with pytest.raises(NoPositionError, match=r"PicksForItself .* gather_indexes"):
        position_scores(model, batch(opened), (0, 1))


@pytest.mark.parametrize("name", ["NARM", "STAMP", "SRGNN"])
def test_a_model_that_goes_on_with_the_whole_sequence_is_refused(name: str) -> None:
    cls = getattr(sequential_recommender, name)
    model = cls.__new__(cls)
    torch.nn.Module.__init__(model)
    with pytest.raises(NoPositionError, match=f"{name} does not make its ranking"):
        position_scores(model, Interaction({"item_length": torch.tensor([3])}), (0, 1))
