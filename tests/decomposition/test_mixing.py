"""The mixing matrices of the attention blocks that never build one."""

from __future__ import annotations

from typing import Any, Callable

import pytest
import torch
from torch import nn

from recbole_residual.decomposition.blocks import tapped
from recbole_residual.decomposition.maps import contribution_map
from recbole_residual.decomposition.mixing import attention_kind
from recbole_residual.decomposition.ratios import attention_ratios
from recbole_residual.decomposition.stages import ATTENTION_STAGES
from recbole_residual.decomposition.states import AttentionState, mix
from recbole_residual.model.architecture.layers import model_layers
from tests.decomposition.conftest import tiny_interaction
from tests.decomposition.direct import direct_contributions, direct_map, direct_ratios

BLOCKS: list[tuple[str, dict[str, Any]]] = [
    ("LightSANs", {}),
    ("FEARec", {}),
    ("FEARec", {"dual_domain": True, "spatial_ratio": 0.4}),
    ("FEARec", {"dual_domain": True, "spatial_ratio": 0.4, "std": True, "global_ratio": 0.6}),
    ("FEARec", {"global_ratio": 0.3, "topk_factor": 2}),
]


@torch.no_grad()
def states(model: Any) -> list[AttentionState]:
    found: list[AttentionState] = []
    with tapped(model, model_layers(model), lambda index, state: found.append(state)):
        model.full_sort_predict(tiny_interaction())
    return found


@torch.no_grad()
def outputs_by_name(model: Any, block: Any) -> dict[str, torch.Tensor]:
    """Outputs of the submodules of one block, and what its dense layer received."""
    outputs: dict[str, torch.Tensor] = {}

    def keep(name: str) -> Callable[..., None]:
        def hook(module: nn.Module, args: Any, output: torch.Tensor) -> None:
            outputs[name] = output
            if name == "dense":
                outputs["context"] = args[0]

        return hook

    handles = [part.register_forward_hook(keep(name)) for name, part in block.named_children()]
    model.full_sort_predict(tiny_interaction())
    for handle in handles:
        handle.remove()
    return outputs


@pytest.mark.parametrize(("name", "changes"), BLOCKS)
@torch.no_grad()
def test_matrix_and_values_make_the_context(
    build_model: Callable[..., Any], name: str, changes: dict[str, Any]
) -> None:
    model = build_model(name, **changes)
    for layer, state in zip(model_layers(model), states(model)):
        kind = attention_kind(layer.attention)
        outputs = outputs_by_name(model, layer.attention)
        matrix = kind.matrix(layer.attention, outputs)
        context = mix(matrix, outputs[kind.value])
        torch.testing.assert_close(context, outputs["context"], rtol=1e-4, atol=1e-5)
        valid_keys = state.mask[:, None, None, :]
        torch.testing.assert_close(state.weights, matrix * valid_keys)
        # what padding adds is kept apart, and is nothing where there is none
        assert state.padding is not None
        torch.testing.assert_close(state.branch + state.padding, outputs["dense"])
        full = state.mask.all(dim=1)
        assert full.any()
        assert state.padding[full].abs().max() < 1e-5
        assert state.padding[~full].abs().max() > 1e-3


@pytest.mark.parametrize(("name", "changes"), BLOCKS)
def test_ratios_and_maps_are_those_of_the_direct_form(
    build_model: Callable[..., Any], name: str, changes: dict[str, Any]
) -> None:
    for state in states(build_model(name, **changes)):
        contributions = direct_contributions(state.weights, state.values, state.dense).detach()
        given = (contributions, state.x, state.dense, state.norm, state.mask)
        # padding is no position's part; it moves sigma, which drops out of the ratios
        expected = direct_ratios(*given).detach()
        ratios = attention_ratios(state, ATTENTION_STAGES)
        torch.testing.assert_close(ratios, expected, rtol=0, atol=1e-5)
        full = state.mask.all(dim=1)
        fast, expected = contribution_map(state), direct_map(*given).detach()
        assert (fast - expected)[full].abs().max() <= 1e-4 * expected[full].max()


def test_a_block_of_another_make_is_refused() -> None:
    with pytest.raises(TypeError, match="Linear is not an attention block"):
        attention_kind(nn.Linear(2, 2))
