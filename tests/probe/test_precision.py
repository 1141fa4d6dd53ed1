"""Every probe of a model in float64 or half precision: right, or refused with what to do."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
from recbole.model.sequential_recommender import GRU4Rec, SASRec

from recbole_residual.config.probe_names import PROBES
from recbole_residual.errors import ModelError
from recbole_residual.probe.all_probes import run_probes
from tests.probe.conftest import build, loader

GRU = {"embedding_size": 16, "num_layers": 1, "dropout_prob": 0.0}


@pytest.mark.parametrize("probe", PROBES)
def test_attention_in_half_precision_is_refused(tmp_path: Path, probe: str) -> None:
    model = build().bfloat16()
    with pytest.raises(ModelError, match=r"SASRec holds bfloat16 weights.*model\.float\(\)"):
        run_probes(model, loader(), loader(), tmp_path, [probe], topk=[10])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model_class", "sizes", "dtype", "apart"),
    [
        (SASRec, {}, torch.float64, 0.03),  # two of 60 sequences, where two scores nearly tie
        (GRU4Rec, GRU, torch.float64, 0.03),
        (GRU4Rec, GRU, torch.bfloat16, 0.15),
    ],
)
def test_every_answer_is_that_of_float32(
    tmp_path: Path, model_class: type, sizes: dict[str, float], dtype: torch.dtype, apart: float
) -> None:
    model, data = build(model_class, **sizes), loader(rows=60)
    other = copy.deepcopy(model).to(dtype)
    exact = run_probes(model, data, data, tmp_path, PROBES, topk=[1, 10])
    found = run_probes(other, data, data, tmp_path, PROBES, topk=[1, 10])
    assert found.keys() == exact.keys()
    for probe, answer in found.items():
        numbers = answer.frame.select_dtypes("number")
        difference = (numbers - exact[probe].frame[numbers.columns]).abs()
        assert not (difference > apart).any(axis=None), probe
