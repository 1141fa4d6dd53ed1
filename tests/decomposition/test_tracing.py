"""decompose, capture and a whole dataset."""

from __future__ import annotations

from typing import Any, Callable

import pytest
import torch
from recbole.model.sequential_recommender import SASRec

from recbole_residual.decomposition import (
    RatioStatistics,
    RecentMap,
    capture,
    decompose,
    decompose_dataset,
    observe,
)
from recbole_residual.errors import TrainingModeError
from recbole_residual.model.architecture.window import last_position
from recbole_residual.model.residual import scale_residual
from tests.conftest import TinyDataset, random_interaction, tiny_config
from tests.decomposition.conftest import LENGTH, tiny_interaction
from tests.decomposition.direct import direct_block, direct_map, direct_ratios


@pytest.fixture
def model() -> Any:
    torch.manual_seed(0)
    return SASRec(tiny_config(), TinyDataset(30)).eval()


@torch.no_grad()
@pytest.mark.parametrize("alpha", [1.0, [0.0, 0.4]])
def test_a_whole_model_against_the_direct_form(model: Any, alpha: Any) -> None:
    interaction = random_interaction(rows=9)
    inputs: list[Any] = []
    blocks = [layer.multi_head_attention for layer in model.trm_encoder.layer]
    handles = [
        block.register_forward_pre_hook(lambda module, args: inputs.append(args))
        for block in blocks
    ]
    with scale_residual(model, alpha):
        seen = decompose(model, interaction, maps=True)
    for handle in handles:
        handle.remove()
    assert seen.layers == ("1", "2")
    assert seen.stages == ("attn", "res", "ln")
    assert torch.equal(seen.mask, interaction["item_id_list"] > 0)
    factors = alpha if isinstance(alpha, list) else [alpha] * 2
    assert seen.alpha == tuple(factors)
    assert seen.contributions is not None
    assert seen.attention is not None
    for index, block in enumerate(blocks):
        direct = direct_block(block, *inputs[index], alpha=factors[index])
        given = (direct.contributions, direct.residual, block.dense, block.LayerNorm, seen.mask)
        torch.testing.assert_close(seen.ratios[index], direct_ratios(*given), rtol=0, atol=1e-5)
        expected = direct_map(*given)
        assert (seen.contributions[index] - expected).abs().max() <= 1e-4 * expected.max()
        attention = direct.weights.mean(1) * seen.mask[:, :, None]
        torch.testing.assert_close(seen.attention[index], attention)
    assert (seen.ratios[..., 0] == 0).all()


def test_decompose_scores_no_item(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "gather_indexes", lambda *args: pytest.fail("went on"))
    assert decompose(model, random_interaction()).ratios.shape == (2, 3, 5, 8)
    shape = decompose(model, random_interaction(), ("ln", "ffn", "ffn_ln")).ratios.shape
    assert shape == (2, 3, 5, 8)


def test_stages_come_in_the_order_asked_for(model: Any) -> None:
    every = decompose(model, random_interaction(), ("attn", "res", "ln", "ffn", "ffn_ln"))
    some = decompose(model, random_interaction(), ("ffn_ln", "attn"))
    assert some.stages == ("ffn_ln", "attn")
    assert torch.equal(some.ratios, every.ratios[:, [4, 0]])


def test_only_what_is_asked_for_is_kept(model: Any) -> None:
    seen = decompose(model, random_interaction())
    assert seen.head_ratios is seen.contributions is seen.attention is seen.parts is None
    seen = decompose(model, random_interaction(), heads=True)
    assert seen.head_ratios is not None
    assert seen.head_ratios.shape == (2, 2, 5, 8)
    with pytest.raises(ValueError, match="recent"):
        decompose(model, random_interaction(), recent=3)


