"""A GPU on paper: which half precision it would train in."""

from __future__ import annotations

import pytest
import torch

from recbole_residual.trainer.half_precision import autocast_dtype, half_precision, needs_scaler

GPU = torch.device("cuda")


@pytest.mark.parametrize("has_bfloat16", [True, False])
def test_a_gpu_takes_bfloat16_where_it_can_and_scales_elsewhere(
    has_bfloat16: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    capability = (8, 0) if has_bfloat16 else (7, 5)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    assert needs_scaler(GPU) is not has_bfloat16
    before = autocast_dtype()
    with pytest.raises(RuntimeError), half_precision(GPU, enabled=True):
        expected = torch.bfloat16 if has_bfloat16 else before
        assert autocast_dtype() == expected
        raise RuntimeError
    assert autocast_dtype() == before
    with half_precision(GPU, enabled=False):
        assert autocast_dtype() == before


def test_a_cpu_needs_no_scaler() -> None:
    assert not needs_scaler(torch.device("cpu"))
