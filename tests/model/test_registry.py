from __future__ import annotations

import pytest
from recbole.model.sequential_recommender import SASRec

from recbole_residual.errors import UnknownModelError
from recbole_residual.model import registry
from recbole_residual.model.registry import get_model, register_model


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
