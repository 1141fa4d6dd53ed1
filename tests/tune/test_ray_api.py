from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from recbole_residual.errors import ConfigError, RayDiedError
from recbole_residual.tune import ray_api
from recbole_residual.tune.folder import TrialDefinition
from recbole_residual.tune.ray_api import Resources
from recbole_residual.tune.searcher import PlannedSearcher

ROOT = Path(__file__).parents[2]


def test_without_ray_the_command_says_how_to_install_it() -> None:
    script = (
        "import sys; sys.modules['ray'] = None\n"
        "from recbole_residual.command import main\n"
        "for mode in (['tune', '--model=SASRecResidual', '--dataset=ml-100k'],\n"
        "             ['benchmark', '--models', 'SASRecResidual', '--datasets', 'ml-100k']):\n"
        "    assert main([f'--mode={mode[0]}', *mode[1:]]) == 2\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stderr.count("pip install 'recbole-residual[tune]'") == 2


def run_everywhere(
    function: Any, number: int, gpus: float, tmp_path: Path, **resources: Any
) -> list[dict[str, Any]]:
    """Call a function in that many trials and collect what each wrote."""
    trials = [TrialDefinition(str(index), "M", "d", {}, {}) for index in range(number)]

    def trainable(config: dict[str, Any]) -> None:
        import json

        found = function(config["trial"], number, str(tmp_path))
        with open(f"{tmp_path}/{config['trial']}.json", "w") as file:
            json.dump(found, file)
        ray_api.report({"score": 1.0, "best": 1.0, "ended": True})

    given = Resources(**resources)
    queue = ray_api.TrialQueue(
        PlannedSearcher(trials), n_trials=number, ahead=ray_api.places(given, gpus)
    )
    ray_api.fit(trainable, queue, given, gpus, str(tmp_path / "ray"))
    import json

    return [json.loads((tmp_path / f"{index}.json").read_text()) for index in range(number)]


def together(key: str, number: int, folder: str) -> dict[str, Any]:
    """Wait until all trials run, and see the GPU before and after a configuration was made."""
    import os
    import time
    from pathlib import Path

    import ray

    Path(folder, f"{key}.here").touch()
    end = time.monotonic() + 120
    while len(list(Path(folder).glob("*.here"))) < number and time.monotonic() < end:
        time.sleep(0.05)
    given = os.environ["CUDA_VISIBLE_DEVICES"]
    import sys

    sys.argv += ["--epochs=77", "--gpu_id=3"]  # a worker has flags of its own
    from recbole_residual.config.residual_config import ResidualConfig

    config = ResidualConfig("SASRecResidual", "ml-100k")
    return {
        "given": given,
        "after": os.environ["CUDA_VISIBLE_DEVICES"],
        "ray": ",".join(str(number) for number in ray.get_gpu_ids()),
        "epochs": config["epochs"],
    }


def test_each_trial_sees_the_gpus_that_ray_gave_it(ray_cluster, tmp_path: Path) -> None:
    found = run_everywhere(together, 2, gpus=2, tmp_path=tmp_path)
    for trial in found:
        assert trial["given"] == trial["after"] == trial["ray"]
        assert trial["epochs"] == 300  # RecBole's, not that of the worker's sys.argv
    numbers = [set(trial["given"].split(",")) for trial in found]
    assert all(len(of_one) == 2 for of_one in numbers)
    assert not numbers[0] & numbers[1]


def one_gpu(key: str, number: int, folder: str) -> dict[str, Any]:
    import os
    import time
    from pathlib import Path

    Path(folder, f"{key}.here").touch()
    end = time.monotonic() + 120
    while len(list(Path(folder).glob("*.here"))) < number and time.monotonic() < end:
        time.sleep(0.05)
    return {
        "given": os.environ["CUDA_VISIBLE_DEVICES"],
        "together": len(list(Path(folder).glob("*.here"))),
    }


def test_four_trials_share_a_gpu_at_a_quarter_each(ray_cluster, tmp_path: Path) -> None:
    found = run_everywhere(one_gpu, 4, gpus=0.25, tmp_path=tmp_path, cpus_per_trial=0.25)
    assert {trial["together"] for trial in found} == {4}
    assert len({trial["given"] for trial in found}) == 1


def test_where_there_is_a_gpu_a_trial_gets_one_unless_told_otherwise(ray_cluster) -> None:
    assert ray_api.gpus_per_trial(Resources()) == 1
    assert ray_api.gpus_per_trial(Resources(gpus_per_trial=0.25)) == 0.25
    assert ray_api.gpus_per_trial(Resources(gpus_per_trial=0)) == 0


def test_where_there_is_no_gpu_none_is_asked_for(ray_cluster, monkeypatch) -> None:
    monkeypatch.setattr(ray_api.ray, "cluster_resources", lambda: {"CPU": 2.0})
    assert ray_api.gpus_per_trial(Resources()) == 0
    assert ray_api.gpus_per_trial(Resources(gpus_per_trial=0.5)) == 0


def test_as_many_trials_run_as_fit(ray_cluster) -> None:
    assert ray_api.places(Resources(), 0) == 2
    assert ray_api.places(Resources(cpus_per_trial=0.25), 0.5) == 8
    assert ray_api.places(Resources(cpus_per_trial=0.25), 4) == 1
    assert ray_api.places(Resources(max_concurrent=1), 0) == 1
    assert ray_api.places(Resources(cpus_per_trial=8), 0) == 1


@pytest.mark.parametrize("address", ["localhost:1", "ray://localhost:1", "nowhere.invalid:6379"])
def test_a_cluster_that_does_not_answer_is_told_at_once(address: str, monkeypatch) -> None:
    monkeypatch.setattr(ray_api.ray, "is_initialized", lambda: False)
    told = pytest.raises(ConfigError, match=rf"ray_address = '{address}' does not answer")
    with told, ray_api.connected(address):
        pass


def test_a_trial_that_fits_on_no_machine_is_refused(ray_cluster) -> None:
    ray_api.check_resources(Resources(cpus_per_trial=2, gpus_per_trial=4))
    with pytest.raises(ConfigError, match=r"cpus_per_trial = 99 is more than the 2"):
        ray_api.check_resources(Resources(cpus_per_trial=99))
    with pytest.raises(ConfigError, match=r"gpus_per_trial = 5 is more than the 4"):
        ray_api.check_resources(Resources(gpus_per_trial=5))


def test_a_node_that_is_gone_is_noticed(ray_cluster, monkeypatch) -> None:
    watch = ray_api.NodeWatch()
    watch.check()
    dead = [{**node, "Alive": False} for node in ray_api.ray.nodes()]
    monkeypatch.setattr(ray_api.ray, "nodes", lambda: dead)
    with pytest.raises(RayDiedError, match="died"):
        watch.on_step_end(0, [])


def test_answers_come_one_by_one_and_a_process_that_dies_is_an_answer(ray_cluster: None) -> None:
    def answer(number: int) -> int:
        import os

        if number == 1:
            os._exit(1)
        return number

    given = Resources(max_concurrent=1)
    arguments = [(number,) for number in range(3)]
    answers = dict(ray_api.answers_of_workers(answer, arguments, given, 0, 0))
    assert sorted(answers) == [0, 1, 2]
    assert (answers[0], answers[2]) == (0, 2)
    assert type(answers[1]).__name__ == "WorkerCrashedError"
    with pytest.raises(type(answers[1])):
        ray_api.in_worker(answer, arguments, given, 0, 0)
