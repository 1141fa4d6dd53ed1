"""Probes of a run: after training, and by the command on a finished one."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from recbole.data.dataloader import NegSampleEvalDataLoader
from recbole.model.sequential_recommender import GRU4Rec

from recbole_residual.command import main
from recbole_residual.config.probe_names import PROBES
from recbole_residual.diagnose.full_run import run
from recbole_residual.errors import UnknownProbeError
from recbole_residual.probe import run_probes
from recbole_residual.probe.engine.rows import iterate_rows, pooled
from recbole_residual.probe.engine.sasrec_pass import SasrecPass
from recbole_residual.probe.engine.setting import ScalableResiduals, applied
from recbole_residual.run.session import Session
from tests.conftest import SMALL
from tests.probe.conftest import build, loader


def test_every_probe_of_a_finished_run(tmp_path: Path, capsys: Any) -> None:
    folder = tmp_path / "run"
    config = {**SMALL, "output_dir": str(folder), "topk": [1, 5], "valid_metric": "NDCG@5"}
    del config["probe"]  # what follows a training by default
    result = run("SASRecResidual", "ml-100k", config_dict=config)
    quick = pd.read_csv(folder / "probe" / "alpha_sweep.csv")
    unscaled = quick[quick["alpha"] == 1].iloc[0]
    for name, value in result["test_result_unrounded"].items():
        assert unscaled[name] == pytest.approx(value, abs=1e-6)
    assert not (folder / "probe" / "positions.json").exists()

    assert main(["--mode=probe", f"--run={folder}", "--probes=positions shuffle"]) == 0
    printed = capsys.readouterr().out
    assert "shuffle_prefix" in printed
    assert "any of L-1 to L-3" in printed
    saved = json.loads((folder / "probe" / "shuffle.json").read_text())
    assert saved["tables"]["shuffle"][0]["hit@5"] == pytest.approx(unscaled["hit@5"])

    session = Session.open(folder)
    assert_ranks_are_equal(session)
    found = run_probes(session.model, session.valid_data, session.test_data, folder)
    assert list(found) == list(PROBES)


@torch.no_grad()
def assert_ranks_are_equal(session: Any) -> None:
    """Of a trained model, every single rank of the one pass is the one by its own scores."""
    model, data = session.model, session.test_data
    scalable = ScalableResiduals.of(model)
    asked = [scalable.setting(alpha) for alpha in (0.0, 0.3, 1.0)]
    (pool,) = pooled(iterate_rows(data, "", False), model, 10**9)
    ranks, _ = SasrecPass(model, asked, [model.n_items - 1]).rank(pool)
    rows = torch.arange(len(pool.target))
    last, before = pool.item_seq[rows, pool.item_seq_len - 1], pool.item_seq_len - 2
    items = [pool.target, last, pool.item_seq[rows, before.clamp(min=0)] * (before >= 0)]
    for setting, of_setting in zip(asked, ranks):
        with applied(model, setting):
            scores = torch.cat([model.full_sort_predict(part) for part, *_ in data])
        for item, found in zip(items, of_setting.t()):
            higher = scores[:, 1:] > scores[rows, item][:, None]
            assert torch.equal(found, (higher.sum(dim=1) + 1) * (item > 0))


def test_none_after_training(tmp_path: Path) -> None:
    config = {**SMALL, "epochs": 1, "output_dir": str(tmp_path / "run"), "probe": "none"}
    run("SASRecResidual", "ml-100k", config_dict=config)
    assert not (tmp_path / "run" / "probe").exists()


def test_probes_without_an_answer_are_left_out_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model = build(GRU4Rec, embedding_size=16, num_layers=1, dropout_prob=0.0)
    with caplog.at_level(logging.WARNING):
        found = run_probes(model, loader(), loader(), tmp_path, ["layer_grid", "alpha_sweep"])
        sampled = NegSampleEvalDataLoader.__new__(NegSampleEvalDataLoader)
        assert not run_probes(model, sampled, sampled, tmp_path, ["alpha_sweep"])
        assert not run_probes(build(n_layers=4), loader(), loader(), tmp_path, ["layer_grid"])
    assert list(found) == ["alpha_sweep"]
    for part in ("nothing to combine", "whole catalogue", "14641 combinations"):
        assert part in caplog.text


def test_unknown_probe(tmp_path: Path) -> None:
    with pytest.raises(UnknownProbeError, match="'shuffle'"):
        run_probes(build(), loader(), loader(), tmp_path, ["shufle"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--mode=probe"], "--run=FOLDER"),
        (["--mode=probe", "--run=nowhere"], "not the folder of a run"),
        (["--mode=probe", "--run=nowhere", "--probes=shufle"], "Did you mean 'shuffle'"),
        (["--mode=probe", "--run=nowhere", "--model=SASRec"], "no use with --mode=probe"),
        (["--run=nowhere"], "is for --mode=probe"),
        (["--model=SASRec", "--dataset=ml-100k", "--probe=fast"], "probe = 'fast'"),
    ],
)
def test_mistakes_end_with_a_message(arguments: list[str], message: str, capsys: Any) -> None:
    assert main(arguments) == 2
    assert message in capsys.readouterr().err


def test_every_probe_has_a_row_in_help(capsys: Any) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    printed = capsys.readouterr().out
    for name, text in PROBES.items():
        assert f"{name} " in printed
        assert text in printed
