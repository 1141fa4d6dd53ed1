"""One sequence explained, against the model's own scores and maps taken apart by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from recbole.data.interaction import Interaction

from recbole_residual import explain, scale_residual
from recbole_residual.decomposition import decompose
from recbole_residual.diagnose.full_run import run
from recbole_residual.errors import ConfigError, UnknownTokenError
from recbole_residual.run.session import Session
from tests.conftest import SMALL

ITEMS = ["242", "302", "257", "1", "50"]
"""Items of ml-100k that the small part of it holds."""


def session_of(name: str, folder: Path, **changes: Any) -> Session:
    config = {**SMALL, "epochs": 1, "output_dir": str(folder), **changes}
    run(name, "ml-100k", config_dict=config)
    return Session.open(folder)


@pytest.fixture(scope="module")
def sasrec(tmp_path_factory: pytest.TempPathFactory) -> Session:
    return session_of("SASRecResidual", tmp_path_factory.mktemp("run") / "run", epochs=3)


def interaction_of(session: Session, tokens: list[str]) -> Interaction:
    ids = [int(session.dataset.token2id("item_id", token)) for token in tokens]
    padded = torch.zeros(1, session.model.max_seq_length, dtype=torch.long)
    padded[0, : len(ids)] = torch.tensor(ids)
    fields = {"item_id_list": padded, "item_length": torch.tensor([len(ids)])}
    return Interaction({**fields, "user_id": torch.tensor([0])})


@torch.no_grad()
def test_everything_against_the_models_own_numbers(sasrec: Session) -> None:
    found = explain(sasrec, ITEMS, k=7)
    interaction = interaction_of(sasrec, ITEMS)
    scores = sasrec.model.full_sort_predict(interaction)[0].numpy()
    token = sasrec.dataset.id2token
    order = np.argsort(-scores[1:], kind="stable")[:7] + 1
    assert list(found.top["item"]) == [token("item_id", item) for item in order]
    np.testing.assert_allclose(found.top["score"], scores[order], rtol=1e-5)
    ids = interaction["item_id_list"][0, : len(ITEMS)].tolist()
    assert list(found.positions["rank"]) == [int((scores[1:] > scores[i]).sum()) + 1 for i in ids]
    assert found.last_item_rank == found.positions["rank"].iloc[-1]
    assert list(found.positions["item"]) == ITEMS
    assert list(found.positions["from_end"]) == [4, 3, 2, 1, 0]

    inside = decompose(sasrec.model, interaction, maps=True)
    for number, stage in enumerate(("attn", "res", "ln")):
        expected = inside.ratios[:, number, 0, : len(ITEMS)].mean(dim=0)
        np.testing.assert_allclose(found.positions[f"mixing_{stage}"], expected, rtol=1e-5)
    first, second = (layer[0, : len(ITEMS), : len(ITEMS)] for layer in inside.contributions)
    rolled = (second / second.sum(1, keepdim=True))[-1] @ (first / first.sum(1, keepdim=True))
    np.testing.assert_allclose(found.positions["contribution"], rolled, rtol=1e-4)
    assert found.positions["contribution"].sum() == pytest.approx(1, abs=1e-5)

    assert found.scored_item == found.top["item"].iloc[0]
    parts = found.score_parts.set_index("part")["share"]
    assert parts["positions"] == pytest.approx(found.positions["score_share"].sum(), rel=1e-5)
    assert parts["score"] == pytest.approx(found.top["score"].iloc[0], rel=1e-5)
    assert parts.drop("score").sum() == pytest.approx(parts["score"], rel=1e-4)


def test_a_text_or_a_number_is_one_item(sasrec: Session) -> None:
    assert list(explain(sasrec, "242").positions["item"]) == ["242"]
    assert list(explain(sasrec, 242).positions["item"]) == ["242"]
    with pytest.raises(ConfigError, match="k = 0"):
        explain(sasrec, ITEMS, k=0)


@torch.no_grad()
def test_the_list_under_changes_against_the_models_own_lists(sasrec: Session) -> None:
    model = sasrec.model
    explanation = explain(sasrec, ITEMS, k=5)

    def best(items: list[str]) -> list[str]:
        scores = model.full_sort_predict(interaction_of(sasrec, items))[0].numpy()
        order = np.argsort(-scores[1:], kind="stable")[:5] + 1
        return [str(token) for token in sasrec.dataset.id2token("item_id", order)]

    expected = {"as it is": best(ITEMS), "without the last item": best(ITEMS[:-1])}
    for alpha in (0.5, 0.0):
        with scale_residual(model, alpha):
            expected[f"alpha = {alpha:g}"] = best(ITEMS)
    model.attention = "uniform"
    expected["uniform attention"] = best(ITEMS)
    model.attention = "learned"
    assert list(explanation.what_if) == ["rank", *expected]
    for name, items in expected.items():
        assert list(explanation.what_if[name]) == items
    before = expected.pop("as it is")
    for row in explanation.moved.itertuples():
        after = expected[row.change]
        assert row._2 == ", ".join(item for item in after if item not in before)
        assert row.out == ", ".join(item for item in before if item not in after)
        assert row.n_moved == len(set(after) - set(before))


def test_names_come_from_the_item_file(sasrec: Session) -> None:
    found = explain(sasrec, ["1", "50"])
    assert list(found.positions["name"]) == ["Toy Story", "Star Wars"]
    assert found.top["name"].str.len().min() > 0
    assert "Toy Story" in found._repr_html_()


def test_it_shows_itself(sasrec: Session, tmp_path: Path) -> None:
    found = explain(sasrec, ITEMS)
    titles = [axes.get_xlabel() for axes in found.figure.get_axes()]
    assert titles == ["mixing ratio (res)", "share of contribution", "share of the score"]
    bars = found.figure.get_axes()[1].patches
    np.testing.assert_allclose([bar.get_width() for bar in bars], found.positions["contribution"])
    found.save(tmp_path)
    assert (tmp_path / "figures" / "positions.png").is_file()
    assert (tmp_path / "tables" / "explain_positions.csv").is_file()
    assert "Recommended" in str(found)


def test_another_item_may_be_scored(sasrec: Session) -> None:
    found = explain(sasrec, ITEMS, scored_item="257", user="1")
    assert found.scored_item == "257"
    score = sasrec.model.full_sort_predict(interaction_of(sasrec, ITEMS))[0]
    item = int(sasrec.dataset.token2id("item_id", "257"))
    total = found.score_parts.set_index("part")["share"]["score"]
    assert total == pytest.approx(score[item].item(), rel=1e-5)


def test_the_alpha_in_force_counts(sasrec: Session) -> None:
    with scale_residual(sasrec.model, 0.0):
        without = explain(sasrec.model, ITEMS, dataset=sasrec.dataset)
    with_residual = explain(sasrec, ITEMS)
    assert (without.positions["mixing_res"] >= with_residual.positions["mixing_res"]).all()
    np.testing.assert_allclose(
        without.positions["mixing_res"], without.positions["mixing_attn"], rtol=1e-5
    )


def test_of_a_long_sequence_the_latest_are_seen(sasrec: Session) -> None:
    long = [str(item) for item in sasrec.dataset.field2id_token["item_id"][1:21]]
    found = explain(sasrec, long)
    assert list(found.positions["item"]) == long[-SMALL["MAX_ITEM_LIST_LENGTH"] :]
    assert "8 oldest" in found.notes[0]
    assert list(found.top["item"]) == list(explain(sasrec, long[-12:]).top["item"])


def test_unknown_tokens_are_named(sasrec: Session) -> None:
    with pytest.raises(UnknownTokenError, match=r"items not in ml-100k.*'x1', 'x2'"):
        explain(sasrec, ["242", "x1", "x2", "x1"])
    with pytest.raises(UnknownTokenError, match="'\\[PAD\\]'"):
        explain(sasrec, ["[PAD]"])
    with pytest.raises(UnknownTokenError, match=r"users not in ml-100k.*'nobody'"):
        explain(sasrec, ITEMS, user="nobody")
    with pytest.raises(ValueError, match="item_ids is empty"):
        explain(sasrec, [])
    with pytest.raises(ValueError, match="dataset="):
        explain(sasrec.model, ITEMS)


def test_a_run_folder_and_a_mask(tmp_path: Path) -> None:
    session = session_of("BERT4RecResidual", tmp_path / "run")
    found = explain(tmp_path / "run", ITEMS)
    assert list(found.positions["item"]) == [*ITEMS, "[MASK]"]
    assert found.positions["rank"].isna().tolist() == [False] * 5 + [True]
    assert found.last_item_rank == found.positions["rank"].iloc[-2]
    assert found.score_parts is None
    assert any("does not speak of the last item" in note for note in found.notes)
    assert any("score is not split" in note for note in found.notes)
    assert list(found.top["item"]) == list(explain(session, ITEMS).top["item"])


def test_gates_have_ratios_only_and_a_model_with_neither_has_ranks(tmp_path: Path) -> None:
    shape = {"inner_size": 32, "strict_config": False}
    found = explain(session_of("GRU4RecResidual", tmp_path / "a", **shape), ITEMS)
    assert "mixing_gate" in found.positions
    assert "contribution" not in found.positions
    plain = explain(session_of("GRU4Rec", tmp_path / "b", **shape), ITEMS)
    assert list(plain.positions) == ["position", "from_end", "item", "name", "rank"]
    assert plain.figure is None
    assert "not run" in plain._repr_html_()
