"""alpha_train: learned: neutral at 1, right elsewhere, in every path, and its path over epochs."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from recbole.data.interaction import Interaction
from recbole.model.sequential_recommender import SASRec

from recbole_residual.decomposition import decompose, observe, score_shares
from recbole_residual.errors import ModelError
from recbole_residual.evaluator.sasrec_states import sasrec_states
from recbole_residual.model import (
    BERT4RecResidual,
    BSARecResidual,
    GRU4RecResidual,
    SASRecResidual,
)
from recbole_residual.model.fast_forward import can_run_fast
from recbole_residual.model.objective import target_list_field
from recbole_residual.model.residual import residual_alpha, scale_residual
from recbole_residual.probe.engine.encoder import SweepEncoder
from recbole_residual.probe.engine.setting import ScalableResiduals
from recbole_residual.probe.engine.setting_tree import SettingTree
from tests.conftest import TinyDataset, random_interaction, tiny_config

CASES: list[dict[str, Any]] = [{}, {"norm": "pre"}, {"position": "rotary"}]


def built(model_class: type = SASRecResidual, factors: Any = None, **changes: Any) -> Any:
    torch.manual_seed(0)
    changes = {"alpha_train": "learned", **changes}
    model = model_class(tiny_config(**changes), TinyDataset(30)).eval()
    if factors is not None:
        model.learned_alpha.data = torch.tensor(factors)
    return model


def plain_twin(model: Any, **changes: Any) -> Any:
    """The same weights under fixed factors."""
    twin = built(alpha_train=1.0, **changes)
    twin.load_state_dict({k: v for k, v in model.state_dict().items() if k != "learned_alpha"})
    return twin


def batch_of(rows: int = 9) -> Interaction:
    interaction = random_interaction(rows=rows)
    item_seq = interaction["item_id_list"]
    targets = torch.randint(1, 30, item_seq.shape) * (item_seq > 0)
    return Interaction({**interaction.interaction, target_list_field("item_id_list"): targets})


@torch.no_grad()
def test_it_starts_as_recboles_sasrec_bit_for_bit() -> None:
    model, plain = built(), SASRec(tiny_config(), TinyDataset(30)).eval()
    plain.load_state_dict({k: v for k, v in model.state_dict().items() if k != "learned_alpha"})
    interaction = random_interaction()
    assert torch.equal(model.full_sort_predict(interaction), plain.full_sort_predict(interaction))
    assert model.learned_alpha.tolist() == [1.0, 1.0]
    assert "learned_alpha" not in built(alpha_train=1.0).state_dict()


@torch.no_grad()
@pytest.mark.parametrize("choice", CASES, ids=str)
def test_learned_factors_are_factors_and_alpha_multiplies_them(choice: dict[str, Any]) -> None:
    model = built(factors=[0.4, 1.7], **choice)
    plain = plain_twin(model, **choice)
    interaction = random_interaction(rows=9)
    for alpha in (1.0, 0.5, [0.0, 0.3]):
        each = [alpha] * 2 if isinstance(alpha, float) else alpha
        with scale_residual(plain, [0.4 * each[0], 1.7 * each[1]]):
            expected = plain.full_sort_predict(interaction)
            ratios = decompose(plain, interaction).ratios
        model.alpha = alpha
        assert residual_alpha(model) == each
        torch.testing.assert_close(model.full_sort_predict(interaction), expected)
        decomposition = decompose(model, interaction, parts=True)
        torch.testing.assert_close(decomposition.ratios, ratios)
        completeness = decomposition.completeness()
        assert (completeness.error <= 1e-5 * completeness.largest).all()
        shares = score_shares(model, interaction)
        torch.testing.assert_close(shares.total, shares.score, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("choice", CASES, ids=str)
def test_training_learns_them(choice: dict[str, Any]) -> None:
    model = built(factors=[0.4, 1.7], **choice).train()
    batch = batch_of()
    with model.as_trained():
        loss = model.calculate_loss(batch)
        assert can_run_fast(model) == ("position" not in choice)
        (gradient,) = torch.autograd.grad(loss, [model.learned_alpha])
        for layer in range(2):
            losses = []
            for step in (-1e-2, 1e-2):
                moved = copy.deepcopy(model).double()
                moved.learned_alpha.data[layer] += step
                losses.append(moved.calculate_loss(batch))
            slope = (losses[1] - losses[0]) / 2e-2
            assert gradient[layer].item() == pytest.approx(slope.item(), rel=2e-2, abs=1e-4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model.calculate_loss(batch).backward()
    optimizer.step()
    assert model.learned_alpha.tolist() != [pytest.approx(0.4), pytest.approx(1.7)]


@torch.no_grad()
def test_the_fast_paths_of_evaluation_and_sweep_know_them() -> None:
    model = built(factors=[0.4, 1.7])
    interaction = random_interaction(rows=9)
    item_seq, item_seq_len = interaction["item_id_list"], interaction["item_length"]
    residuals = ScalableResiduals.of(model)
    sweep = [residuals.setting(alpha) for alpha in (1.0, 0.0, 0.3, [0.2, 0.9])]
    tree = SettingTree.of(sweep)
    encoded = SweepEncoder(model, tree, 0, 1).encode(item_seq, item_seq_len)
    for index, setting in enumerate(sweep):
        ratios: list[torch.Tensor] = []
        with (
            scale_residual(model, list(setting.alpha)),
            observe(model, lambda d, ratios=ratios: ratios.append(d.ratios)),
        ):
            hidden = model(item_seq, item_seq_len)
        with scale_residual(model, list(setting.alpha)):
            states = sasrec_states(model, item_seq, item_seq_len, (0,))
        torch.testing.assert_close(states, hidden, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(encoded.hidden[index], hidden, rtol=1e-4, atol=1e-4)
        total = ratios[0].double().sum(dim=(2, 3))
        for layer, node in enumerate(tree.paths[index]):
            sums = encoded.ratio_sums[layer][node, :, 0]
            torch.testing.assert_close(sums, total[layer], rtol=1e-4, atol=1e-4)


def test_the_path_over_epochs_is_kept_with_the_model() -> None:
    model = built()
    model.epoch_ended()
    model.learned_alpha.data = torch.tensor([0.5, 2.0])
    model.epoch_ended()
    assert model.other_parameter() == {"learned_alpha_path": [[1.0, 1.0], [0.5, 2.0]]}
    plain = built(alpha_train=1.0)
    plain.epoch_ended()
    assert not hasattr(plain, "learned_alpha_path")


def test_a_copy_has_factors_of_its_own() -> None:
    model = built()
    twin = copy.deepcopy(model)
    interaction = random_interaction()
    expected = model.full_sort_predict(interaction)
    twin.learned_alpha.data.fill_(0.1)
    assert not torch.allclose(twin.full_sort_predict(interaction), expected)
    assert torch.equal(model.full_sort_predict(interaction), expected)


def test_other_models() -> None:
    bert = built(BERT4RecResidual, factors=[0.3, 1.0])
    with torch.no_grad():
        scores = bert.full_sort_predict(random_interaction())
        bert.learned_alpha.data.fill_(1)
        with scale_residual(bert, [0.3, 1.0]):
            expected = bert.full_sort_predict(random_interaction())
    torch.testing.assert_close(scores, expected)
    frequency = {"frequency_weight": 0.5, "frequency_components": 3}
    assert built(BSARecResidual, **frequency).learned_alpha.shape == (2,)
    sizes = {"embedding_size": 16, "num_layers": 1, "dropout_prob": 0.0, "alpha": 0.0}
    with pytest.raises(ModelError, match="GRU4RecResidual is added"):
        built(GRU4RecResidual, **sizes)