def test_a_larger_window_changes_nothing(model: Any) -> None:
    torch.manual_seed(0)
    wide = SASRec(tiny_config(MAX_ITEM_LIST_LENGTH=20), TinyDataset(30)).eval()
    table = wide.position_embedding.weight.data
    state = model.state_dict()
    state["position_embedding.weight"] = torch.cat([model.position_embedding.weight, table[8:]])
    wide.load_state_dict(state)
    narrow, padded = random_interaction(), random_interaction()
    padded.interaction["item_id_list"] = torch.nn.functional.pad(padded["item_id_list"], (0, 12))
    expected = decompose(model, narrow, maps=True)
    seen = decompose(wide, padded, maps=True)
    assert seen.contributions is not None
    assert expected.contributions is not None
    torch.testing.assert_close(seen.ratios[..., :8], expected.ratios, rtol=0, atol=1e-5)
    torch.testing.assert_close(
        seen.contributions[..., :8, :8], expected.contributions, rtol=0, atol=1e-5
    )
    assert (seen.ratios[..., 8:] == 0).all()


def test_the_mask_position_of_bert4rec_is_valid_and_labelled(
    build_model: Callable[..., Any],
) -> None:
    bert = build_model("BERT4Rec")
    interaction = tiny_interaction()
    seen = decompose(bert, interaction)
    assert seen.last_position == "[MASK]"
    assert set(seen.to_frame().last_position) == {"[MASK]"}
    window = bert.reconstruct_test_data(interaction["item_id_list"], interaction["item_length"])
    assert torch.equal(seen.mask, window > 0)
    # RecBole drops the oldest item, so the [MASK] stands where the last item stood
    assert torch.equal(seen.mask.sum(1), interaction["item_length"])
    assert decompose(build_model("SASRec"), interaction).last_position == "item"
    # S3Rec trains on [MASK] and predicts at the last item
    trained_on_mask = build_model("S3Rec", train_stage="pretrain")
    assert hasattr(trained_on_mask, "mask_token")
    assert last_position(trained_on_mask) == "item"


def test_fdsa_has_the_layers_of_both_encoders(build_model: Callable[..., Any]) -> None:
    seen = decompose(build_model("FDSA"), tiny_interaction())
    assert seen.ratios.shape == (4, 3, 7, LENGTH)
    assert set(seen.to_frame().layer) == {*seen.layers, "all"}


@torch.no_grad()
def test_a_dataset_is_the_sum_of_its_batches(model: Any) -> None:
    batches = [random_interaction(rows=4, seed=seed) for seed in range(3)]
    forwards: list[int] = []
    handle = model.trm_encoder.register_forward_pre_hook(lambda *args: forwards.append(1))
    found = decompose_dataset(model, iter(batches))
    handle.remove()
    assert len(forwards) == len(batches)
    statistics, recent = RatioStatistics(), RecentMap()
    with observe(model, statistics.update), observe(model, recent.update, maps=True):
        for batch in batches:
            model.full_sort_predict(batch)
    expected, frame = statistics.to_frame(), found.statistics.to_frame()
    assert frame.drop(columns="value").equals(expected.drop(columns="value"))
    torch.testing.assert_close(
        torch.tensor(frame.value), torch.tensor(expected.value), equal_nan=True
    )
    torch.testing.assert_close(
        found.recent_map.contributions, recent.contributions, equal_nan=True, atol=1e-5, rtol=0
    )


def test_captures_keep_every_forward(model: Any) -> None:
    with capture(model) as trace:
        with pytest.raises(ValueError, match="Nothing was captured"):
            trace.decomposition  # noqa: B018
        for seed in range(2):
            model.full_sort_predict(random_interaction(seed=seed))
    first, second = trace.decompositions
    assert trace.decomposition is second
    assert not torch.equal(first.mask, second.mask)
    assert not second.ratios.requires_grad


def test_training_mode_is_refused(model: Any) -> None:
    with pytest.raises(TrainingModeError):
        decompose(model.train(), random_interaction())


def test_a_model_that_ends_before_its_last_block_is_refused(model: Any) -> None:
    model.full_sort_predict = lambda interaction: None
    with pytest.raises(RuntimeError, match="did not run all attention blocks"):
        decompose(model, random_interaction())


def test_it_shows_itself_in_short(model: Any) -> None:
    seen = decompose(model, random_interaction(rows=9), maps=True)
    assert "sequences=9" in repr(seen)
    assert "contributions, attention" in repr(seen)
    assert "tensor" not in repr(seen)
    mean = seen.to_frame().query("layer == 'all' and stage == 'res' and position == 'last'")
    value = mean.loc[mean["statistic"] == "mean", "value"].iloc[0]
    assert f"{value:.4f}" in seen._repr_html_()
