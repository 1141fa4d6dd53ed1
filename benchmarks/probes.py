"""What the faithfulness probe and the intervals cost.

    python benchmarks/probes.py --quick                   # ml-100k, needs no download
    python benchmarks/probes.py --data_path=data          # amazon-beauty as well

Prints one line per figure, ``name: value``:

- ``faithfulness_vs_forwards_DATASET``: seconds of ``faithfulness`` over the seconds of the same
  number of plain forwards, ``model.full_sort_predict`` on batches of the loader's size. Lower is
  better; what comes before the latest items is computed once. ``faithfulness_vs_forwards`` is that
  of ml-100k.
- ``bootstrap_seconds_DATASET``: every interval of an alpha sweep with 11 alphas, and every paired
  difference, from 1,000 samples of the users. ``bootstrap_seconds`` is that of ml-100k.

The window is RecBole's default of 50 positions, the weights are random.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any, Callable

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch

from benchmarks.device import now
from recbole_residual.config.residual_config import ResidualConfig
from recbole_residual.probe import faithfulness, sweep_alpha
from recbole_residual.run.session import build_session

FIGURE = {"ml-100k": "ml100k", "amazon-beauty": "beauty"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="ml-100k alone, fewer repeats")
    parser.add_argument("--data_path", help="folder with amazon-beauty")
    parser.add_argument("--repeats", type=int, help="runs of each side; the median counts")
    parser.add_argument("--sequences", type=int, default=500, help="for faithfulness")
    options = parser.parse_args()
    sys.argv = sys.argv[:1]  # RecBole reads it too
    names = ["ml-100k"] if options.quick or not options.data_path else list(FIGURE)
    repeats = options.repeats or (1 if options.quick else 3)
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            data_path = None if name == "ml-100k" else options.data_path
            for figure, value in measure(name, data_path, folder, repeats, options.sequences):
                print(f"{figure}_{FIGURE[name]}: {value:.3f}")
                if name == "ml-100k":
                    print(f"{figure}: {value:.3f}", flush=True)


def measure(
    name: str, data_path: str | None, folder: str, repeats: int, n_sequences: int
) -> list[tuple[str, float]]:
    """The figures of one dataset."""
    values = {
        "metrics": ["NDCG"],
        "valid_metric": "NDCG@10",
        "show_progress": False,
        "MAX_ITEM_LIST_LENGTH": 50,
        "checkpoint_dir": folder,
        **({} if data_path is None else {"data_path": data_path}),
    }
    session = build_session(ResidualConfig("SASRecResidual", name, None, values))
    model, data = session.model.eval(), session.test_data
    found = faithfulness(model, data, n_sequences=n_sequences)
    n_forwards = found.about["n_forwards"] * found.about["n_sequences"]
    batch = next(iter(data))[0][:n_sequences].to(model.device)

    @torch.no_grad()
    def forward() -> None:
        model.full_sort_predict(batch)

    probe = median(lambda: faithfulness(model, data, n_sequences=n_sequences), repeats)
    plain = median(forward, max(3, repeats)) / len(batch) * n_forwards
    sweep = sweep_alpha(model, data)
    assert sweep.intervals is not None
    intervals: Any = sweep.intervals

    def bootstrap() -> None:
        for cached in ("distribution", "figures", "differences"):
            vars(intervals).pop(cached, None)
            getattr(intervals, cached)

    return [
        ("faithfulness_vs_forwards", probe / plain),
        ("faithfulness_forwards", n_forwards),
        ("faithfulness_seconds", probe),
        ("bootstrap_seconds", median(bootstrap, repeats)),
    ]


def median(run: Callable[[], Any], repeats: int) -> float:
    """Median seconds of a call, after one that is not counted."""
    seconds = []
    for repeat in range(repeats + 1):
        start = now()
        run()
        if repeat:
            seconds.append(now() - start)
    return statistics.median(seconds)


if __name__ == "__main__":
    main()
