"""The fused step against torch's plain one."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from recbole_residual.trainer.optimizer import fused

STEPS = 30


def train(make):
    torch.manual_seed(0)
    parameters = [nn.Parameter(torch.randn(40, 5)), nn.Parameter(torch.randn(7))]
    optimizer = make(parameters)
    for step in range(STEPS):
        optimizer.zero_grad()
        if step % 3:  # a parameter without a gradient for once
            parameters[1].grad = torch.sin(parameters[1].detach() * step)
        parameters[0].grad = torch.cos(parameters[0].detach() + step)
        optimizer.step()
    return parameters, optimizer


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.AdamW])
@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_same_weights_to_rounding(kind, weight_decay):
    def make(parameters):
        return kind(parameters, lr=0.01, weight_decay=weight_decay, betas=(0.8, 0.95))

    fast, optimizer = train(lambda parameters: fused(make(parameters)))
    slow, plain = train(make)
    assert type(optimizer) is kind
    assert all(group["fused"] for group in optimizer.param_groups)
    for mine, other in zip(fast, slow):
        torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-6)
    assert optimizer.param_groups[0]["betas"] == plain.param_groups[0]["betas"]


def test_goes_on_from_the_state_of_a_plain_step():
    _, plain = train(torch.optim.Adam)
    parameters, optimizer = train(lambda parameters: fused(torch.optim.Adam(parameters)))
    optimizer.load_state_dict(plain.state_dict())
    before = parameters[0].detach().clone()
    parameters[0].grad = torch.ones_like(parameters[0])
    optimizer.step()
    assert not torch.equal(parameters[0], before)


def test_other_optimizers_stay():
    optimizer = torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=0.1)
    assert fused(optimizer) is optimizer
