"""Wrapped and compiled models: unwrapped, or refused by name, never without effect."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from recbole.model.sequential_recommender import SASRec
from torch import nn
from torch.nn.parallel import DataParallel

from recbole_residual.decomposition import capture, decompose
from recbole_residual.errors import ModelError
from recbole_residual.model import GRU4RecResidual, SASRecResidual
from recbole_residual.model.architecture.precision import refuse_half_precision
from recbole_residual.model.architecture.wrappers import unwrapped
from recbole_residual.model.residual import residual_alpha, scale_residual
from recbole_residual.model.switches import uniform_attention, without_position
from tests.conftest import TinyDataset, random_interaction, tiny_config

CONTEXTS = {
    "scale_residual": lambda model: scale_residual(model, 0.3),
    "feed_forward": lambda model: scale_residual(model, feed_forward=0.3),
    "capture": capture,
    "uniform_attention": uniform_attention,
    "without_position": without_position,
}


def built(model_class: type = SASRecResidual, **changes: Any) -> Any:
    torch.manual_seed(0)
    return model_class(tiny_config(**changes), TinyDataset(30)).eval()


def hooks_of(model: nn.Module) -> int:
    return sum(
        len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules()
    )


@torch.no_grad()
@pytest.mark.parametrize("context", CONTEXTS.values(), ids=CONTEXTS)
def test_a_compiled_block_is_refused_by_name(context: Any) -> None:
    model = built(SASRec)
    expected = model.full_sort_predict(random_interaction())
    model.trm_encoder.compile(backend="eager")
    assert torch.equal(model.full_sort_predict(random_interaction()), expected)
    with pytest.raises(ModelError, match=r"SASRec\.trm_encoder is compiled"), context(model):
        pass
    assert hooks_of(model) == 0
    with scale_residual(model, 1.0):  # no hook is needed
        assert torch.equal(model.full_sort_predict(random_interaction()), expected)


def test_alpha_of_a_compiled_model_is_refused_and_stays_what_it_was() -> None:
    model = built()
    model.trm_encoder.layer[1].compile(backend="eager")
    with pytest.raises(ModelError, match=r"SASRecResidual\.trm_encoder\.layer\.1 is compiled"):
        model.alpha = 0.3
    assert model.alpha == residual_alpha(model) == [1.0, 1.0]
    model.alpha = 1.0


@torch.no_grad()
@pytest.mark.parametrize("changes", [{"alpha": 0.3}, {"norm": "pre"}, {"attention": "uniform"}])
def test_a_model_compiled_with_its_hooks_is_refused_when_it_runs(changes: Any) -> None:
    model = built(**changes)
    model.trm_encoder.compile(backend="eager")
    with pytest.raises(ModelError, match=r"SASRecResidual\.trm_encoder is compiled"):
        model.full_sort_predict(random_interaction())


def test_compiling_inside_a_context_is_refused_on_leaving_it() -> None:
    model = built(SASRec)
    with pytest.raises(ModelError, match="is compiled"), scale_residual(model, 0.3):
        model.trm_encoder.compile(backend="eager")
    assert hooks_of(model) == 0


@torch.no_grad()
@pytest.mark.parametrize("wrap", [DataParallel, lambda m: torch.compile(m, backend="eager")])
def test_wrappers_are_unwrapped_where_the_package_runs_the_model(wrap: Any) -> None:
    model = built(SASRec)
    wrapped = wrap(model)
    assert unwrapped(DataParallel(wrapped)) is model
    interaction = random_interaction()
    expected = decompose(model, interaction).ratios
    assert torch.equal(decompose(wrapped, interaction).ratios, expected)
    for context in CONTEXTS.values():
        with pytest.raises(ModelError, match=r"SASRec is wrapped by .*model"), context(wrapped):
            pass


@torch.no_grad()
def test_distributed_data_parallel_is_scaled_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    class OneProcess(nn.parallel.DistributedDataParallel):
        """It needs a process group to be made; here only what it holds counts."""

        def __init__(self, module: nn.Module) -> None:
            nn.Module.__init__(self)
            self.module = module

        def forward(self, *args: Any) -> Any:
            return self.module(*args)

    model = built(residual="attention+ffn")
    interaction = random_interaction()
    batch = interaction["item_id_list"], interaction["item_length"]
    with scale_residual(model, 0.3):
        expected = model(*batch)
    wrapped = OneProcess(model)
    with scale_residual(wrapped, 0.3), capture(wrapped) as trace:
        assert torch.equal(wrapped(*batch), expected)
    assert trace.decomposition.alpha == (0.3, 0.3)


@torch.no_grad()
def test_half_precision_is_right_or_refused() -> None:
    for dtype in (torch.bfloat16, torch.float16):
        model = built(SASRec).to(dtype)
        with pytest.raises(ModelError, match=r"SASRec holds b?float16 weights.*model\.float\(\)"):
            decompose(model, random_interaction())
    refuse_half_precision(built(SASRec).double())
    refuse_half_precision(built(SASRec).bfloat16().trm_encoder)  # blocks alone run
    sizes = {"embedding_size": 16, "num_layers": 1, "dropout_prob": 0.0}
    gru = built(GRU4RecResidual, **sizes, alpha=0.0, alpha_train=0.0)
    exact = decompose(gru, random_interaction()).ratios
    half = decompose(copy.deepcopy(gru).bfloat16(), random_interaction()).ratios
    torch.testing.assert_close(half, exact, rtol=0, atol=0.02)
