from __future__ import annotations

from typing import Any

import numpy as np

from recbole_residual.study.plan import Cell
from recbole_residual.study.row import Row, ranks_in_text
from tests.conftest import SMALL

TINY = {
    key: value for key, value in SMALL.items() if key not in ("probe", "report", "show_progress")
}
"""Settings of a cell that takes seconds."""

ALPHAS = [0.0, 0.1, 0.2, 0.3, 1.0]


def made_row(
    dataset: str,
    split: str = "temporal",
    model: str = "SASRecResidual",
    seed: int = 1,
    part: str = "main",
    **numbers: Any,
) -> Row:
    """A row with the numbers that are given, and others that mean nothing."""
    given = {
        "attn": 0.8,
        "res": 0.3,
        "ln": 0.305,
        "prefix": 0.02,
        "all": 0.7,
        "hrli": (0.4, 0.35, 0.45),
        "hit@1": (0.01, 0.005, 0.02),
        "recovery": (0.2, 0.1, 0.3),
        "ranks": [1, 0, 2, 10, 0, 3],
        "spread": 0.004,
        "last_position": "item",
        **numbers,
    }
    ndcg = np.array([1 / np.log2(rank + 1) if rank else 0.0 for rank in given["ranks"]])
    ratios = {f"mixingratio_{stage}": given[stage] for stage in ("attn", "res", "ln")}
    if given["last_position"] == "gate":
        ratios = {"mixingratio_gate": 0.5}
    internals = [
        ["all", stage, position, given[stage] + shift, 0.1, 60]
        for stage in ("attn", "res", "ln")
        for position, shift in (("all", 0), ("last", 0), ("last-1", given["spread"]), ("last-2", 0))
    ]
    sweep = [
        [alpha, 0.1, 0.05, *_scaled(given["hrli"], alpha), *recovered, 40, 1 - 0.7 * alpha]
        for alpha in ALPHAS
        for recovered in ([(0.0, 0.0, 0.1), given["recovery"]][0 < alpha < 1],)
    ]
    content = {
        "format": 1,
        "command": "recbole-residual --mode=benchmark --study=made --data_path=DIR --datasets x",
        "environment": {"torch": "2"},
        "seconds": 3.5,
        "epochs_trained": 4,
        "best_valid_score": 0.05,
        "sequences": {"valid": 6, "test": 6},
        "dataset_statistics": {
            "users": 19412,
            "items": 11924,
            "interactions": 167597,
            "avg_length": 8.6,
            "density": 0.0007,
            "days": 9.0,
        },
        "last_position": "[MASK]" if given["last_position"] == "[MASK]" else "item",
        "test": {"hrli@1": given["hrli"][0], "hit@1": given["hit@1"][0], **ratios}
        | {"ndcg@10": float(ndcg.mean()), "hrl2i@1": 0.1},
        "test_intervals": {"hrli@1": given["hrli"][1:], "hit@1": given["hit@1"][1:]},
        "filtered": {"ndcg@10": 0.0588, "hit@10": 0.1},
        "filtered_intervals": {"ndcg@10": [0.05, 0.06], "hit@10": [0.09, 0.11]},
        "top10": ranks_in_text(ndcg),
        "tables": {
            "internals": _table("layer stage position mean std count", internals),
            "shuffle": _table(
                "mode ndcg@10_drop ndcg@10_drop_low ndcg@10_drop_high",
                [
                    ["original", 0.0, None, None],
                    ["shuffle_prefix", given["prefix"], given["prefix"] - 0.1, 0.2],
                    ["shuffle_all", given["all"], given["all"] - 0.1, given["all"] + 0.1],
                ],
            ),
            "alpha_sweep": _table(
                "alpha hit@10 ndcg@10 hrli@1 hrli@1_low hrli@1_high recoveryrate@10 "
                "recoveryrate@10_low recoveryrate@10_high recoverybase@10 mixingratio_res",
                sweep,
            ),
            "alpha_selection": _table(
                "epsilon alpha oracle_alpha test_recoveryrate@10 oracle_recoveryrate@10 "
                "test_hit@10 oracle_hit@10 unscaled_hit@10",
                [
                    [0.0, 0.9, 0.8, 0.1, 0.2, 0.1, 0.1, 0.1],
                    [0.05, 0.5, 0.5, 0.2, 0.22, 0.1, 0.1, 0.1],
                ],
            ),
        },
    }
    cell = Cell(part, model, dataset, split, seed, {"hidden_size": 64})
    return Row(cell, content)


def _scaled(numbers: tuple[float, ...], factor: float) -> list[float]:
    return [number * factor for number in numbers]


def _table(columns: str, rows: list[list[Any]]) -> dict[str, Any]:
    return {"columns": columns.split(), "rows": rows}
