"""An alpha sweep against RecBole's own evaluation, and against a loop over alphas.

    python benchmarks/sweep.py --data_path=data          # ml-100k, ml-1m and amazon-beauty
    python benchmarks/sweep.py --quick                   # ml-100k alone, needs no download

Prints one line per figure, ``name: value``. A ratio compares medians of runs that took turns in
this process, on the same model and the same loader:

- ``sweep_vs_evaluate_DATASET``: ``sweep_alpha`` with 11 alphas and every metric of it, against one
  evaluation by RecBole's Trainer with Recall and NDCG. Lower is better.
- ``sweep_vs_loop``: a loop that lets this package's Trainer evaluate the same metrics once per
  alpha, against the sweep, on ml-100k. Higher is better.
- ``flop_floor_DATASET``: multiplications and additions in matrix products that no sweep with these
  metrics can share, against those that RecBole's evaluation makes. Where both get the same out of
  the processor, ``sweep_vs_evaluate`` cannot be lower. ``flop_floor`` is that of ml-100k.

The window is RecBole's default of 50 positions, which the histories of ml-100k and ml-1m mostly
fill. The weights are random; a trained model leaves somewhat more rows to a plain forward
(``evaluated_plainly_DATASET``: share of pairs of a row and an alpha).
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
from recbole.trainer import Trainer

from benchmarks.device import now
from recbole_residual.compat import tensorboard_under
from recbole_residual.config.residual_config import ResidualConfig
from recbole_residual.model.residual import scale_residual
from recbole_residual.probe import DEFAULT_ALPHAS, sweep_alpha
from recbole_residual.probe.engine.evaluation import evaluate_settings
from recbole_residual.probe.engine.setting import ScalableResiduals, sweep_settings
from recbole_residual.run.session import build_session
from recbole_residual.trainer.trainer import ResidualTrainer

ALL_METRICS = ["Hit", "NDCG", "MRR", "HRLI", "HRL2I", "MixingRatio", "RecoveryRate"]
FIGURE = {"ml-100k": "ml100k", "amazon-beauty": "beauty", "ml-1m": "ml1m"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="ml-100k alone, fewer repeats")
    parser.add_argument("--data_path", help="folder with amazon-beauty and ml-1m")
    parser.add_argument("--datasets", nargs="+", choices=FIGURE, help="default: all there are")
    parser.add_argument("--repeats", type=int, help="runs of each side; the median counts")
    options = parser.parse_args()
    sys.argv = sys.argv[:1]  # RecBole reads it too
    names = ["ml-100k"] if options.quick or not options.data_path else list(FIGURE)
    names = options.datasets or names
    repeats = options.repeats or (3 if options.quick else 7)
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            measure(name, options.data_path if name != "ml-100k" else None, repeats, folder)


def measure(name: str, data_path: str | None, repeats: int, folder: str) -> None:
    """Print the figures of one dataset."""
    session = build_session(_config(name, data_path, folder, ["Recall", "NDCG"]))
    model, data = session.model.eval(), session.test_data
    with tensorboard_under(folder):
        recbole = Trainer(session.config, model)

    def evaluate() -> Any:
        return recbole.evaluate(data, load_best_model=False)

    def sweep() -> Any:
        return sweep_alpha(model, data)

    sides: dict[str, Callable[[], Any]] = {"evaluate": evaluate, "sweep": sweep}
    if name == "ml-100k":
        own = ResidualTrainer(_config(name, data_path, folder, ALL_METRICS), model)

        def loop() -> None:
            for alpha in DEFAULT_ALPHAS:
                with scale_residual(model, alpha):
                    own.evaluate(data, load_best_model=False)

        sides["loop"] = loop
    seconds = in_turn(sides, repeats)
    figure = FIGURE[name]
    for side, value in seconds.items():
        print(f"{side}_seconds_{figure}: {value:.3f}")
    print(f"sweep_vs_evaluate_{figure}: {seconds['sweep'] / seconds['evaluate']:.2f}")
    if name == "ml-100k":
        print(f"sweep_vs_loop: {seconds['loop'] / seconds['sweep']:.2f}")
        print(f"flop_floor: {flop_floor(model, data):.2f}")
    print(f"flop_floor_{figure}: {flop_floor(model, data):.2f}")
    settings = sweep_settings(ScalableResiduals.of(model), DEFAULT_ALPHAS)
    found = evaluate_settings(model, data, settings, [10])
    share = found.n_plain / (len(settings) * found.counts.n_sequences)
    print(f"evaluated_plainly_{figure}: {share:.4f}", flush=True)


def _config(name: str, data_path: str | None, folder: str, metrics: list[str]) -> ResidualConfig:
    values = {
        "metrics": metrics,
        "topk": [1, 5, 10, 20],
        "valid_metric": "NDCG@10",
        "show_progress": False,
        "MAX_ITEM_LIST_LENGTH": 50,
        "checkpoint_dir": folder,
    }
    if data_path is not None:
        values["data_path"] = data_path
    return ResidualConfig("SASRecResidual", name, None, values)


def in_turn(sides: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Median seconds of each side; they run in turns, after one run of each that is not counted."""
    seconds: dict[str, list[float]] = {side: [] for side in sides}
    for repeat in range(repeats + 1):
        for side, run in sides.items():
            start = now()
            run()
            if repeat:
                seconds[side].append(now() - start)
    return {side: statistics.median(values) for side, values in seconds.items()}


def flop_floor(model: Any, data: Any) -> float:
    """Matrix products of a sweep that cannot be shared, against those of one RecBole evaluation.

    Counted in multiply-adds. RecBole: every position of the window, padding too, through every
    layer, and one row of scores. The sweep, on valid positions only, with A alphas:

    - first layer, shared: query, key, value, attention, the output layer for what a position takes
      from others and for what it keeps, and the first feed-forward product, which is linear in
      alpha, for both of its terms;
    - first layer, per alpha: the second feed-forward product, behind the activation;
    - further layers, per alpha: everything but the feed-forward block; in those between the first
      and the last that too;
    - last feed-forward block: per alpha the last position, and three more at alpha = 1;
    - scores of the catalogue: as many rows.
    """
    n_alphas, n_reads = len(DEFAULT_ALPHAS), 3
    width, inner, n_layers = model.hidden_size, model.inner_size, model.n_layers
    lengths = torch.cat([batch[0][model.ITEM_SEQ_LEN] for batch in data]).double()
    window = model.max_seq_length

    def attention(length: Any, keys: Any, n_outputs: int) -> Any:
        products = (3 + n_outputs) * width * width + 2 * keys * width
        return length * products

    feed_forward = 2 * width * inner
    plain = n_layers * (attention(window, window, 1) + window * feed_forward)
    plain += width * model.n_items
    # A query needs the keys up to its own position: half of the window, and itself.
    block = attention(lengths, (lengths + 1) / 2, 2)
    shared = block + lengths * 2 * width * inner
    per_alpha = lengths * width * inner + (n_layers - 1) * block
    per_alpha += max(0, n_layers - 2) * lengths * feed_forward
    reads = (n_alphas + n_reads) * (feed_forward + width * model.n_items)
    if n_layers == 1:
        shared, per_alpha = block, torch.zeros_like(lengths)
    return float((shared + n_alphas * per_alpha + reads).mean() / plain)


if __name__ == "__main__":
    main()
