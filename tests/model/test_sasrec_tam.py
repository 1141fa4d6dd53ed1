"""SASRecTAM: vectors from files and texts, the module written out, and SASRecResidual when off."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from recbole.data.interaction import Interaction
from torch import nn

from recbole_residual.decomposition import decompose, score_shares
from recbole_residual.errors import DataError, MissingPackageError
from recbole_residual.model import SASRecResidual, SASRecTAM
from recbole_residual.model.fast_forward import can_run_fast
from recbole_residual.model.item_vectors import item_matrix, item_texts, read_vectors, text_vectors
from recbole_residual.model.objective import target_list_field
from tests.conftest import TinyDataset, random_interaction, tiny_config

N_ITEMS, SIZE = 30, 5


class WithTokens(TinyDataset):
    def __init__(self) -> None:
        super().__init__(N_ITEMS)
        self.field2id_token = {"item_id": ["[PAD]", *(f"i{i}" for i in range(1, N_ITEMS))]}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Vectors of all items but the last, in another order, with one of a stranger."""
    generator = np.random.default_rng(0)
    tokens = [f"i{i}" for i in reversed(range(1, N_ITEMS - 1))] + ["stranger"]
    np.save(tmp_path / "vectors.npy", generator.normal(2, 3, (len(tokens), SIZE)))
    (tmp_path / "vectors.txt").write_text("\n".join(tokens))
    return tmp_path / "vectors.npy"


def built(file: Path, tam: str = "module", **changes: Any) -> Any:
    torch.manual_seed(0)
    config = tiny_config(tam=tam, item_embedding_file=str(file), **changes)
    return SASRecTAM(config, WithTokens()).eval()


def table_by_hand(model: Any, file: Path) -> torch.Tensor:
    """One item after the other."""
    vectors, embedding = read_vectors(str(file)), model.item_embedding
    known = [vectors[f"i{i}"] for i in range(1, N_ITEMS - 1)]
    mean = np.mean(known, axis=0)
    spread = np.std([vector - mean for vector in known])
    rows = [torch.zeros(model.hidden_size)]
    for vector in [*known, mean]:  # the last item has none: zeros once centred
        p = embedding.project(torch.tensor((vector - mean) / spread, dtype=torch.float32))
        if model.tam == "module":
            p = embedding.norm(p + embedding.outer(nn.functional.gelu(embedding.inner(p))))
        rows.append(p)
    return torch.stack(rows)


@pytest.mark.parametrize("tam", ["module", "linear"])
def test_everything_reads_the_adapted_vectors(file: Path, tam: str) -> None:
    model = built(file, tam)
    table = table_by_hand(model, file)
    torch.testing.assert_close(model.item_embedding.weight, table, rtol=1e-4, atol=1e-5)
    plain = SASRecResidual(tiny_config(), TinyDataset(N_ITEMS)).eval()
    own = {k: v for k, v in model.state_dict().items() if not k.startswith("item_embedding")}
    plain.load_state_dict({**own, "item_embedding.weight": table.detach()})
    interaction = random_interaction(rows=9)
    with torch.no_grad():
        scores = model.full_sort_predict(interaction)
        expected = plain.full_sort_predict(interaction)
        torch.testing.assert_close(scores, expected, rtol=1e-4, atol=1e-4)
        ratios = decompose(plain, interaction).ratios
        decomposition = decompose(model, interaction, parts=True)
        torch.testing.assert_close(decomposition.ratios, ratios, rtol=1e-4, atol=1e-4)
        shares = score_shares(model, interaction)
        torch.testing.assert_close(shares.total, shares.score, rtol=1e-4, atol=1e-4)
    item_seq = interaction["item_id_list"]
    targets = torch.randint(1, N_ITEMS, item_seq.shape) * (item_seq > 0)
    batch = Interaction({**interaction.interaction, target_list_field("item_id_list"): targets})
    assert can_run_fast(model)
    loss = model.train().calculate_loss(batch)
    torch.testing.assert_close(loss, plain.train().calculate_loss(batch), rtol=1e-4, atol=1e-5)
    loss.backward()
    assert model.item_embedding.project.weight.grad.abs().sum() > 0
    assert not model.item_embedding.vectors.requires_grad


