from __future__ import annotations

from typing import Any

import pytest
import torch
from recbole.data.interaction import Interaction
from recbole.model.sequential_recommender import BERT4Rec, SASRec

from recbole_residual.errors import ModelError
from recbole_residual.model.architecture.window import (
    ModelInput,
    ends_in_mask,
    last_position,
    watching_input,
)
from tests.conftest import TinyDataset, random_interaction, tiny_config


@pytest.fixture
def bert() -> Any:
    return BERT4Rec(tiny_config(MAX_ITEM_LIST_LENGTH=4), TinyDataset(30)).eval()


def items(window: ModelInput) -> list[list[int]]:
    return [window.item_before_end(back).tolist() for back in (0, 1)]


def test_the_last_items_of_a_model_that_takes_the_sequence_as_it_is() -> None:
    window = ModelInput.of(torch.tensor([[3, 4, 5], [6, 0, 0], [7, 7, 0]]), torch.tensor([3, 1, 2]))
    assert items(window) == [[5, 6, 7], [4, 0, 7]]
    assert window.n_positions.tolist() == [3, 1, 2]
    assert items(window.rows(torch.tensor([2, 0]))) == [[7, 5], [7, 4]]


def test_bert4rec_cuts_off_the_oldest_item(bert: Any) -> None:
    item_seq = torch.tensor([[3, 4, 5, 0], [6, 0, 0, 0], [8, 9, 0, 0], [1, 2, 3, 4]])
    batch = Interaction({"item_id_list": item_seq, "item_length": torch.tensor([3, 1, 2, 4])})
    with watching_input(bert) as watch:
        bert.full_sort_predict(batch)
    window = watch.take(batch)
    assert items(window) == [[5, 0, 9, 4], [4, 0, 0, 3]]
    assert window.n_items.tolist() == [2, 0, 1, 3]
    assert window.n_positions.tolist() == [3, 1, 2, 4]  # [MASK] is one of them


def test_several_forwards_make_one_window_and_a_pause_leaves_nothing(bert: Any) -> None:
    batch = random_interaction(length=4)
    with watching_input(bert) as watch:
        bert.full_sort_predict(batch)
        whole = watch.take(batch)
        bert.full_sort_predict(batch[:2])
        watch.paused = True
        bert.full_sort_predict(batch)
        watch.paused = False
        bert.full_sort_predict(batch[2:])
        assert torch.equal(watch.take(batch).item_seq, whole.item_seq)


def test_watching_leaves_the_model_as_it_was(bert: Any) -> None:
    with pytest.raises(KeyError), watching_input(bert):
        raise KeyError
    assert "reconstruct_test_data" not in vars(bert)


def test_one_answer_to_what_stands_at_the_last_position(bert: Any) -> None:
    assert ends_in_mask(bert)
    assert last_position(bert) == "[MASK]"
    assert last_position(SASRec(tiny_config(), TinyDataset(30))) == "item"


def test_a_window_made_in_another_way_is_refused_by_name() -> None:
    class OwnWindow(BERT4Rec):
        def full_sort_predict(self, interaction: Any) -> Any:
            return self.forward(interaction["item_id_list"])

    model = OwnWindow(tiny_config(), TinyDataset(30)).eval()
    batch = random_interaction()
    with watching_input(model) as watch:
        model.full_sort_predict(batch)
    with pytest.raises(ModelError, match=r"OwnWindow.*reconstruct_test_data"):
        watch.take(batch)
