from __future__ import annotations

from typing import Any, Callable

import pytest
import torch

from recbole_residual.evaluator.model_input import ModelInput, appends_mask, watching_windows


def items(given: ModelInput) -> list[list[int]]:
    return [given.item_before_end(back).tolist() for back in (0, 1)]


def test_the_last_items_of_a_model_that_takes_the_sequence_as_it_is() -> None:
    given = ModelInput.of(torch.tensor([[3, 4, 5], [6, 0, 0], [7, 7, 0]]), torch.tensor([3, 1, 2]))
    assert items(given) == [[5, 6, 7], [4, 0, 7]]
    assert given.n_positions.tolist() == [3, 1, 2]


def test_bert4rec_cuts_off_the_oldest_item(session: Callable[..., Any]) -> None:
    model = session("BERT4Rec").model
    item_seq = torch.tensor([[3, 4, 5, 0], [6, 0, 0, 0], [8, 9, 0, 0], [1, 2, 3, 4]])
    windows: list[torch.Tensor] = []
    assert appends_mask(model)
    with watching_windows(model, windows.append):
        model.reconstruct_test_data(item_seq, torch.tensor([3, 1, 2, 4]))
    given = ModelInput.of_masked(windows[0], model.mask_token)
    assert items(given) == [[5, 0, 9, 4], [4, 0, 0, 3]]
    assert given.n_items.tolist() == [2, 0, 1, 3]
    assert given.n_positions.tolist() == [3, 1, 2, 4]  # [MASK] is one of them


def test_watching_leaves_the_model_as_it_was(session: Callable[..., Any]) -> None:
    model = session("BERT4Rec").model
    with pytest.raises(KeyError), watching_windows(model, print):
        raise KeyError
    assert "reconstruct_test_data" not in vars(model)
    assert not appends_mask(session("SASRec").model)
