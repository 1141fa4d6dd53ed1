from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Callable

import numpy as np
import pandas as pd
import pytest
from recbole.evaluator.collector import DataStruct

from recbole_residual.errors import WriteError
from recbole_residual.evaluator import per_user, per_user_table, write_per_user
from recbole_residual.evaluator.base_metric import mean_of_defined
from recbole_residual.model.residual import scale_residual

Sessions = Callable[..., Any]

RANKING = ["Recall", "MRR", "NDCG", "Hit", "Precision", "MAP", "GAUC"]
ITEMS = ["AveragePopularity", "TailPercentage", "ItemCoverage", "ShannonEntropy", "GiniIndex"]
OURS = ["HRLI", "HRL2I", "MixingRatio", "RecoveryRate"]
UNI = {"split": {"LS": "valid_and_test"}, "group_by": "user", "order": "TO", "mode": "uni10"}


def table_of(opened: Any, alpha: float = 1.0) -> pd.DataFrame:
    with scale_residual(opened.model, alpha):
        opened.trainer.evaluate(opened.test_data, load_best_model=False)
    return per_user_table(opened.trainer.evaluator, opened.test_data._dataset)


def test_users_lengths_and_targets_are_the_datas_own_tokens(session: Sessions) -> None:
    opened = session(export_per_user=True, eval_batch_size=7)
    table = table_of(opened)
    dataset = opened.test_data._dataset
    assert table.index.name == "user_id"
    expected = [
        (
            dataset.id2token("user_id", user),
            length,
            dataset.id2token("item_id", target),
        )
        for user, length, target in zip(
            *(dataset.inter_feat[name].tolist() for name in ("user_id", "item_length", "item_id"))
        )
    ]
    found = list(zip(table.index, table["sequence_length"], table["target"]))
    assert found == expected
    assert all(str(user).startswith("u") for user in table.index)


@pytest.mark.parametrize("mode", ["full", "uni10"])
def test_a_metric_is_the_mean_of_its_column(session: Sessions, mode: str) -> None:
    ours = OURS if mode == "full" else OURS[2:]
    opened = session(
        metrics=RANKING + ITEMS + ours,
        export_per_user=True,
        eval_batch_size=50,
        eval_args={**UNI, "mode": mode},
    )
    table = table_of(opened, alpha=0.4)
    result = opened.trainer.evaluator.last_unrounded
    about_all = ("itemcoverage", "shannonentropy", "giniindex", "recoverybase")
    expected_columns = [key for key in result if not key.startswith(about_all)]
    assert list(table.columns) == ["sequence_length", "target", *expected_columns]
    for key in expected_columns:
        values = table[key].to_numpy(dtype=float)
        if key.startswith("mixingratio") and not key.endswith("_last"):
            mean = float(np.average(values, weights=table["sequence_length"]))
        else:
            mean = mean_of_defined(values)
        tolerance = 1e-6 if key == "gauc" else 1e-9  # RecBole computes the GAUC in float32
        assert mean == pytest.approx(result[key], abs=tolerance, nan_ok=True), key


def test_columns_of_recboles_metrics_row_by_row(session: Sessions) -> None:
    opened = session(metrics=RANKING, export_per_user=True)
    table = table_of(opened)
    struct = opened.trainer.evaluator.evaluated
    for row in range(len(table)):
        alone = DataStruct()
        for name in ("rec.topk", "rec.meanrank"):
            alone.set(name, struct.get(name)[row : row + 1])
        for metric in opened.trainer.evaluator.metric_class.values():
            for key, value in metric.calculate_metric(alone).items():
                assert round(table[key].iloc[row], 4) == pytest.approx(value, abs=1e-7)


def test_asking_costs_the_metrics_nothing(session: Sessions) -> None:
    metrics = RANKING + OURS
    asked = session(metrics=metrics, export_per_user=True)
    not_asked = session(metrics=metrics)
    table_of(asked)
    with pytest.raises(RuntimeError, match="export_per_user: True"):
        table_of(not_asked)
    left, right = asked.trainer.evaluator.last_unrounded, not_asked.trainer.evaluator.last_unrounded
    assert left.keys() == right.keys()
    for key, value in left.items():
        assert right[key] == value or (math.isnan(value) and math.isnan(right[key]))


def test_nothing_evaluated_yet_is_told(session: Sessions) -> None:
    opened = session(export_per_user=True)
    with pytest.raises(RuntimeError, match="call evaluate first"):
        per_user_table(opened.trainer.evaluator, opened.test_data._dataset)


@pytest.mark.parametrize("parquet", [True, False])
def test_written_and_read_again(
    session: Sessions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parquet: bool
) -> None:
    if parquet:
        pytest.importorskip("pyarrow")
    else:
        monkeypatch.setattr(per_user, "find_spec", lambda name: None)
    table = table_of(session(metrics=["NDCG", *OURS], export_per_user=True))
    path = write_per_user(table, tmp_path / "new", "values")
    assert path == tmp_path / "new" / f"values.{'parquet' if parquet else 'csv'}"
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    again = pd.read_parquet(path) if parquet else pd.read_csv(path, index_col="user_id")
    pd.testing.assert_frame_equal(again, table, check_dtype=False, check_index_type=False)


def test_a_table_that_cannot_be_written_leaves_the_old_one(
    session: Sessions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(per_user, "find_spec", lambda name: None)
    table = table_of(session(export_per_user=True))
    path = write_per_user(table, tmp_path)
    before = path.read_bytes()

    def half(self: pd.DataFrame, part: Path) -> None:
        Path(part).write_text("half")
        raise OSError("no space left")

    monkeypatch.setattr(pd.DataFrame, "to_csv", half)
    with pytest.raises(WriteError, match="no space"):
        write_per_user(table, tmp_path)
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.glob("per_user*")] == [path.name]
