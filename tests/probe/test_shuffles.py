"""Shuffles: each run is an evaluation of the changed sequences; drops and spread are as defined."""

from __future__ import annotations

import statistics

import pandas as pd
import pytest
from recbole.model.sequential_recommender import BERT4Rec, SASRec

from recbole_residual.data.perturbation import SequenceFields, perturb
from recbole_residual.model.residual import scale_residual
from recbole_residual.probe import shuffle
from tests.probe.conftest import N_ITEMS, ListLoader, build, loader
from tests.probe.plain import plain_metrics

FIELDS = SequenceFields("item_id_list", "item_length", N_ITEMS)
MODES = ("shuffle_prefix", "random_last", "reverse", "keep_last_2")


def test_runs_are_evaluations_of_the_changed_sequences(model: SASRec) -> None:
    data = loader(rows=40)
    result = shuffle(model, data, MODES, seeds=(4, 9), topk=(1, 10))
    assert result.frame["mode"].tolist() == ["original", *MODES]
    assert result.frame["n_runs"].tolist() == [1, 2, 2, 1, 1]
    for run in result.runs.to_dict("records"):
        seed = 0 if pd.isna(run["seed"]) else int(run["seed"])
        changed = perturb(data.rows, run["mode"], FIELDS, seed=seed)
        expected = plain_metrics(model, changed, [1.0, 1.0], [1.0, 1.0], [1, 10])
        expected = {name: expected[name] for name in expected if name in run}
        assert {name: run[name] for name in expected} == pytest.approx(expected, abs=1e-5)


def test_drops_and_spread(model: SASRec) -> None:
    result = shuffle(model, loader(rows=60), ["shuffle_all"], seeds=(0, 1, 2), topk=(1, 10))
    frame = result.frame.set_index("mode")
    runs = result.runs[result.runs["mode"] == "shuffle_all"]
    before = frame.loc["original", "ndcg@10"]
    drops = [(before - value) / before for value in runs["ndcg@10"]]
    row = frame.loc["shuffle_all"]
    assert row["ndcg@10"] == pytest.approx(statistics.mean(runs["ndcg@10"]))
    assert row["ndcg@10_drop"] == pytest.approx(statistics.mean(drops))
    assert row["ndcg@10_drop_std"] == pytest.approx(statistics.stdev(drops))
    assert frame.loc["original", "ndcg@10_drop"] == 0
    assert frame.loc["original", "ndcg@10_drop_std"] == 0


def test_same_seed_same_numbers_whatever_the_batch_size(model: SASRec) -> None:
    results = [shuffle(model, loader(size), MODES, (3,), topk=(1, 10)) for size in (50, 7)]
    pd.testing.assert_frame_equal(results[0].runs, results[1].runs, rtol=0, atol=1e-6)
    assert results[0].frame["ndcg@10_drop_std"].isna().tolist() == [False, True, True, False, False]


def test_a_model_is_asked_as_it_is() -> None:
    model = build()
    with scale_residual(model, 0.2, feed_forward=0.4):
        result = shuffle(model, loader(), ["original"], topk=(1, 10))
    expected = plain_metrics(model, loader().rows, [0.2, 0.2], [0.4, 0.4], [1, 10])
    assert result.frame["hit@10"].tolist() == [expected["hit@10"]]
    assert result.about["alpha"] == [0.2, 0.2]


def test_bert4rec_and_short_sequences() -> None:
    result = shuffle(build(BERT4Rec), loader(length=1), ["drop_last"], topk=(1, 10))
    assert result.frame["hit@10"].nunique() == 1
    assert any("[MASK]" in note for note in result.notes)
    assert any("one item" in note for note in result.notes)


def test_an_accuracy_of_zero_has_no_drop(model: SASRec) -> None:
    data = loader(rows=1)
    scores = model.full_sort_predict(data.rows)
    data.rows["item_id"][:] = scores[:, 1:].argmin() + 1
    result = shuffle(model, data, ["shuffle_all"], topk=(1, 10))
    assert result.frame["hit@10_drop"].isna().all()
    assert any("is 0" in note for note in result.notes)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"modes": ["shuffel"]}, "unknown mode"),
        ({"seeds": []}, "at least one"),
        ({"seeds": [1, 1]}, "different"),
        ({"topk": [1, 5]}, "k = 10"),
    ],
)
def test_mistakes_are_told(model: SASRec, options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        shuffle(model, ListLoader(loader().rows, 8), **options)
