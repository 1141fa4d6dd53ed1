"""A tune run on Ray against the same trainings one after another in one process.

    python benchmarks/tuning.py            # 8 trials on all of ml-100k
    python benchmarks/tuning.py --quick    # on 200 of its users, fewer epochs

Both sides train the same 8 configurations of SASRecResidual, ask each trained model about alpha on
validation, and test the best one. The sides take turns:

- ``sequential_seconds``: no Ray, one process with a thread per core;
- ``tune_seconds``: Ray is started, runs the trials with one core each, and is shut down;
- ``tune_overhead``: ``tune_seconds / sequential_seconds - 1``. Below 0, Ray was faster;
- ``tune_overhead_after_start``: the same with 15 s for starting Ray taken off ``tune_seconds``.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from recbole_residual.tune.folder import FINISHED, TuneFolder
from recbole_residual.tune.run import tune
from recbole_residual.tune.shared_reads import SharedReads
from recbole_residual.tune.space import Space
from recbole_residual.tune.table import best_trials
from recbole_residual.tune.trial import Setup, read_test, run_trial

SECONDS_TO_START = 15
SPACE = {
    "space": {
        "hidden_dropout_prob": [0.1, 0.2, 0.3, 0.4],
        "learning_rate": [1e-3, 2e-3],
    },
    "alpha_search": {"per_layer": False},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a part of the data, fewer epochs")
    parser.add_argument("--epochs", type=int, help="epochs of a trial")
    parser.add_argument("--repeats", type=int, help="runs of each side; the median counts")
    options = parser.parse_args()
    sys.argv = sys.argv[:1]  # RecBole reads it too
    keys: dict[str, Any] = {
        "epochs": options.epochs or (5 if options.quick else 3),
        "probe": "none",
        "report": False,
        "use_gpu": False,
    }
    if options.quick:
        keys["val_interval"] = {"user_id": [str(user) for user in range(1, 201)]}
    seconds: dict[str, list[float]] = {"sequential": [], "tune": []}
    with tempfile.TemporaryDirectory() as folder:
        for repeat in range(options.repeats or (1 if options.quick else 3)):
            path = Path(folder) / str(repeat)
            start = time.perf_counter()
            result = tune(
                "SASRecResidual", "ml-100k", SPACE, config_dict={**keys, "output_dir": str(path)}
            )
            seconds["tune"].append(time.perf_counter() - start)
            start = time.perf_counter()
            one_after_another(path, Path(folder) / f"{repeat}-sequential")
            seconds["sequential"].append(time.perf_counter() - start)
            assert set(result.results["status"]) == {FINISHED}, result
    tuned, sequential = (statistics.median(seconds[side]) for side in ("tune", "sequential"))
    print(f"sequential_seconds: {sequential:.1f}")
    print(f"tune_seconds: {tuned:.1f}")
    print(f"tune_overhead: {tuned / sequential - 1:.3f}")
    print(f"tune_overhead_after_start: {(tuned - SECONDS_TO_START) / sequential - 1:.3f}")


def one_after_another(tuned: Path, path: Path) -> None:
    """The trials of a tune run, without Ray."""
    manifest = TuneFolder(tuned).read_manifest()
    folder = TuneFolder(path)
    folder.path.mkdir()
    folder.write_manifest(manifest)
    setup = Setup(
        folder=str(folder),
        tests=False,
        sign=1,
        alpha_search=Space.read(manifest.space).alpha_search,
        cpus=len(os.sched_getaffinity(0)),
        gpus=0,
        reads=SharedReads(lambda table: table, lambda table: table),
    )
    outcomes = {
        trial.key: run_trial(trial, setup, lambda report: None) for trial in manifest.trials
    }
    for key in best_trials(manifest, outcomes).values():
        read_test(key, setup)


if __name__ == "__main__":
    main()
