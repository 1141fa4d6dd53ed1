from __future__ import annotations

import os

import pytest

from recbole_residual.errors import ConfigError
from recbole_residual.tune.plan import Plan, fingerprint
from recbole_residual.tune.space import Space
from tests.tune.conftest import TINY


def plan(models=("SASRecResidual",), datasets=("ml-100k",), keys=None, searched=()) -> Plan:
    return Plan.of(list(models), list(datasets), None, keys or {}, searched)


def test_a_trial_is_given_what_the_user_gave_and_what_was_drawn() -> None:
    trial = plan(keys=TINY).trial(3, {"n_layers": 1})
    assert trial.key.startswith("0003-")
    assert (trial.model, trial.dataset) == ("SASRecResidual", "ml-100k")
    assert trial.config["n_layers"] == 1
    assert trial.config["hidden_size"] == TINY["hidden_size"]
    assert trial.point == {"n_layers": 1}


def test_files_and_keys_are_merged_and_text_is_read(tmp_path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("epochs: 7\nlearning_rate: 1e-2\n")
    trial = Plan.of(
        ["SASRecResidual"], ["ml-100k"], [file], {"epochs": "9", "topk": "[1, 10]"}
    ).trial(0, {})
    assert (trial.config["epochs"], trial.config["learning_rate"]) == (9, 0.01)
    assert trial.config["topk"] == [1, 10]


def test_a_key_that_no_model_knows_is_refused() -> None:
    with pytest.raises(ConfigError, match="did you mean 'n_layers'"):
        plan(searched=("n_layer",))
    with pytest.raises(ConfigError, match="did you mean 'epochs'"):
        plan(keys={"epocs": 3})


def test_a_key_that_some_models_do_not_know_is_left_out_for_them() -> None:
    two = plan(["SASRecResidual", "GRU4RecResidual"], keys={"n_layers": 1})
    assert two.trial(0, {"model": "SASRecResidual"}).config["n_layers"] == 1
    assert "n_layers" not in two.trial(0, {"model": "GRU4RecResidual"}).config


def test_what_trains_the_same_is_trained_once() -> None:
    space = Space.read(
        {"space": {"model": ["SASRecResidual", "GRU4RecResidual"], "n_layers": [1, 2, 2]}}
    )
    both = plan(space.values("model"), searched=tuple(space.parameters))
    trials = both.trials(space)
    assert [(trial.model, trial.config.get("n_layers")) for trial in trials] == [
        ("SASRecResidual", 1),
        ("SASRecResidual", 2),
        ("GRU4RecResidual", None),
    ]
    assert len({fingerprint(trial) for trial in trials}) == 3


def test_a_random_search_draws_again_what_it_drew_before() -> None:
    pytest.importorskip("ray")
    space = Space.read(
        {"space": {"n_layers": [1, 2], "n_heads": [1, 2]}, "search": "random", "num_samples": 9}
    )
    trials = plan(searched=tuple(space.parameters)).trials(space)
    assert len(trials) == 4  # all that there are
    assert [trial.key for trial in trials] == [
        trial.key for trial in plan(searched=tuple(space.parameters)).trials(space)
    ]


def test_the_data_path_is_absolute_before_workers_start(tmp_path) -> None:
    (tmp_path / "data" / "mine").mkdir(parents=True)
    trial = plan(datasets=["mine"], keys={"data_path": "data"}).trial(0, {})
    assert trial.config["data_path"] == str(tmp_path / "data")
    assert os.path.isabs(plan(datasets=["mine"]).trial(0, {}).config["data_path"])
    assert "data_path" not in plan().trial(0, {}).config  # RecBole's own copy


def test_the_folder_and_the_gpu_are_not_the_users() -> None:
    config = plan(keys={"output_dir": "x", "gpu_id": "3"}).trial(0, {}).config
    assert not {"output_dir", "gpu_id"} & set(config)


@pytest.mark.parametrize("before", [None, "1,2"])
def test_ray_will_see_every_gpu(before: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if before is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", before)
    plan(keys={"use_gpu": True})
    plan(keys={"use_gpu": False})
    assert os.environ.get("CUDA_VISIBLE_DEVICES") == before


def test_trials_are_compared_by_one_metric_on_validation() -> None:
    with pytest.raises(ConfigError, match="eval_step"):
        plan(keys={"eval_step": 0})


def test_a_plan_survives_its_own_writing() -> None:
    first = plan(["SASRecResidual", "GRU4RecResidual"], keys=TINY)
    again = Plan.of_plain(first.to_plain())
    point = {"model": "GRU4RecResidual", "dropout_prob": 0.2}
    assert again.trial(5, point) == first.trial(5, point)
    assert (again.metric, again.bigger) == ("NDCG@10", True)
