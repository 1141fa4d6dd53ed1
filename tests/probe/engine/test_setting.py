"""Settings, what of a model they reach, and the tree that shares their work."""

from __future__ import annotations

import pytest
from recbole.model.sequential_recommender import BERT4Rec, GRU4Rec

from recbole_residual.model import GRU4RecResidual
from recbole_residual.model.residual import residual_alpha, scale_residual
from recbole_residual.probe.engine.setting import (
    ScalableResiduals,
    Setting,
    applied,
    current_setting,
    sweep_settings,
)
from recbole_residual.probe.engine.setting_tree import SettingTree
from tests.probe.conftest import build

GRU = {"embedding_size": 16, "num_layers": 1, "dropout_prob": 0.0, "logits_chunk": None}


def test_reach_of_models() -> None:
    assert ScalableResiduals.of(build(n_layers=3)) == ScalableResiduals(
        3, 3, neutral_alpha=1.0, joint=False
    )
    assert ScalableResiduals.of(build(BERT4Rec)).unscaled == Setting((1.0, 1.0), (1.0, 1.0))
    assert ScalableResiduals.of(build(GRU4Rec, **GRU)) == ScalableResiduals(
        0, 0, neutral_alpha=1.0, joint=False
    )
    added = build(GRU4RecResidual, **{**GRU, "alpha": 0.0, "alpha_train": 0.0})
    assert ScalableResiduals.of(added) == ScalableResiduals(1, 0, neutral_alpha=0.0, joint=False)
    assert ScalableResiduals.of(added).unscaled == Setting((0.0,), ())


def test_applied_and_current() -> None:
    model = build()
    setting = Setting((0.5, 1.0), (0.0, 0.3))
    with scale_residual(model, 0.1), applied(model, setting):
        assert current_setting(model) == setting
    assert residual_alpha(model) == [1.0, 1.0]
    gru = build(GRU4Rec, **GRU)
    with applied(gru, Setting((), ())):
        assert current_setting(gru) == Setting((), ())


@pytest.mark.parametrize(
    ("residual", "per_layer", "n_settings"),
    [("attention", False, 3), ("feed_forward", False, 3), ("both", True, 9), (None, True, 9)],
)
def test_sweep_settings(residual, per_layer, n_settings) -> None:
    found = sweep_settings(ScalableResiduals.of(build()), [0.0, 0.5, 1.0], residual, per_layer)
    assert len(set(found)) == len(found) == n_settings
    if residual == "feed_forward":
        assert {setting.alpha for setting in found} == {(1.0, 1.0)}
    if residual == "both":
        assert all(setting.alpha == setting.feed_forward for setting in found)


def test_a_model_without_the_residual_is_told() -> None:
    scalable = ScalableResiduals.of(build(GRU4Rec, **GRU))
    with pytest.raises(ValueError, match="no feed-forward residual"):
        sweep_settings(scalable, [0.0], "feed_forward")


def test_tree_shares_prefixes_and_ends_every_setting() -> None:
    asked = [Setting((a, b), (f, 1.0)) for a in (0.0, 1.0) for b in (0.3, 0.7) for f in (0.5, 1.0)]
    tree = SettingTree.of(asked)
    assert tree.n_attention == (2, 2 * 2 * 2)
    leaves = [
        output.leaf
        for first in tree.root.children
        for inner in first.outputs
        for second in inner.next.children
        for output in second.outputs
    ]
    assert sorted(leaves) == list(range(len(asked)))
    with pytest.raises(ValueError, match="twice"):
        SettingTree.of([asked[0], asked[0]])
