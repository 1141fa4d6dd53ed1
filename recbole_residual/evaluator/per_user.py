"""Every metric's value per evaluated sequence, as a table."""

from __future__ import annotations

import copy
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from recbole.evaluator.base_metric import AbstractMetric
from recbole.evaluator.collector import DataStruct
from recbole.evaluator.metrics import GAUC

from recbole_residual.evaluator.base_metric import SequenceMetric
from recbole_residual.evaluator.evaluator import ResidualEvaluator, unrounded_metric
from recbole_residual.files import PathLike, atomic_path


def _topk_values(metric: AbstractMetric, struct: DataStruct) -> dict[str, np.ndarray]:
    """What RecBole's metric hands to its own ``topk_result`` is its value per row and cut-off."""
    values: dict[str, np.ndarray] = {}

    def keep(name: str, value: np.ndarray) -> dict[str, float]:
        values.update({f"{name}@{k}": value[:, k - 1].astype(float) for k in metric.topk})
        return {}

    metric = copy.copy(metric)
    metric.topk_result = keep
    metric.calculate_metric(struct)
    return values


def _gauc_values(metric: AbstractMetric, struct: DataStruct) -> dict[str, np.ndarray]:
    """The GAUC of one row alone is that row's AUC."""
    mean_rank = struct.get("rec.meanrank")
    values = []
    for row in range(len(mean_rank)):
        alone = DataStruct()
        alone.set("rec.meanrank", mean_rank[row : row + 1])
        values.append(float(unrounded_metric(metric).calculate_metric(alone)["gauc"]))
    return {"gauc": np.array(values)}


def _values(metric: AbstractMetric, struct: DataStruct) -> dict[str, np.ndarray]:
    score_row = struct.get("eval.score_row").numpy()
    if isinstance(metric, SequenceMetric):
        return metric.per_sequence(struct)
    if isinstance(metric, GAUC):
        by_row = _gauc_values(metric, struct)
    elif hasattr(metric, "topk_result"):
        by_row = _topk_values(metric, struct)
    else:  # ItemCoverage and its like describe all rankings together
        return {}
    return {key: values[score_row] for key, values in by_row.items()}


def per_user_table(evaluator: ResidualEvaluator, dataset: Any) -> pd.DataFrame:
    """The values of the last evaluation, one row per evaluated sequence.

    Metrics that describe all rankings together (ItemCoverage, ShannonEntropy, GiniIndex) have no
    value per user and no column.

    Args:
        evaluator: after an evaluation with ``export_per_user: True``.
        dataset: RecBole's Dataset, for the original tokens.

    Returns:
        pandas.DataFrame: index: the user's original token, named as in the dataset. Columns:
        ``sequence_length``, ``target`` (original token), then one per result key, unrounded; NaN
        where a metric is not defined for the sequence.

    Raises:
        RuntimeError: if nothing has been evaluated, or not with ``export_per_user``.
    """
    struct = evaluator.evaluated
    if "eval.user" not in struct:
        raise RuntimeError("the evaluation kept no values per user: set export_per_user: True.")
    columns: dict[str, Any] = {
        "sequence_length": struct.get("eval.sequence_length").numpy(),
        "target": dataset.id2token(dataset.iid_field, struct.get("eval.target").numpy()),
    }
    for metric in evaluator.metric_class.values():
        columns.update(_values(metric, struct))
    user = dataset.id2token(dataset.uid_field, struct.get("eval.user").numpy())
    return pd.DataFrame(columns, index=pd.Index(user, name=dataset.uid_field))


def write_per_user(table: pd.DataFrame, folder: PathLike, name: str = "per_user") -> Path:
    """Write the table, whole or not at all: parquet where pyarrow is installed, else csv.

    Args:
        table: of :func:`per_user_table`.
        folder: where to; it is made if need be.
        name: name of the file, without its ending.

    Returns:
        pathlib.Path: the file written.
    """
    parquet = find_spec("pyarrow") is not None
    path = Path(folder) / f"{name}.{'parquet' if parquet else 'csv'}"
    with atomic_path(path) as part:
        if parquet:
            table.to_parquet(part, engine="pyarrow")
        else:
            table.to_csv(part)
    return path
