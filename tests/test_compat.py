"""Every mend gives what the old libraries gave, and is idempotent."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from recbole.data.dataset import Dataset
from recbole.utils import FeatureType
from scipy import sparse

from recbole_residual import compat


@pytest.fixture
def pretend(monkeypatch: pytest.MonkeyPatch):
    """Pretend that a library has another version, so that its mends apply here too."""

    def set_version(library, version: str) -> None:
        monkeypatch.setattr(library, "__version__", version)

    return set_version


def test_numpy2_names(pretend, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(np, "2.1.0")
    for name in ("float_", "complex_", "unicode_", "bool8"):
        monkeypatch.delitem(vars(np), name, raising=False)
    compat.mend_numpy2_names()
    assert vars(np)["float_"] is np.float64
    assert vars(np)["unicode_"] is np.str_
    assert np.dtype(getattr(np, "bool8")) == np.bool_  # noqa: B009, ruff would rename it


def test_numpy_aliases_are_there_without_a_config() -> None:
    compat.mend_missing_numpy_aliases()
    assert vars(np)["float"] is np.float64


@pytest.mark.parametrize("switched_on", [True, False])
@pytest.mark.parametrize(
    "imports",
    [
        "import recbole_residual.model",
        "import recbole_residual.evaluator.earlier_ranking",
        "import recbole_residual, recbole.model.sequential_recommender",
    ],
)
def test_anomaly_detection_stays_as_the_user_left_it(imports: str, switched_on: bool) -> None:
    program = (
        f"import torch; torch.autograd.set_detect_anomaly({switched_on}); {imports}; import sys; "
        "assert 'recbole.model.sequential_recommender.sine' in sys.modules; "
        f"assert torch.is_anomaly_enabled() is {switched_on}"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=Path(__file__).parents[1])


def test_the_finder_is_there_once() -> None:
    before = list(sys.meta_path)
    compat.mend_anomaly_detection()
    assert sys.meta_path == before


def test_a_replaced_attribute_comes_back() -> None:
    class Parent:
        inherited = 1

    class Child(Parent):
        own = staticmethod(len)

    raw = vars(Child)["own"]
    for name in ("inherited", "own"):
        with pytest.raises(RuntimeError), compat.replaced(Child, name, 7):
            assert getattr(Child, name) == 7
            raise RuntimeError
    assert vars(Child)["own"] is raw
    assert "inherited" not in vars(Child)
    thing = Child()
    with compat.replaced(thing, "inherited", 5):
        assert thing.inherited == 5
    assert "inherited" not in vars(thing)


def test_pandas3_missing_values_are_filled(pretend) -> None:
    pretend(pd, "3.0.1")
    owner = type("D", (Dataset,), {})
    compat.mend_pandas3_chained_fillna(owner)
    filled = owner._fill_nan
    compat.mend_pandas3_chained_fillna(owner)
    assert owner._fill_nan is filled, "a mend is applied once"
    dataset = owner.__new__(owner)
    dataset.feat_name_list = ["item_feat"]
    dataset.item_feat = pd.DataFrame(
        {
            "year": [1.0, np.nan, 3.0],
            "maker": [2, np.nan, 1],
            "kinds": [np.array([1, 2]), np.nan, np.array([3])],
        }
    )
    dataset.field2type = {
        "year": FeatureType.FLOAT,
        "maker": FeatureType.TOKEN,
        "kinds": FeatureType.TOKEN_SEQ,
    }
    dataset._fill_nan()
    assert dataset.item_feat["year"].tolist() == [1.0, 2.0, 3.0]
    assert dataset.item_feat["maker"].tolist() == [2, 0, 1]
    assert [cell.tolist() for cell in dataset.item_feat["kinds"]] == [[1, 2], [], [3]]


def test_pandas3_empty_sequences_are_read(pretend, tmp_path) -> None:
    path = tmp_path / "x.item"
    path.write_text("item_id:token\tkind:token_seq\n1\ta b\n2\t\n")
    pretend(pd, "3.0.1")
    owner = type("D", (Dataset,), {})
    compat.mend_pandas3_chained_fillna(owner)
    dataset = owner.__new__(owner)
    dataset.config = {
        "load_col": None,
        "unload_col": None,
        "field_separator": "\t",
        "seq_separator": " ",
        "seq_len": None,
        "encoding": "utf-8",
    }
    dataset.logger = SimpleNamespace(debug=lambda *_: None)
    dataset.field2source, dataset.field2type, dataset.field2seqlen = {}, {}, {}
    frame = dataset._load_feat(str(path), "item")
    assert [list(cell) for cell in frame["kind"]] == [["a", "b"], []]


def test_pandas3_series_agg(pretend) -> None:
    pretend(pd, "3.0.1")

    class Owner:
        def _remap(self, series):
            return series.agg(len).tolist(), series.agg(np.concatenate).tolist(), series.size

        _normalize = _discretization = _benchmark_presets = _remap

    compat.mend_pandas3_series_agg(Owner, Owner)
    cells = pd.Series([np.array([1, 2]), np.array([3])])
    assert Owner()._remap(cells) == ([2, 1], [1, 2, 3], 2)
    assert pd.Series([1, 2]).agg("sum") == 3


def test_old_pandas_is_left_alone(pretend) -> None:
    pretend(pd, "2.2.0")
    owner = type("D", (Dataset,), {})
    compat.mend_pandas3_chained_fillna(owner)
    compat.mend_pandas3_series_agg(owner, owner)
    assert "_fill_nan" not in vars(owner)
    assert "_remap" not in vars(owner)


def test_scipys_dok_matrix_is_filled() -> None:
    compat.mend_scipy_dok_update()
    matrix = sparse.dok_matrix((2, 3), dtype=np.float32)
    matrix._update({(0, 1): 1, (1, 2): 2})
    assert matrix.toarray().tolist() == [[0, 1, 0], [0, 0, 2]]
    assert matrix.tocsr().nnz == 2


def test_torch26_trainer_reads_its_checkpoint(tmp_path, pretend) -> None:
    pretend(torch, "2.13.0")
    path = tmp_path / "c.pth"
    torch.save({"state_dict": {}, "best": np.float64(1)}, path, pickle_protocol=4)

    class Trainer:
        def evaluate(self):
            return torch.load(path, map_location="cpu")["best"]

        resume_checkpoint = evaluate

    compat.mend_torch26_load(Trainer)
    assert Trainer().evaluate() == 1
    assert torch.load.__module__ == "torch.serialization", "torch.load itself is as it was"


def test_tensorboard_goes_where_it_is_told(tmp_path) -> None:
    from recbole.trainer import trainer

    with compat.tensorboard_under(str(tmp_path / "board")):
        trainer.get_tensorboard(None).close()
    assert list((tmp_path / "board").iterdir())
    assert not (tmp_path / "log_tensorboard").exists()
