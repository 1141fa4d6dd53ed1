"""Every probe takes what a session can be opened from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from recbole_residual import (
    Session,
    choose_alpha,
    internals,
    positions,
    reliance,
    run,
    shuffle,
    sweep_alpha,
)
from recbole_residual.errors import ConfigError, ProbeError
from tests.conftest import SMALL

ONE_SEED: dict[str, Any] = {"seeds": [0]}
PROBES = [
    (sweep_alpha, {"alphas": [0.0, 1.0]}),
    (shuffle, ONE_SEED),
    (positions, {}),
    (internals, {}),
    (reliance, {"alphas": [0.0, 1.0], **ONE_SEED}),
]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    folder = tmp_path_factory.mktemp("runs") / "run"
    setup = {**SMALL, "epochs": 1, "probe": "none", "report": False, "output_dir": str(folder)}
    run("SASRecResidual", "ml-100k", config_dict=setup)
    return Session.open(folder)


@pytest.mark.parametrize(("probe", "options"), PROBES, ids=[probe.__name__ for probe, _ in PROBES])
def test_a_session_stands_for_its_model_and_test_data(
    session: Session, probe: Any, options: dict[str, Any]
) -> None:
    of_model = probe(session.model, session.test_data, **options)
    pd.testing.assert_frame_equal(probe(session, **options).frame, of_model.frame)
    on_validation = probe(session, session.valid_data, **options).frame
    assert not on_validation.equals(of_model.frame)
    with pytest.raises(ProbeError, match="a model alone does not know its data"):
        probe(session.model, **options)


def test_a_folder_and_its_checkpoint_too(session: Session) -> None:
    grid = [0.0, 1.0]
    expected = sweep_alpha(session, alphas=grid).frame
    folder = Path(str(session.folder))
    pd.testing.assert_frame_equal(sweep_alpha(folder, alphas=grid).frame, expected)
    pd.testing.assert_frame_equal(
        sweep_alpha(folder / "checkpoint.pth", alphas=grid).frame, expected
    )
    with pytest.raises(ConfigError, match="nothing that can be opened"):
        sweep_alpha(7)  # type: ignore[arg-type]


def test_a_choice_takes_both_parts_of_a_session(session: Session) -> None:
    of_session = choose_alpha(session, alphas=[0.0, 1.0])
    of_model = choose_alpha(session.model, session.valid_data, session.test_data, alphas=[0.0, 1.0])
    pd.testing.assert_frame_equal(of_session.frame, of_model.frame)
    assert of_session.about["n_valid_sequences"] == of_model.about["n_valid_sequences"]