def test_off_is_sasrec_residual_bit_for_bit(tmp_path: Path) -> None:
    torch.manual_seed(0)
    plain = SASRecResidual(tiny_config(), TinyDataset(N_ITEMS)).eval()
    model = built(tmp_path / "missing.npy", "off")
    assert model.state_dict().keys() == plain.state_dict().keys()
    interaction = random_interaction()
    assert torch.equal(model.full_sort_predict(interaction), plain.full_sort_predict(interaction))


def test_all_kinds_of_files_hold_the_same(file: Path) -> None:
    expected = read_vectors(str(file))
    tokens, matrix = list(expected), np.stack(list(expected.values()))
    pytest.importorskip("pyarrow")
    lists = pd.DataFrame({"item": tokens, "vector": [list(map(float, row)) for row in matrix]})
    lists.to_parquet(file.with_name("lists.parquet"))
    wide = pd.DataFrame(matrix, columns=[f"v{i}" for i in range(SIZE)])
    wide.insert(0, "item", tokens)
    wide.to_parquet(file.with_name("wide.parquet"))
    rows = [f"{t}\t{' '.join(repr(float(x)) for x in row)}" for t, row in zip(tokens, matrix)]
    text = "\n".join(["item_id:token\titem_emb:float_seq", *rows])
    file.with_name("v.itememb").write_text(text)
    turned = [f"7\t{vector}\t{token}" for token, vector in (row.split("\t") for row in rows)]
    text = "\n".join(["year:float\titem_emb:float_seq\titem_id:token", *turned])
    file.with_name("turned.itememb").write_text(text)
    for name in ("lists.parquet", "wide.parquet", "v.itememb", "turned.itememb"):
        found = read_vectors(str(file.with_name(name)))
        assert list(found) == tokens
        np.testing.assert_allclose(np.stack(list(found.values())), matrix, rtol=1e-6)


def test_parquet_needs_a_package(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(path: Path) -> None:
        raise ImportError("no engine")

    monkeypatch.setattr(pd, "read_parquet", missing)
    with pytest.raises(MissingPackageError, match="pip install pyarrow"):
        read_vectors(str(file.with_suffix(".parquet")))


def test_vectors_of_texts(tmp_path: Path) -> None:
    rows = [f"i{i}\tTitle {i % 3}\t19{i}\tcrime drama" for i in range(1, N_ITEMS)]
    header = "item_id:token\ttitle:token_seq\tyear:float\tclass:token_seq"
    (tmp_path / "tiny.item").write_text("\n".join([header, *rows]))
    config = tiny_config(data_path=str(tmp_path), dataset="tiny")
    texts = item_texts(config)
    assert texts["i4"] == "Title 1 crime drama"
    vectors = text_vectors(texts, 3)
    np.testing.assert_allclose(vectors["i1"], vectors["i4"], atol=1e-6)
    assert not np.allclose(vectors["i1"], vectors["i2"], atol=1e-2)
    matrix = item_matrix(config, WithTokens(), 3)
    assert matrix.shape == (N_ITEMS, 3)
    assert not matrix[0].any()
    assert matrix[1:].mean(axis=0) == pytest.approx(0, abs=1e-5)


def test_what_cannot_be_read_is_told(file: Path) -> None:
    bad = {
        "missing.npy": None,
        "vectors.csv": "a,b",
        "words.itememb": "item_id:token\titem_emb:float_seq\ni1\tone two",
        "uneven.itememb": "item_id:token\titem_emb:float_seq\ni1\t1 2\ni2\t1",
        "strangers.itememb": "item_id:token\titem_emb:float_seq\nx\t1 2\ny\t3 4",
    }
    for name, text in bad.items():
        path = file.with_name(name)
        if text is not None:
            path.write_text(text)
        with pytest.raises(DataError):
            built(path)
    with pytest.raises(DataError, match="item_embedding_file is not set"):
        SASRecTAM(
            tiny_config(tam="module", data_path=str(file.parent), dataset="none"), WithTokens()
        )
