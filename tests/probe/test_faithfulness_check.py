"""The faithfulness probe against sequences written out one by one, and attributions worked out
plainly."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
import pytest
import torch
from recbole.data.interaction import Interaction
from recbole.model.sequential_recommender import BERT4Rec, GRU4Rec, SASRec
from recbole.utils.enum_type import FeatureType
from scipy import stats

from recbole_residual.decomposition import decompose, rollout, score_shares
from recbole_residual.errors import ProbeError
from recbole_residual.model.residual import scale_residual
from recbole_residual.model.set_rec import SetRec
from recbole_residual.probe import faithfulness
from recbole_residual.probe.engine import ablation_run, variant_scores
from recbole_residual.probe.engine.ablation_run import AblationRun, sample_sequences
from recbole_residual.probe.engine.attributions import Attributions
from recbole_residual.probe.engine.variant_scores import VariantScores
from recbole_residual.probe.engine.variants import Recent, without_each
from recbole_residual.probe.rank_correlation import rank_correlation
from tests.conftest import TinyDataset, random_interaction, tiny_config
from tests.probe.conftest import N_ITEMS, build, loader
from tests.probe.plain import rank

N_RECENT = 4


def batch_of(items: list[int], length: int = 8) -> Interaction:
    padded = items + [0] * (length - len(items))
    return Interaction(
        {"item_id_list": torch.tensor([padded]), "item_length": torch.tensor([len(items)])}
    )


def plain_scores(model: Any, items: list[int], hidden: int | None = None) -> list[float]:
    """Scores of one sequence; ``hidden`` is a position whose key no query sees."""
    if hidden is None:
        return model.full_sort_predict(batch_of(items))[0].tolist()
    make_mask = model.get_attention_mask

    def hide(item_seq: torch.Tensor) -> torch.Tensor:
        mask = make_mask(item_seq).clone()
        mask[..., hidden] = -10000.0
        return mask

    model.get_attention_mask = hide
    try:
        return model.full_sort_predict(batch_of(items))[0].tolist()
    finally:
        del model.get_attention_mask


def log_probability(scores: list[float], item: int) -> float:
    return scores[item] - math.log(sum(math.exp(score) for score in scores[1:]))


@torch.no_grad()
def plain_ablation(
    model: Any, items: list[int], target: int, ablation: str, offset: int, other: int
) -> tuple[list[float], list[int], float] | None:
    """Falls of the scores and new ranks of target, last and top, and of the log-probability."""
    position = len(items) - 1 - offset
    if position < 0 or (len(items) == 1 and ablation != "replace"):
        return None
    before, hidden, changed = plain_scores(model, items), None, list(items)
    if ablation == "delete":
        del changed[position]
    elif ablation == "replace":
        changed[position] = other
    else:
        hidden = position
    after = plain_scores(model, changed, hidden)
    top = max(range(1, len(before)), key=before.__getitem__)
    scored = [target, items[-1], top]
    return (
        [before[item] - after[item] for item in scored],
        [rank(after, item) for item in scored],
        log_probability(before, target) - log_probability(after, target),
    )


def run_of(model: Any, data: Any, ablations: list[str], explain: bool = False) -> Any:
    sequences = sample_sequences(model, data, None, N_RECENT, seed=3)
    run = AblationRun(model, sequences, ablations, "top", seed=3)
    run.run(explain=explain, show_progress=False)
    order = torch.argsort(data.rows["item_length"], stable=True)
    return sequences, run, order.tolist()


@pytest.mark.parametrize("alpha", [1.0, 0.3])
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("n_recent", [N_RECENT, 8])
def test_every_ablation_is_that_of_the_sequence_written_out(
    monkeypatch: Any, alpha: float, shared: bool, n_recent: int
) -> None:
    # With a window of 8 positions no sequence has anything before it.
    monkeypatch.setattr(sys.modules[__name__], "N_RECENT", n_recent)
    model, data = build(n_layers=3), loader(rows=14)
    if not shared:
        for module in (ablation_run, variant_scores):
            monkeypatch.setattr(module, "shares_prefixes", lambda model: False)
    ablations = ["delete", "mask", "replace"]
    with scale_residual(model, alpha):
        sequences, run, order = run_of(model, data, ablations)
        for ablation in ablations:
            falls, ranks, logs = (
                np.concatenate(table[ablation])
                for table in (
                    run.found.score_fall,
                    run.found.new_ranks,
                    run.found.log_probability_fall,
                )
            )
            for place, row in enumerate(order):
                length = int(data.rows["item_length"][row])
                items = data.rows["item_id_list"][row, :length].tolist()
                target = int(data.rows["item_id"][row])
                for offset in range(N_RECENT):
                    other = int(sequences.others[row, offset])
                    assert other not in (0, items[-1 - offset] if offset < length else 0)
                    expected = plain_ablation(model, items, target, ablation, offset, other)
                    if expected is None:
                        assert np.isnan(logs[place, offset])
                        assert np.isnan(falls[place, offset]).all()
                        continue
                    np.testing.assert_allclose(falls[place, offset], expected[0], atol=1e-4)
                    assert ranks[place, offset].tolist() == expected[1]
                    assert logs[place, offset] == pytest.approx(expected[2], abs=1e-4)


def test_attributions_one_sequence_at_a_time() -> None:
    model, data = build(), loader(rows=9)
    item = torch.randint(1, N_ITEMS, (9,), generator=torch.Generator().manual_seed(1))
    found = Attributions(model, N_RECENT).of(data.rows, item)
    for row in range(9):
        length = int(data.rows["item_length"][row])
        one = batch_of(data.rows["item_id_list"][row, :length].tolist(), length)
        maps = decompose(model, one, maps=True)
        shares = score_shares(model, one, item[row : row + 1])
        share = shares.positions[0, 0].clone()
        share[-1] += shares.residual[0, 0]
        expected = {
            "attention": maps.attention[-1, 0, -1],
            "norm_contribution": maps.contributions[-1, 0, -1],
            "attention_rollout": rollout(maps).attention[0],
            "contribution_rollout": rollout(maps).contribution[0],
            "logit_share": share,
            "gradient_x_input": gradient(model, one, item[row], 1.0),
            "integrated_gradients": sum(
                gradient(model, one, item[row], (step + 0.5) / 16) for step in range(16)
            )
            / 16,
        }
        assert set(found) == set(expected)
        for name, values in expected.items():
            for offset in range(N_RECENT):
                value = found[name][row, offset].item()
                if offset >= length:
                    assert math.isnan(value)
                else:
                    assert value == pytest.approx(values[length - 1 - offset].item(), abs=1e-5)


def gradient(model: SASRec, one: Interaction, item: torch.Tensor, share: float) -> torch.Tensor:
    """Gradient of the score at the scaled input, times the input, written without the model's
    forward."""
    item_seq = one["item_id_list"]
    vectors = model.item_embedding(item_seq).detach()
    scaled = (vectors * share).requires_grad_()
    x = model.LayerNorm(scaled + model.position_embedding(torch.arange(item_seq.shape[1])))
    x = model.trm_encoder(x, model.get_attention_mask(item_seq), True)[-1]
    (x[0, -1] @ model.item_embedding.weight[item]).backward()
    return (scaled.grad * vectors).sum(dim=2)[0]


def test_integrated_gradients_add_up_to_the_score() -> None:
    model, data = build(initializer_range=0.1), loader(rows=20)
    item = data.rows["item_id"]
    found = Attributions(model, 8).of(data.rows, item)["integrated_gradients"]
    embedding = model.item_embedding.weight

    def score_at(share: float) -> torch.Tensor:
        hook = model.item_embedding.register_forward_hook(lambda m, a, out: out * share)
        try:
            return model.forward(data.rows["item_id_list"], data.rows["item_length"])
        finally:
            hook.remove()

    with torch.no_grad():
        change = ((score_at(1.0) - score_at(0.0)) * embedding[item]).sum(dim=1)
    torch.testing.assert_close(found.nansum(dim=1), change, rtol=0.1, atol=0.05)


def with_others(items: list[int], others: list[int], offsets: list[int]) -> list[int]:
    return [
        others[len(items) - 1 - place] if len(items) - 1 - place in offsets else item
        for place, item in enumerate(items)
    ]


@torch.no_grad()
def test_curves_replace_and_put_back_in_order() -> None:
    model, data = build(), loader(rows=8)
    sequences, run, order = run_of(model, data, ["replace"], explain=True)
    for place, row in enumerate(order):
        length = int(data.rows["item_length"][row])
        items = data.rows["item_id_list"][row, :length].tolist()
        scores = plain_scores(model, items)
        top, spread = int(np.argmax(scores[1:])) + 1, np.std(scores[1:], ddof=1)
        for name in ("recency", "integrated_gradients", "random"):
            values = np.concatenate(run.found.attributions[name])[place]
            known = [offset for offset in range(N_RECENT) if offset < length]
            by_value = sorted(known, key=lambda offset, values=values: -values[offset])

            others = sequences.others[row].tolist()
            deletion = np.concatenate(run.found.deletion[name])[place]
            insertion = np.concatenate(run.found.insertion[name])[place]
            for n_items in range(N_RECENT + 1):
                gone, back = by_value[:n_items], by_value[n_items:]
                without, put_back, without_any = (
                    plain_scores(model, with_others(items, others, offsets))[top]
                    for offsets in (gone, back, by_value)
                )
                fall = (scores[top] - without) / spread
                rise = (put_back - without_any) / spread
                assert deletion[n_items] == pytest.approx(fall, abs=1e-4)
                assert insertion[n_items] == pytest.approx(rise, abs=1e-4)


def test_rank_correlation_is_spearmans() -> None:
    generator = np.random.default_rng(0)
    first, second = generator.integers(0, 4, (2, 60, 6)).astype(float)
    first[generator.random((60, 6)) < 0.2] = np.nan
    for row, found in enumerate(rank_correlation(first, second)):
        both = ~np.isnan(first[row])
        a, b = first[row][both], second[row][both]
        if len(a) < 3 or len(set(a)) == 1 or len(set(b)) == 1:
            assert math.isnan(found)
        else:
            assert found == pytest.approx(stats.spearmanr(a, b).statistic)


def test_tables() -> None:
    result = faithfulness(build(), loader(rows=40), n_recent=4, alphas=(1.0, 0.0), k=5)
    table = result.frame.set_index("attribution")
    assert list(table.index)[-2:] == ["recency", "random"]
    for name in ("correlation_delete", "correlation_replace", "deletion_area", "insertion_area"):
        assert (table[f"{name}_low"] <= table[name]).all()
        assert (table[name] <= table[f"{name}_high"]).all()
    assert set(result.reliance["alpha"]) == {"1", "0"}
    assert len(result.reliance) == 2 * 3 * 4
    first = result.reliance.iloc[0]
    assert first["ndcg@5_fall_low"] <= first["ndcg@5_fall"] <= first["ndcg@5_fall_high"]
    start = result.curves[result.curves["n_items"] == 0]
    assert (start[["deletion", "insertion"]] == 0).all().all()
    # 1 + 3 ablations of 4 items, 9 orders of 5 versions twice, 2 for maps and shares, 17 gradients
    assert result.about["n_forwards"] == 1 + 12 + 9 * 10 + 2 + 17 * 3
    assert list(result.tables()) == [
        "faithfulness",
        "faithfulness_curves",
        "faithfulness_reliance",
    ]


def test_a_sample_is_the_same_for_every_batch_size() -> None:
    options = {"n_recent": 3, "n_sequences": 12, "seed": 5, "ablations": ["replace"]}
    found, again = (faithfulness(build(), loader(size), **options) for size in (50, 7))
    np.testing.assert_allclose(found.reliance.iloc[:, 2:], again.reliance.iloc[:, 2:], atol=1e-5)
    assert any("12 of 50" in note for note in found.notes)


@pytest.mark.parametrize(("model_class", "has_mask"), [(BERT4Rec, False), (GRU4Rec, False)])
def test_other_models(model_class: type, has_mask: bool) -> None:
    shape = {"embedding_size": 16, "num_layers": 1, "dropout_prob": 0.0}
    result = faithfulness(build(model_class, **shape), loader(rows=12), n_recent=3, k=5)
    assert ("mask" in set(result.reliance["ablation"])) == has_mask
    assert "integrated_gradients" in set(result.frame["attribution"])
    assert result.frame["correlation_delete"].between(-1, 1).all()
    assert any("logit_share" in note for note in result.notes)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_recent": 2}, "n_recent = 2"),
        ({"ablations": "delete"}, "ablations = 'delete'"),
        ({"ablations": ["drop"]}, "'drop' is unknown"),
        ({"ablations": []}, "unknown"),
        ({"explained": "best"}, "explained = 'best'"),
        ({"alphas": 0.5}, "alphas = 0.5"),
        ({"n_sequences": 0}, "n_sequences = 0"),
        ({"seed": -1}, "seed = -1"),
        ({"k": 0}, "k = 0"),
        ({"n_positions": 5}, "unknown option 'n_positions'"),
    ],
)
def test_mistakes_are_told(model: SASRec, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ProbeError, match=message):
        faithfulness(model, loader(), **options)


class RatedDataset(TinyDataset):
    field2type = {"rating": FeatureType.FLOAT}
    inter_feat = {"rating": torch.tensor([1.0, 2.0, 5.0])}


@torch.no_grad()
def test_ratings_move_with_the_items_that_are_left() -> None:
    model = SetRec(
        tiny_config(RATING_FIELD="rating", dropout_prob=0.0, pooling="sum"), RatedDataset(N_ITEMS)
    )
    rows = random_interaction(rows=6, n_items=N_ITEMS)
    item_seq, lengths = rows["item_id_list"], rows["item_length"]
    rows["rating_list"] = torch.randint(1, 6, item_seq.shape) * (item_seq > 0).float()
    recent = Recent.of(item_seq, lengths, torch.ones(len(rows), N_RECENT, dtype=torch.long))
    scorer = VariantScores(model.eval(), rows, recent)
    versions = without_each(recent, "delete")
    scores = torch.cat([found for _, found in scorer.catalogue(versions)])
    for row, length in enumerate(lengths.tolist()):
        for offset in range(min(N_RECENT, length) if length > 1 else 0):
            left = [at for at in range(length) if at != length - 1 - offset]
            one = batch_of(item_seq[row, left].tolist())
            ratings = rows["rating_list"][row, left].tolist()
            one["rating_list"] = torch.tensor([ratings + [0.0] * (8 - len(left))])
            expected = model.full_sort_predict(one)[0]
            torch.testing.assert_close(scores[row, offset, 1:], expected[1:])
