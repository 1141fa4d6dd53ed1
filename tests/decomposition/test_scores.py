"""Shares of positions in a score."""

from __future__ import annotations

from typing import Any, Callable

import pytest
import torch
from recbole.model.sequential_recommender import SASRec

from recbole_residual.decomposition import score_shares
from recbole_residual.errors import NonlinearScoreError, TrainingModeError
from recbole_residual.model.residual import scale_residual
from recbole_residual.model.sasrec_residual import SASRecResidual
from tests.conftest import TinyDataset, random_interaction, tiny_config
from tests.decomposition.conftest import tiny_interaction
from tests.decomposition.direct import direct_block, direct_norm


def model(**changes: Any) -> Any:
    torch.manual_seed(0)
    built = SASRecResidual(tiny_config(**changes), TinyDataset(30)).eval()
    for parameter in built.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)
    return built


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("alpha", [1.0, 0.3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_shares_add_up_to_the_score(norm: str, alpha: float, dtype: torch.dtype) -> None:
    recommender = model(norm=norm).to(dtype)
    interaction = random_interaction(rows=9)
    with torch.no_grad(), scale_residual(recommender, alpha, feed_forward=0.8):
        scores = recommender.full_sort_predict(interaction)
        shares = score_shares(recommender, interaction)
    expected = scores.gather(1, interaction["item_id"].unsqueeze(1))
    assert torch.equal(shares.score, expected)
    bound = 1e-5 if dtype == torch.float32 else 1e-10
    assert (shares.total - expected).abs().max() <= bound * scores.abs().max()


@torch.no_grad()
def test_each_share_is_its_part_pushed_through_the_rest() -> None:
    recommender = model(n_layers=1).double()
    interaction = random_interaction(rows=4)
    item_seq, item_seq_len = interaction["item_id_list"], interaction["item_length"]
    items = torch.tensor([[3, 7]]).expand(4, -1)
    shares = score_shares(recommender, interaction, items)
    inputs: list[torch.Tensor] = []
    layer = recommender.trm_encoder.layer[0]
    block, ffn = layer.multi_head_attention, layer.feed_forward
    handle = block.register_forward_pre_hook(lambda module, args: inputs.extend(args))
    recommender.full_sort_predict(interaction)
    handle.remove()
    direct = direct_block(block, *inputs)
    sigma = torch.sqrt(direct.z.var(-1, unbiased=False) + block.LayerNorm.eps)
    h = block.LayerNorm(direct.z)
    written = ffn.dense_2(ffn.intermediate_act_fn(ffn.dense_1(h)))
    sigma_2 = torch.sqrt((h + written).var(-1, unbiased=False) + ffn.LayerNorm.eps)
    for row, length in enumerate(item_seq_len.tolist()):
        last = length - 1

        def score(part: torch.Tensor, row: int = row, last: int = last) -> torch.Tensor:
            out = direct_norm(part, ffn.LayerNorm, sigma_2[row, last])
            return recommender.item_embedding.weight[items[row]] @ out

        def score_before(part: torch.Tensor, row: int = row, last: int = last) -> torch.Tensor:
            return score(direct_norm(part, block.LayerNorm, sigma[row, last]), row, last)

        for position in range(length):
            expected = score_before(direct.contributions[row, last, position])
            torch.testing.assert_close(shares.positions[row, :, position], expected)
        assert (shares.positions[row, :, length:] == 0).all()
        torch.testing.assert_close(shares.residual[row], score_before(direct.residual[row, last]))
        torch.testing.assert_close(shares.feed_forward[row], score(written[row, last]))
        bias = score_before(block.dense.bias) + score(block.LayerNorm.bias)
        bias += recommender.item_embedding.weight[items[row]] @ ffn.LayerNorm.bias
        torch.testing.assert_close(shares.bias[row], bias)
    assert torch.equal(shares.mask, item_seq > 0)


@pytest.mark.parametrize("name", ["SASRec", "SASRecF", "FEARec", "LightSANs"])
def test_recbole_models_that_score_by_a_dot_product(
    build_model: Callable[..., Any], name: str
) -> None:
    shares = score_shares(build_model(name), tiny_interaction(), "last")
    torch.testing.assert_close(shares.total, shares.score, rtol=1e-4, atol=1e-4)
    assert (shares.padding.abs().max() > 1e-4) == (name in ("FEARec", "LightSANs"))


@pytest.mark.parametrize("name", ["BERT4Rec", "CORE", "FDSA", "GCSAN", "SASRecCPR"])
def test_other_scores_are_refused(build_model: Callable[..., Any], name: str) -> None:
    with pytest.raises(NonlinearScoreError, match=name):
        score_shares(build_model(name), tiny_interaction())


def test_which_items() -> None:
    recommender, interaction = model(), random_interaction()
    item_seq, lengths = interaction["item_id_list"], interaction["item_length"]
    assert score_shares(recommender, interaction).items.tolist() == [
        [item] for item in interaction["item_id"].tolist()
    ]
    last = [[item_seq[row, length - 1].item()] for row, length in enumerate(lengths.tolist())]
    assert score_shares(recommender, interaction, "last").items.tolist() == last
    some = torch.tensor([4, 1, 2, 3, 5])
    assert score_shares(recommender, interaction, some).items.tolist() == [[4], [1], [2], [3], [5]]
    with pytest.raises(ValueError, match="target"):
        score_shares(recommender, interaction, "first")


def test_training_mode_is_refused() -> None:
    with pytest.raises(TrainingModeError):
        score_shares(model().train(), random_interaction())


def test_frame() -> None:
    interaction = random_interaction(rows=2)
    shares = score_shares(model(), interaction, torch.tensor([[3, 7], [4, 5]]))
    frame = shares.to_frame()
    total = frame.groupby(["row", "scored_item"]).share.sum()
    assert total[1, 5] == pytest.approx(shares.score[1, 1].item(), abs=1e-4)
    first = frame[(frame.row == 0) & (frame.scored_item == 7) & (frame.source == "position")]
    length = interaction["item_length"][0].item()
    assert first.from_end.tolist() == list(range(length))[::-1]
    assert first.item.tolist() == interaction["item_id_list"][0, :length].tolist()
    assert first.share.tolist() == shares.positions[0, 1, :length].tolist()


def test_plain_recbole_model() -> None:
    recommender = SASRec(tiny_config(), TinyDataset(30)).eval()
    shares = score_shares(recommender, random_interaction())
    torch.testing.assert_close(shares.total, shares.score, rtol=1e-4, atol=1e-4)
