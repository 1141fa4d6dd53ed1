"""Intervals of a probe's figures, from sequences looked at one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from recbole.model.sequential_recommender import BERT4Rec, SASRec
from scipy import stats

from recbole_residual.errors import ProbeError
from recbole_residual.probe import (
    choose_alpha,
    influence,
    internals,
    positions,
    reliance,
    select_alpha,
    shuffle,
    sweep_alpha,
)
from recbole_residual.probe.intervals import Intervals
from recbole_residual.probe.uncertainty import N_RESAMPLES, SEED, bootstrap_sums
from tests.probe.conftest import ListLoader, build, loader
from tests.probe.plain import plain_metrics

TOPK = (1, 10)


def samples(n: int) -> np.ndarray:
    return np.random.default_rng(SEED).integers(0, n, (N_RESAMPLES, n))


@pytest.mark.parametrize("model_class", [SASRec, BERT4Rec])
def test_figures_are_those_of_the_table(model_class: type) -> None:
    model = build(model_class)
    sweep = sweep_alpha(model, loader(7, rows=40), [0.0, 0.5, 1.0], TOPK)
    figures = sweep.intervals.figures
    assert figures["alpha"].tolist() == [0.0, 0.5, 1.0]
    for name in figures.columns:
        if name in sweep.frame:
            assert figures[name].tolist() == pytest.approx(
                sweep.frame[name].tolist(), abs=1e-6, nan_ok=True
            )
            if f"{name}_low" in figures and not figures[name].isna().any():
                assert (figures[f"{name}_low"] <= figures[name] + 1e-12).all()
                assert (figures[name] <= figures[f"{name}_high"] + 1e-12).all()
    left_out = {name for name in sweep.frame if name not in figures}
    assert all(name.startswith("recoverybase") for name in left_out)


def test_every_figure_of_a_sample_is_that_of_its_sequences(model: SASRec) -> None:
    """One bootstrap sample, evaluated as if it were the data."""
    data = loader(rows=30)
    sweep = sweep_alpha(model, data, [0.3, 1.0], TOPK)
    drawn = samples(30)
    for number in (0, 7):
        rows = data.rows[drawn[number].tolist()]
        expected = plain_metrics(model, rows, [0.3, 0.3], [1.0, 1.0], list(TOPK))
        again = sweep_alpha(model, ListLoader(rows, 64), [0.3, 1.0], TOPK).frame.iloc[0]
        for name in sweep.intervals.names:
            found = sweep.intervals.samples(name)[number, 0]
            assert found == pytest.approx(again[name], abs=1e-5, nan_ok=True), name
        for name in ("ndcg@10", "mrr@10", "hrli@1", "hrl2i@10", "mixingratio_res",
                     "mixingratio_ln_last", "recoveryrate@10"):  # fmt: skip
            found = sweep.intervals.samples(name)[number, 0]
            assert found == pytest.approx(expected[name], abs=1e-5, nan_ok=True), name


def test_ends_are_percentiles_and_wilsons(model: SASRec) -> None:
    sweep = sweep_alpha(model, loader(rows=30), [0.3, 1.0], TOPK)
    row, n = sweep.intervals.figures.iloc[0], 30
    ends = np.percentile(sweep.intervals.samples("ndcg@10")[:, 0], [2.5, 97.5])
    assert (row["ndcg@10_low"], row["ndcg@10_high"]) == pytest.approx(tuple(ends))
    share = stats.binomtest(round(row["hit@10"] * n), n).proportion_ci(method="wilson")
    assert (row["hit@10_low"], row["hit@10_high"]) == pytest.approx((share.low, share.high))


def test_differences_are_paired(model: SASRec) -> None:
    sweep = sweep_alpha(model, loader(rows=40), [0.3, 1.0], TOPK)
    (row,) = sweep.intervals.differences.to_dict("records")
    assert row["alpha"] == 0.3
    both = sweep.intervals.samples("ndcg@10")
    ends = np.percentile(both[:, 0] - both[:, 1], [2.5, 97.5])
    assert (row["ndcg@10_low"], row["ndcg@10_high"]) == pytest.approx(tuple(ends))
    first, last = sweep.frame["ndcg@10"]
    assert row["ndcg@10"] == pytest.approx(first - last)
    assert row["hit@10_low"] <= row["hit@10"] <= row["hit@10_high"]


def test_seeds_are_averaged_by_sequence(model: SASRec) -> None:
    result = shuffle(model, loader(rows=40), ["shuffle_all"], (0, 1, 2), topk=TOPK)
    figures = result.intervals.figures
    assert figures["mode"].tolist() == ["original", "shuffle_all"]
    for name in ("hit@10", "ndcg@10", "hrli@1", "mixingratio_res"):
        assert figures[name].tolist() == pytest.approx(result.frame[name].tolist(), abs=1e-6)
    assert "recoveryrate@10" not in figures
    (row,) = result.intervals.differences.to_dict("records")
    before, after = result.frame["ndcg@10"]
    assert row["ndcg@10"] == pytest.approx(after - before)


def test_conditions_of_reliance(model: SASRec) -> None:
    result = reliance(model, loader(rows=40), alphas=(0.3,), modes=("shuffle_all",), seeds=(0, 1))
    figures = result.intervals.figures
    assert figures["condition"].tolist() == result.frame["condition"].tolist()
    for name in ("hit@10", "ndcg@10", "hrli@1", "mixingratio_ln_last"):
        assert figures[name].tolist() == pytest.approx(result.frame[name].tolist(), abs=1e-6)
    assert len(result.intervals.differences) == len(result.frame) - 1


def test_without_the_unchanged_model_there_is_no_difference(model: SASRec) -> None:
    sweep = sweep_alpha(model, loader(rows=10), [0.3, 0.5], TOPK)
    assert list(sweep.tables()) == ["alpha_sweep"]
    with pytest.raises(ProbeError, match="nothing to subtract"):
        sweep.intervals.differences  # noqa: B018


def test_how_often_each_alpha_is_chosen(model: SASRec) -> None:
    """Against the rule itself, applied to sweeps of the bootstrap samples."""
    data = loader(rows=60, seed=5)
    selection = choose_alpha(
        model, data, data, alphas=[0.0, 0.5, 1.0], epsilon=0.3, epsilons=[0.0], topk=TOPK
    )
    times: dict[float, int] = {}
    drawn = samples(60)[:25]
    for rows in drawn:
        resampled = ListLoader(data.rows[rows.tolist()], 64)
        sweep = sweep_alpha(model, resampled, [0.0, 0.5, 1.0], TOPK)
        alpha = select_alpha(sweep, 0.3, 10).alpha
        times[alpha] = times.get(alpha, 0) + 1
    assert selection.chosen.groupby("epsilon")["share"].sum().tolist() == pytest.approx([1, 1])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("recbole_residual.probe.intervals.bootstrap_sums", _first(25))
        again = choose_alpha(
            model, data, data, alphas=[0.0, 0.5, 1.0], epsilon=0.3, epsilons=[], topk=TOPK
        ).chosen
    assert dict(zip(again["alpha"], again["share"] * 25)) == pytest.approx(times)


def _first(n_samples: int) -> Any:
    return lambda values: bootstrap_sums(values)[:n_samples]


def test_no_sequences_no_interval() -> None:
    columns = {"hit@1": (np.zeros(0), np.zeros(0))}
    figures = Intervals(pd.DataFrame({"alpha": [1.0]}), [columns]).figures
    assert figures[["hit@1", "hit@1_low", "hit@1_high"]].isna().all().all()


def test_relative_differences_are_relative_in_each_sample(model: SASRec) -> None:
    """Against means of the users of each sample, one sample after the other."""
    data = loader(rows=40)
    result = shuffle(model, data, ["reverse", "shuffle_all"], (0, 1), topk=TOPK)
    ndcg = [row["ndcg@10"][0] for row in result.intervals.rows]
    relative = []
    for users in samples(40):
        before, *after = (values[users].mean() for values in ndcg)
        relative.append([(before - value) / before for value in after])
    low, high = np.percentile(relative, [2.5, 97.5], axis=0)
    table = result.tables()["shuffle"]
    assert np.isnan(table["ndcg@10_drop_low"][0])
    np.testing.assert_allclose(table["ndcg@10_drop_low"][1:], low, atol=1e-12)
    np.testing.assert_allclose(table["ndcg@10_drop_high"][1:], high, atol=1e-12)
    columns = list(table)
    place = columns.index("hit@10_drop")
    assert columns[place + 1 : place + 3] == ["hit@10_drop_low", "hit@10_drop_high"]
    change = reliance(model, data, alphas=(0.3,), modes=(), seeds=(0,)).tables()["reliance"]
    assert change["ndcg@10_change_low"][1] <= change["ndcg@10_change"][1]


def test_every_run_of_a_shuffle_has_intervals(model: SASRec) -> None:
    runs = shuffle(model, loader(rows=40), ["shuffle_all"], (0, 1), topk=TOPK).runs
    share = stats.binomtest(round(runs["hit@10"][2] * 40), 40).proportion_ci(method="wilson")
    ends = (runs["hit@10_low"][2], runs["hit@10_high"][2])
    assert ends == pytest.approx((share.low, share.high))


@pytest.mark.parametrize("model_class", [SASRec, BERT4Rec])
def test_positions_of_a_sample_are_those_of_its_sequences(model_class: type) -> None:
    model, data = build(model_class), loader(rows=30)
    found = positions(model, data, topk=TOPK)
    for number in (0, 7):
        again = positions(model, ListLoader(data.rows[samples(30)[number].tolist()], 64), topk=TOPK)
        for name in found.intervals.names:
            np.testing.assert_allclose(
                found.intervals.samples(name)[number], again.frame[name], atol=1e-5, err_msg=name
            )
    table = found.tables()["positions"]
    missed = int(table["n_missed@10"][1])
    share = stats.binomtest(round(table["recovers@10"][1] * missed), missed).proportion_ci(
        method="wilson"
    )
    assert table["recovers@10_high"][1] == pytest.approx(share.high)
    assert "ndcg@10_low" in table


@pytest.mark.parametrize("model_class", [SASRec, BERT4Rec])
def test_ratios_of_a_sample_are_those_of_its_sequences(model_class: type) -> None:
    model, data = build(model_class), loader(rows=30)
    found = internals(model, data)
    for number in (0, 7):
        again = internals(model, ListLoader(data.rows[samples(30)[number].tolist()], 64)).frame
        np.testing.assert_allclose(
            found.intervals.samples("mean")[number], again["mean"], atol=1e-5
        )
    table = found.tables()["internals"]
    assert (table["mean_low"] <= table["mean"]).all()
    assert (table["mean"] <= table["mean_high"]).all()
    first = found.ranks.iloc[0]
    n_ranked = int(found.ranks.loc[found.ranks["item"] == first["item"], "n_sequences"].sum())
    share = stats.binomtest(int(first["n_sequences"]), n_ranked).proportion_ci(method="wilson")
    assert (first["share_low"], first["share_high"]) == pytest.approx((share.low, share.high))


def test_figures_without_the_largest_weights_have_intervals(model: SASRec) -> None:
    result = influence(model, loader(rows=20), shares=(0.1,))
    figures = result.intervals.figures
    for name in ("ndcg@10", "hrli@1"):
        assert figures[name].tolist() == pytest.approx(result.removal[name].tolist())
    tables = result.tables()
    assert tables["influence_removal_differences"]["ranking"].iloc[0] == "accuracy"
    assert "ndcg@10_low" in tables["influence_removal"]


def test_a_curve_of_epsilon_has_the_intervals_of_its_sweeps(model: SASRec) -> None:
    data = loader(rows=40)
    found = choose_alpha(model, data, data, alphas=[0.5, 1.0], epsilons=[0.0], topk=TOPK)
    row = found.valid_sweep.intervals.figures.iloc[found.choice.row]
    curve = found.frame[found.frame["epsilon"] == found.choice.epsilon].iloc[0]
    for name in ("hit@10", "ndcg@10", "mixingratio_res_last"):
        for end in ("low", "high"):
            assert curve[f"valid_{name}_{end}"] == row[f"{name}_{end}"]
    assert not [name for name in found.short_frame() if name.endswith(("_low", "_high"))]


def test_rows_in_blocks_are_rows_together(model: SASRec, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep = sweep_alpha(model, loader(rows=20), [0.3, 0.5, 1.0], TOPK)
    together = sweep.intervals.distribution
    monkeypatch.setattr("recbole_residual.probe.intervals._BLOCK", 1)
    apart = Intervals(sweep.intervals.keys, sweep.intervals.rows).distribution
    np.testing.assert_allclose(apart, together, rtol=1e-12)


def test_what_takes_too_much_memory_is_dropped_and_said(
    model: SASRec, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = loader(rows=20)
    module = "recbole_residual.probe.engine.sequence_figures.MOST_BYTES"
    kept = sweep_alpha(model, data, [0.5, 1.0], TOPK)
    monkeypatch.setattr(module, 1000)
    dropped = sweep_alpha(model, data, [0.5, 1.0], TOPK)
    pd.testing.assert_frame_equal(dropped.frame, kept.frame)
    assert dropped.intervals is None
    assert any(note.startswith("No bootstrap intervals: ") for note in dropped.notes)
    assert len(choose_alpha(model, data, data, alphas=[0.5, 1.0], topk=TOPK).chosen) == 0
