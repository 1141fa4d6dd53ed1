"""The parts add up."""

from __future__ import annotations

from typing import Any, Callable

import pytest
import torch

from recbole_residual.decomposition import capture, decompose
from recbole_residual.decomposition.block_parts import PARTS
from recbole_residual.model.residual import scale_residual
from recbole_residual.model.sasrec_residual import SASRecResidual
from tests.conftest import TinyDataset, random_interaction, tiny_config
from tests.decomposition.cases import make_case
from tests.decomposition.conftest import tiny_interaction
from tests.decomposition.direct import direct_norm

MODELS = [
    ("SASRec", {}),
    ("SASRecF", {}),
    ("SASRecCPR", {}),
    ("BERT4Rec", {}),
    ("CORE", {}),
    ("FDSA", {}),
    ("FEARec", {}),
    ("FEARec", {"dual_domain": True, "spatial_ratio": 0.4, "global_ratio": 0.6}),
    ("GCSAN", {}),
    ("LightSANs", {}),
    ("S3Rec", {"train_stage": "pretrain"}),
]


@pytest.mark.parametrize(("name", "changes"), MODELS)
def test_every_recbole_model_is_complete(
    build_model: Callable[..., Any], name: str, changes: dict[str, Any]
) -> None:
    model = build_model(name, **changes)
    with scale_residual(model, 0.7):
        seen = decompose(model, tiny_interaction(), parts=True)
    frame = seen.completeness()
    assert set(frame.layer) == set(seen.layers)
    assert len(frame) == 2 * len(seen.layers)
    assert (frame.error <= 1e-5 * frame.largest.clip(lower=1)).all(), frame


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize(("dtype", "bound"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
def test_complete_in_both_precisions(norm: str, dtype: torch.dtype, bound: float) -> None:
    model = SASRecResidual(tiny_config(norm=norm, alpha=[0.4, 0.9]), TinyDataset(30))
    model = model.eval().to(dtype)
    # get_attention_mask makes float32: the sum with float64 scores is float64
    seen = decompose(model, random_interaction(), parts=True)
    frame = seen.completeness()
    assert (frame.error <= bound).all(), frame


def test_a_wrong_part_shows() -> None:
    model = SASRecResidual(tiny_config(), TinyDataset(30)).eval()
    seen = decompose(model, random_interaction(), parts=True)
    assert seen.parts is not None
    seen.parts.before_norm[1, PARTS.index("residual"), 0, 0, 0] += 0.01
    frame = seen.completeness().set_index(["layer", "output"])
    assert frame.error["2", "z"] == pytest.approx(0.01, rel=1e-3)
    assert frame.error["1", "z"] < 1e-5


@torch.no_grad()
def test_parts_are_those_of_the_definition() -> None:
    case = make_case([5, 2], extra=1, n_heads=2, head_size=4, dtype=torch.float64)
    block, direct = case.direct()
    with capture(case.encoder, parts=True) as trace:
        case.encoder(case.x, case.attention_mask)
    parts = trace.decomposition.parts
    assert parts is not None
    length = case.x.shape[1]
    own = direct.contributions[:, range(length), range(length)]
    sigma = torch.sqrt(direct.z.var(-1, unbiased=False) + block.LayerNorm.eps)
    expected = {
        "own": own,
        "others": direct.contributions.sum(2) - own,
        "residual": direct.residual,
        "bias": block.dense.bias.expand_as(own),
        "padding": torch.zeros_like(own),
    }
    for index, name in enumerate(PARTS):
        torch.testing.assert_close(parts.before_norm[0, index], expected[name])
        torch.testing.assert_close(
            parts.after_norm[0, index], direct_norm(expected[name], block.LayerNorm, sigma)
        )
    torch.testing.assert_close(parts.after_norm[0, -1], block.LayerNorm.bias.expand_as(own))


def test_parts_must_be_asked_for() -> None:
    model = SASRecResidual(tiny_config(), TinyDataset(30)).eval()
    with pytest.raises(ValueError, match="parts=True"):
        decompose(model, random_interaction()).completeness()
