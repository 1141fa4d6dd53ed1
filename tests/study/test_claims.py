from __future__ import annotations

import numpy as np
import pytest

from recbole_residual.errors import ConfigError
from recbole_residual.study import claims
from recbole_residual.study.claims import Verdict, rank_correlation, verdicts
from recbole_residual.study.measures import MEASURES, uniform_loss
from recbole_residual.study.row import Row
from recbole_residual.study.sets import sets_of
from tests.study.conftest import made_row


def by_name(rows: list[Row]) -> dict[str, Verdict]:
    return {verdict.claim["name"]: verdict for verdict in verdicts(sets_of(rows))}


def test_every_claim_names_a_measure_and_a_rule() -> None:
    for claim in claims.stated()["claims"]:
        assert claim["source"] in claims.stated()["sources"]
        for name in claim.get("across", [claim.get("measure")]):
            assert name in MEASURES
        assert "across" in claim or {"within", "at_most", "at_least"} & claim.keys()


def test_a_claim_holds_in_part_or_not_by_how_many_sets_say_so() -> None:
    rows = [made_row("a"), made_row("b", attn=0.5, prefix=0.6), made_row("c", prefix=0.5)]
    found = by_name([rows[0]])
    assert {name: found[name].word for name in ("attn", "res", "ln", "positions", "prefix")} == {
        "attn": "holds",
        "res": "holds",
        "ln": "holds",
        "positions": "holds",
        "prefix": "holds",
    }
    found = by_name(rows)
    assert (found["attn"].word, found["attn"].n_agree, found["attn"].n_sets) == (
        "holds in part",
        2,
        3,
    )
    assert found["attn"].figure.value == 0.8
    assert list(found["attn"].frame["says so"]) == ["yes", "no", "yes"]
    assert by_name(rows[1:])["prefix"].word == "does not hold"


def test_the_end_of_the_interval_decides_where_a_claim_says_so() -> None:
    sure, unsure = made_row("a"), made_row("b", recovery=(0.2, 0.01, 0.5))
    assert by_name([sure])["recovery"].word == "holds"
    assert by_name([unsure])["recovery"].word == "does not hold"
    # HRLI@1 is above HR@1, but not beyond what both intervals allow
    close = made_row("c", hrli=(0.03, 0.01, 0.05))
    assert by_name([close])["last_item"].word == "does not hold"


def test_lowering_alpha_is_read_from_the_sweep() -> None:
    found = by_name([made_row("a")])
    assert found["alpha_mixing"].figure.value == pytest.approx(-1)
    assert found["alpha_hrli"].figure.value == pytest.approx(1)
    assert found["choice"].figure.value == pytest.approx(0.02)


def test_seeds_are_averaged_and_other_parts_left_out() -> None:
    rows = [made_row("a", attn=0.7), made_row("a", seed=2, attn=0.8)]
    rows.append(made_row("a", seed=3, part="published size", attn=0.1))
    assert by_name(rows)["attn"].figure.value == pytest.approx(0.75)


def test_the_loss_of_uniform_attention_is_paired_by_sequence_and_seed() -> None:
    learned = [made_row("a", ranks=[1, 1, 0, 2]), made_row("a", seed=2, ranks=[1, 0, 0, 1])]
    uniform = [made_row("a", model="SASRecUniform", ranks=[1, 0, 0, 1])]
    (one,) = sets_of([*learned, *uniform])
    a, b = learned[0].ndcg10, uniform[0].ndcg10  # seed 2 has no partner
    assert uniform_loss(one).value == pytest.approx((a.mean() - b.mean()) / a.mean())
    (alone,) = sets_of(learned)
    assert not uniform_loss(alone).known
    other = made_row("a", seed=2, model="SASRecUniform", ranks=[1, 0, 0])
    (mixed,) = sets_of([*learned, *uniform, other])
    with pytest.raises(ConfigError, match="measured on different test data"):
        uniform_loss(mixed)


def test_often_is_half_of_the_sets() -> None:
    rows = []
    for dataset, ranks in (("a", [1, 1, 1, 1]), ("b", [0, 0, 0, 0])):
        rows.append(made_row(dataset, ranks=[1, 1, 1, 1]))
        rows.append(made_row(dataset, model="SASRecUniform", ranks=ranks))
    found = by_name(rows)["uniform"]
    assert (found.word, found.n_agree, found.n_sets) == ("holds", 1, 2)


def test_regimes_need_sets_and_an_interval_above_0() -> None:
    rows = []
    for number, (res, hits) in enumerate([(0.1, 6), (0.2, 5), (0.3, 4), (0.4, 2), (0.5, 1)]):
        rows.append(made_row(str(number), res=res, ranks=[1] * 6))
        ranks = [1] * hits + [0] * (6 - hits)
        rows.append(made_row(str(number), model="SASRecUniform", ranks=ranks))
    found = by_name(rows)["regimes"]
    assert found.figure.value == pytest.approx(1)
    assert found.word == "holds"
    assert by_name(rows[:6])["regimes"].word == "not measured"
    falling = rank_correlation(np.arange(5.0), -np.arange(5.0))
    assert falling.value == pytest.approx(-1)
    assert falling.high < 0


def test_what_speaks_of_a_mask_is_not_asked_of_positions() -> None:
    (one,) = sets_of([made_row("a", last_position="[MASK]")])
    assert not MEASURES["position_spread"](one).known
