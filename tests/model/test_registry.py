from __future__ import annotations

from typing import Any

import pytest
import torch
from recbole.model.sequential_recommender import SASRec

from recbole_residual.errors import MissingPackageError, ModelError, UnknownModelError
from recbole_residual.model import registry
from recbole_residual.model.registry import build_model, get_model, register_model
from tests.conftest import TinyDataset, tiny_config


def test_own_models_first_then_recboles() -> None:
    assert get_model("SASRecResidual").__module__.startswith("recbole_residual")
    assert get_model("SASRec") is SASRec


def test_unknown_model_names_the_nearest_and_lists_what_there_is() -> None:
    with pytest.raises(UnknownModelError, match="Did you mean 'SASRecResidual'"):
        get_model("SASRecResidaul")
    with pytest.raises(UnknownModelError, match=r"SASRecResidual.*GRU4Rec"):
        get_model("nothing like it")


def test_a_users_model_is_found_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "MODELS", dict(registry.MODELS))

    @register_model
    class Mine(SASRec):
        pass

    assert get_model("Mine") is Mine


def test_only_recommenders_and_no_second_of_the_same_name(monkeypatch) -> None:
    monkeypatch.setattr(registry, "MODELS", dict(registry.MODELS))
    with pytest.raises(TypeError, match="not a RecBole recommender"):
        register_model(dict)
    other = type("SASRecResidual", (SASRec,), {"__module__": "somewhere"})
    with pytest.raises(ValueError, match="registered already"):
        register_model(other)


@pytest.mark.parametrize(
    ("name", "key", "value", "reason"),
    [
        ("SASRecResidual", "hidden_size", 63, "not a multiple"),
        ("SASRec", "hidden_size", 63, "not a multiple"),
        ("SASRec", "hidden_size", 64.0, "hidden_size = 64.0"),
        ("SASRecResidual", "hidden_size", -2, "hidden_size = -2"),
        ("SASRecResidual", "n_heads", 0, "n_heads = 0"),
        ("SASRecResidual", "hidden_dropout_prob", 1.5, "between 0 and 1"),
        ("SASRecResidual", "hidden_act", "gelo", "'gelo' is not known there"),
        ("BERT4RecResidual", "loss_type", "ce", "BPR"),
        ("SASRecResidual", "loss_type", "ce", "BPR"),
        ("SASRecResidual", "norm", "none", "norm = 'none' is not usable"),
    ],
)
def test_what_a_constructor_refuses_is_an_error_of_this_package(name, key, value, reason) -> None:
    config = tiny_config(model=name, **{key: value})
    with pytest.raises(ModelError, match=reason) as caught:
        build_model(config, TinyDataset(30))
    assert key in str(caught.value)


def test_a_model_is_built_on_the_device_of_its_configuration(monkeypatch) -> None:
    model = build_model(tiny_config(model="SASRec", device=torch.device("meta")), TinyDataset(30))
    assert model.item_embedding.weight.device.type == "meta"
    monkeypatch.setattr(registry, "MODELS", dict(registry.MODELS))

    class Broken(SASRec):
        def __init__(self, config, dataset) -> None:
            super().__init__(config, dataset)
            self.nothing_like_it()

    with pytest.raises(AttributeError):  # a bug, not a value
        build_model(tiny_config(), TinyDataset(30), Broken)


def test_a_package_that_a_model_needs_and_that_is_not_there_is_named() -> None:
    class NeedsMore:
        def __init__(self, config: Any, dataset: Any) -> None:
            import no_such_package  # noqa: F401

    with pytest.raises(MissingPackageError, match="NeedsMore needs the package no_such_package"):
        build_model({}, None, NeedsMore)
