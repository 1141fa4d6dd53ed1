"""The sweep in one pass equals a plain evaluation at every setting."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from recbole.model.sequential_recommender import (
    CORE,
    BERT4Rec,
    Caser,
    GRU4Rec,
    LightSANs,
    SASRec,
)

from recbole_residual.errors import HistoryMaskedError, ModelError, NaNScoreError, ProbeDataError
from recbole_residual.model import GRU4RecResidual, SASRecResidual
from recbole_residual.model.residual import residual_alpha, scale_residual
from recbole_residual.probe import sweep_alpha
from recbole_residual.probe.alpha_sweep import FeedForwardSweep, LayerGrid
from recbole_residual.probe.engine import evaluation, sasrec_pass
from recbole_residual.probe.engine.setting import ScalableResiduals
from tests.probe.conftest import N_ITEMS, ListLoader, build, loader
from tests.probe.plain import plain_metrics

TOPK = [1, 3, 10]


def one_by_one(monkeypatch: Any, model: Any, data: Any, *args: Any, **options: Any) -> Any:
    """The same sweep by the general way, one forward per setting."""
    with monkeypatch.context() as patch:
        patch.setattr(evaluation, "is_plain_sasrec", lambda model: False)
        return sweep_alpha(model, data, *args, **options)


def assert_rows_are_plain(sweep: Any, model: Any, data: ListLoader) -> None:
    for setting, row in zip(sweep.settings, sweep.frame.to_dict("records")):
        expected = plain_metrics(
            model, data.rows, list(setting.alpha), list(setting.feed_forward), list(sweep.topk)
        )
        found = {name: row[name] for name in expected}
        assert found == pytest.approx(expected, abs=1e-5, nan_ok=True), setting


@settings(deadline=None, max_examples=12, suppress_health_check=list(HealthCheck))
@given(
    seed=st.integers(0, 1000),
    n_layers=st.integers(1, 3),
    n_heads=st.sampled_from([1, 2, 4]),
    hidden_act=st.sampled_from(["gelu", "relu", "swish"]),
    alphas=st.lists(st.floats(0, 2, width=16), min_size=1, max_size=5, unique=True),
    residual=st.sampled_from(["attention", "feed_forward", "both"]),
    batch_size=st.sampled_from([1, 7, 64]),
)
def test_every_figure_is_that_of_a_plain_evaluation(
    seed, n_layers, n_heads, hidden_act, alphas, residual, batch_size
) -> None:
    model = build(seed=seed, n_layers=n_layers, n_heads=n_heads, hidden_act=hidden_act)
    data = loader(batch_size, rows=20, seed=seed)
    sweep = sweep_alpha(model, data, alphas, TOPK, residual=residual)
    assert len(sweep.frame) == len(alphas)
    assert_rows_are_plain(sweep, model, data)


@pytest.mark.parametrize("n_layers", [2, 3])
def test_grid_of_one_alpha_per_layer(n_layers: int) -> None:
    model, data = build(n_layers=n_layers), loader(rows=20)
    grid = sweep_alpha(model, data, [1.0, 0.0, 0.3], TOPK, per_layer=True)
    assert isinstance(grid, LayerGrid)
    assert len(grid.frame) == 3**n_layers
    names = [f"alpha_{layer}" for layer in range(1, n_layers + 1)]
    assert [tuple(row) for row in grid.frame[names].to_numpy()] == [s.alpha for s in grid.settings]
    assert_rows_are_plain(grid, model, data)


def test_figures_do_not_depend_on_the_batch_size(model: SASRec, monkeypatch: Any) -> None:
    frames = [sweep_alpha(model, loader(size), topk=TOPK).frame for size in (1, 7, 50)]
    with monkeypatch.context() as patch:  # as small as the pass can get
        patch.setattr(sasrec_pass, "_POSITIONS", {"cpu": 1})
        patch.setattr(sasrec_pass, "_POOL_ROWS", 1)
        frames.append(sweep_alpha(model, loader(7), topk=TOPK).frame)
    exact = [name for name in frames[0] if not name.startswith("mixingratio")]
    for frame in frames[1:]:
        pd.testing.assert_frame_equal(frame[exact], frames[0][exact], check_exact=True)
        pd.testing.assert_frame_equal(frame, frames[0], rtol=0, atol=1e-6)


def test_ties_and_near_ties_are_decided_by_the_model(monkeypatch: Any) -> None:
    model, data = build(), loader(rows=80)
    with torch.no_grad():
        weight = model.item_embedding.weight
        weight[N_ITEMS // 2 :] = weight[: N_ITEMS // 2]  # every score twice
        weight[1:5] *= 1 + torch.tensor([[0.0], [1e-7], [2e-7], [3e-7]])
    data.rows["item_id_list"].clamp_(max=N_ITEMS - 1)
    seen = []
    original = sasrec_pass.SasrecPass.run
    monkeypatch.setattr(
        sasrec_pass.SasrecPass,
        "run",
        lambda self, rows: seen.append(original(self, rows)) or seen[-1],
    )
    fast = sweep_alpha(model, data, topk=TOPK)
    slow = one_by_one(monkeypatch, model, data, topk=TOPK)
    pd.testing.assert_frame_equal(fast.frame, slow.frame, rtol=0, atol=1e-5)
    assert seen[0].n_plain > 0


def test_few_rows_need_the_model_itself(model: SASRec) -> None:
    scalable = ScalableResiduals.of(model)
    asked = [scalable.setting(alpha) for alpha in (0.0, 0.5, 1.0)]
    found = evaluation.evaluate_settings(model, loader(rows=200), asked, TOPK)
    assert found.n_plain < 0.02 * 600


def test_attention_scores_beyond_the_range_of_exp(monkeypatch: Any) -> None:
    model, data = build(initializer_range=4.0), loader()
    fast = sweep_alpha(model, data, topk=TOPK)
    slow = one_by_one(monkeypatch, model, data, topk=TOPK)
    pd.testing.assert_frame_equal(fast.frame, slow.frame, rtol=0, atol=1e-5)


def test_alpha_in_force_and_training_mode_change_nothing() -> None:
    model = build(
        SASRecResidual,
        position="learned",
        norm="post",
        residual="attention",
        attention="learned",
        logits_chunk=None,
        hidden_dropout_prob=0.5,
    )
    expected = sweep_alpha(model, loader(), topk=TOPK).frame
    model.alpha = 0.3
    model.train()
    found = sweep_alpha(model, loader(), topk=TOPK).frame
    pd.testing.assert_frame_equal(found, expected)
    assert model.training
    assert residual_alpha(model) == [0.3, 0.3]
    with scale_residual(model, 0.7):
        pd.testing.assert_frame_equal(sweep_alpha(model, loader(), topk=TOPK).frame, expected)


def test_model_whose_alpha_scales_both_residuals() -> None:
    model = build(
        SASRecResidual,
        position="learned",
        norm="post",
        residual="attention+ffn",
        attention="learned",
        logits_chunk=None,
    )
    sweep = sweep_alpha(model, loader(), [0.5, 1.0], TOPK)
    assert isinstance(sweep, FeedForwardSweep)
    assert sweep.frame[["alpha", "feed_forward"]].to_numpy().tolist() == [[0.5, 0.5], [1, 1]]


@pytest.mark.parametrize(
    ("model_class", "changes"),
    [
        (BERT4Rec, {}),
        (LightSANs, {"k_interests": 3}),
        (
            CORE,
            {
                "embedding_size": 16,
                "temperature": 0.1,
                "sess_dropout": 0.0,
                "item_dropout": 0.0,
                "dnn_type": "trm",
            },
        ),
    ],
)
def test_other_models_with_attention(model_class: type, changes: dict[str, Any]) -> None:
    model, data = build(model_class, **changes), loader()
    sweep = sweep_alpha(model, data, [0.0, 1.0], TOPK)
    frame = sweep.frame
    assert not frame.filter(like="mixingratio").isna().any().any()
    assert frame["mixingratio_res"].is_monotonic_decreasing
    mask_note = [note for note in sweep.notes if "[MASK]" in note]
    assert bool(mask_note) == (model_class is BERT4Rec)
    smaller = sweep_alpha(model, ListLoader(data.rows, 3), [0.0, 1.0], TOPK).frame
    pd.testing.assert_frame_equal(smaller, frame, rtol=0, atol=1e-6)


def test_alpha_out_of_reach_is_one_row_with_a_note() -> None:
    model = build(GRU4Rec, embedding_size=16, num_layers=1, dropout_prob=0.0)
    sweep = sweep_alpha(model, loader(), topk=TOPK)
    assert len(sweep.frame) == 1
    assert "alpha" not in sweep.frame
    assert "out of reach" in sweep.notes[0]
    assert sweep.frame["mixingratio_res"].isna().all()
    assert sweep.frame["hit@10"].between(0, 1).all()


def test_added_skip_of_a_gru() -> None:
    model = build(
        GRU4RecResidual,
        embedding_size=16,
        num_layers=1,
        dropout_prob=0.0,
        logits_chunk=None,
        alpha=0.0,
        alpha_train=0.0,
    )
    sweep = sweep_alpha(model, loader(), [0.0, 0.5, 1.0], TOPK)
    assert sweep.unscaled == 0
    assert sweep.frame["mixingratio_gate"].between(0, 1).all()
    assert sweep.frame["mixingratio_gate"].nunique() == 1  # the skip is behind the gate
    assert sweep.frame["recoveryrate@10"].iloc[0] == 0
    assert sweep.frame["hrli@1"].nunique() > 1
    assert "mixingratio_gate" in str(sweep)


def test_model_that_picks_no_position_has_no_recoverable_base() -> None:
    model = build(Caser, embedding_size=16, nh=4, nv=2, reg_weight=0.0, dropout_prob=0.0)
    data = loader()
    data.rows.update(type(data.rows)({"user_id": torch.ones(len(data.rows), dtype=torch.int64)}))
    sweep = sweep_alpha(model, data, topk=TOPK)
    assert sweep.frame["recoveryrate@10"].isna().all()
    assert any("no recoverable base" in note for note in sweep.notes)


def test_empty_base_is_nan_with_size_zero_and_a_note(model: SASRec) -> None:
    sweep = sweep_alpha(model, loader(length=1), topk=TOPK)  # nothing before the last position
    assert sweep.frame["recoverybase@10"].eq(0).all()
    assert sweep.frame["recoveryrate@10"].isna().all()
    assert any("k = 1, 3, 10" in note for note in sweep.notes)


def test_broken_weights_are_an_error(model: SASRec) -> None:
    with torch.no_grad():
        model.trm_encoder.layer[1].feed_forward.dense_2.bias[0] = torch.nan
    with pytest.raises(NaNScoreError):
        sweep_alpha(model, loader(), topk=TOPK)


def test_data_that_cannot_be_probed(model: SASRec) -> None:
    data = loader()
    data.history = (torch.tensor([0]), torch.tensor([1]))
    with pytest.raises(HistoryMaskedError, match="filter_seen"):
        sweep_alpha(model, data)
    with pytest.raises(ProbeDataError, match="whole catalogue"):
        sweep_alpha(model, [1, 2])
    with pytest.raises(ProbeDataError, match="no sequence"):
        sweep_alpha(model, ListLoader(loader().rows[:0], 4))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alphas": []}, "at least one"),
        ({"alphas": [0.1, 0.1]}, "different"),
        ({"alphas": [-1]}, "at least 0"),
        ({"topk": [0]}, "topk"),
        ({"topk": [N_ITEMS]}, "topk"),
        ({"topk": []}, "topk"),
        ({"residual": "ffn"}, "one of"),
    ],
)
def test_mistakes_are_told(model: SASRec, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sweep_alpha(model, loader(), **options)


@torch.no_grad()
def test_exact_ties_are_those_of_recboles_list(monkeypatch: Any) -> None:
    """Every item twice in the catalogue: hit@k is that of torch.topk, as in RecBole's Trainer."""
    model, data = build(), loader(rows=60)
    weight = model.item_embedding.weight
    weight[N_ITEMS // 2 + 1 :] = weight[1 : N_ITEMS // 2]
    scores = model.full_sort_predict(data.rows)
    scores[:, 0] = -torch.inf
    places = scores.topk(10, dim=1).indices == data.rows["item_id"].unsqueeze(1)
    last = data.rows["item_id_list"][torch.arange(60), data.rows["item_length"] - 1]
    higher = (scores > scores.gather(1, last.unsqueeze(1))).sum(dim=1)
    fast = sweep_alpha(model, data, [1.0], (1, 2, 10)).frame.iloc[0]
    slow = one_by_one(monkeypatch, model, data, [1.0], (1, 2, 10)).frame.iloc[0]
    for found in (fast, slow):
        for k in (1, 2, 10):
            assert found[f"hit@{k}"] == places[:, :k].any(dim=1).double().mean().item()
            assert found[f"hrli@{k}"] == (higher < k).double().mean().item()


@torch.no_grad()
@pytest.mark.parametrize(("width", "n_layers"), [(128, 3), (192, 2)])
def test_ranks_of_large_weights_are_those_of_the_model(width: int, n_layers: int) -> None:
    model = build(n_items=800, hidden_size=width, n_layers=n_layers, initializer_range=0.3)
    data = loader(rows=300, n_items=800)
    topk = (1, 3, 10, 30, 100, 300, 799)
    sweep = sweep_alpha(model, data, [0.0, 1.0], topk)
    rows, target = torch.arange(300), data.rows["item_id"]
    last = data.rows["item_id_list"][rows, data.rows["item_length"] - 1]
    for alpha, row in zip((0.0, 1.0), sweep.frame.to_dict("records")):
        with scale_residual(model, alpha):
            scores = model.full_sort_predict(data.rows)
        for name, item in (("hit", target), ("hrli", last)):
            ranks = (scores[:, 1:] > scores[rows, item][:, None]).sum(dim=1) + 1
            for k in topk:
                assert row[f"{name}@{k}"] == (ranks <= k).double().mean().item()


@pytest.mark.parametrize("precision", ["high", "medium"])
def test_reduced_precision_is_the_models_own(precision: str) -> None:
    model, data = build(n_items=200), loader(rows=100, n_items=200)
    torch.set_float32_matmul_precision(precision)
    try:
        sweep = sweep_alpha(model, data, [0.0, 1.0], TOPK)
        assert_rows_are_plain(sweep, model, data)
    finally:
        torch.set_float32_matmul_precision("highest")


@pytest.mark.parametrize("wrap", [torch.nn.DataParallel, torch.compile])
def test_a_wrapped_model_is_the_model_inside(model: SASRec, wrap: Any) -> None:
    expected = sweep_alpha(model, loader(), [0.0, 1.0], TOPK).frame
    pd.testing.assert_frame_equal(
        sweep_alpha(wrap(model), loader(), [0.0, 1.0], TOPK).frame, expected
    )


def test_a_model_compiled_in_place_is_refused_by_name() -> None:
    model = build()
    model.trm_encoder.compile(backend="eager")
    with pytest.raises(ModelError, match=r"SASRec.trm_encoder is compiled"):
        sweep_alpha(model, loader(), [0.0, 1.0], TOPK)
