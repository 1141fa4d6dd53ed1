"""The decomposition: what it adds to an evaluation, and against the direct form.

    python benchmarks/decomposition.py [--quick] [--data_path=...] [--repeats=...]

Prints one line per figure, ``name: value``. A ratio compares medians of runs that took turns in
this process; figures at length 200 end in ``_l200``.

- ``pass_overhead``: RecBole's SASRec (2 layers, 2 heads, 64 dimensions) ranks the whole catalogue
  for every user of ml-100k and takes the top 10, with the three mixing ratios of every position and
  layer and their statistics, against the same without. Lower is better.
- ``ratios_speedup_vs_direct``, ``maps_speedup_vs_direct``: the fast form against the form with a
  [B, L, L, D] tensor that the tests use, batch 64, 2 heads, 64 dimensions. Higher is better.
- ``pass_memory_vs_plain``: peak memory that the evaluation pass adds to a process, with the ratios
  against without, each in a process of its own.

``--data_path`` is a folder with ml-100k; without it the one that comes with RecBole is taken.
``--quick`` takes fewer users and repeats. The weights are random: no figure depends on them.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pandas as pd
import recbole
import torch
from recbole.data.interaction import Interaction
from recbole.model.layers import TransformerEncoder
from recbole.model.sequential_recommender import SASRec

from benchmarks.device import DEVICE, now
from recbole_residual.decomposition import RatioStatistics, observe
from recbole_residual.decomposition.blocks import tapped
from recbole_residual.decomposition.maps import contribution_map
from recbole_residual.decomposition.ratios import attention_ratios
from recbole_residual.decomposition.stages import ATTENTION_STAGES
from recbole_residual.decomposition.states import AttentionState
from recbole_residual.model.architecture.layers import model_layers
from tests.conftest import TinyDataset, tiny_config
from tests.decomposition.direct import direct_contributions, direct_map, direct_ratios

LENGTHS = {50: "", 200: "_l200"}
SASREC = {"n_layers": 2, "n_heads": 2, "hidden_size": 64, "inner_size": 256}
BATCH_ROWS = 4096  # eval_batch_size of RecBole
TOP_K = 10
TURN_SECONDS = 0.1
SIDES = ("plain", "ratios")


def test_batches(data_path: str, length: int, n_users: int | None) -> tuple[list[Interaction], int]:
    """The sequences that leave-one-out tests on, and the size of the catalogue with padding."""
    frame = pd.read_csv(Path(data_path) / "ml-100k" / "ml-100k.inter", sep="\t")
    frame = frame.sort_values(["user_id:token", "timestamp:float"], kind="stable")
    items, names = pd.factorize(frame["item_id:token"])
    histories = pd.Series(items + 1).groupby(frame["user_id:token"].to_numpy()).agg(list)
    rows = [history[:-1][-length:] for history in histories[:n_users]]
    item_seq = torch.zeros(len(rows), length, dtype=torch.long)
    for row, history in enumerate(rows):
        item_seq[row, : len(history)] = torch.tensor(history)
    whole = Interaction({"item_id_list": item_seq, "item_length": (item_seq > 0).sum(dim=1)})
    return [whole[start : start + BATCH_ROWS] for start in range(0, len(rows), BATCH_ROWS)], len(
        names
    ) + 1


def evaluation_pass(
    data_path: str, length: int, n_users: int | None
) -> dict[str, Callable[[], Any]]:
    """The pass of both sides, ready to run."""
    batches, n_items = test_batches(data_path, length, n_users)
    torch.manual_seed(0)
    config = tiny_config(MAX_ITEM_LIST_LENGTH=length, initializer_range=0.02, **SASREC)
    model = SASRec(config, TinyDataset(n_items)).eval().to(DEVICE)
    batches = [batch.to(DEVICE) for batch in batches]

    @torch.no_grad()
    def plain() -> None:
        for batch in batches:
            scores = model.full_sort_predict(batch)
            scores[:, 0] = -torch.inf
            torch.topk(scores, TOP_K, dim=-1)

    def ratios() -> None:
        seen = RatioStatistics()
        with observe(model, seen.update):
            plain()

    return dict(zip(SIDES, (plain, ratios)))


def medians(sides: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Seconds of one run of each side. The sides take turns; a turn is as many runs as fill
    :data:`TURN_SECONDS`, and the first turn of each does not count."""
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for repeat in range(repeats + 1):
        for name, run in sides.items():
            runs, start = 0, now()
            while not runs or now() - start < TURN_SECONDS:
                run()
                runs += 1
            if repeat:
                seconds[name].append((now() - start) / runs)
    return {name: statistics.median(values) for name, values in seconds.items()}


@torch.no_grad()
def one_state(length: int) -> AttentionState:
    """What a forward leaves in one attention block, batch 64."""
    torch.manual_seed(0)
    encoder = TransformerEncoder(1, 2, 64, 256).eval().to(DEVICE)
    causal = torch.full((length, length), -10000.0, device=DEVICE).triu(diagonal=1)
    states: list[AttentionState] = []
    with tapped(encoder, model_layers(encoder), lambda index, state: states.append(state)):
        encoder(torch.randn(64, length, 64, device=DEVICE), causal.expand(64, 1, -1, -1))
    return states[0]


def against_direct(length: int, repeats: int) -> dict[str, float]:
    state = one_state(length)

    @torch.no_grad()
    def direct(reduce: Callable[..., torch.Tensor]) -> torch.Tensor:
        contributions = direct_contributions(state.weights, state.values, state.dense)
        return reduce(contributions, state.x, state.dense, state.norm, state.mask)

    pairs: dict[str, tuple[Callable[[], torch.Tensor], Callable[[], torch.Tensor]]] = {
        "ratios": (
            lambda: direct(direct_ratios),
            lambda: attention_ratios(state, ATTENTION_STAGES),
        ),
        "maps": (lambda: direct(direct_map), lambda: contribution_map(state)),
    }
    figures = {}
    for name, (slow, fast) in pairs.items():
        torch.testing.assert_close(fast(), slow(), rtol=0, atol=1e-4)
        seconds = medians({"direct": slow, "fast": fast}, repeats)
        figures[f"{name}_speedup_vs_direct"] = seconds["direct"] / seconds["fast"]
    return figures


def memory(field: str) -> int:
    """Memory of this process in kB: VmRSS is what it holds, VmHWM the most it ever held."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1])
    raise RuntimeError(f"This system does not report {field}.")


def added_memory(side: str, options: argparse.Namespace, length: int) -> int:
    """Peak memory of one pass above what the process held before, in kB, in a new process."""
    command = [sys.executable, __file__, f"--side={side}", f"--length={length}"]
    command += [f"--data_path={options.data_path}"] + ["--quick"] * options.quick
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return int(output.split()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer users and repeats")
    parser.add_argument(
        "--data_path",
        default=os.path.join(os.path.dirname(recbole.__file__), "dataset_example"),
        help="folder with ml-100k",
    )
    parser.add_argument("--repeats", type=int, help="runs of each side; the median counts")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    parser.add_argument("--length", type=int, default=50, help=argparse.SUPPRESS)
    options = parser.parse_args()
    repeats = options.repeats or (3 if options.quick else 11)
    n_users = 100 if options.quick else None

    if options.side:  # the new process of added_memory
        run = evaluation_pass(options.data_path, options.length, n_users)[options.side]
        before = memory("VmRSS")
        run()
        print(memory("VmHWM") - before)
        return

    for length, suffix in LENGTHS.items():
        seconds = medians(evaluation_pass(options.data_path, length, n_users), repeats)
        print(f"plain_pass_seconds{suffix}: {seconds['plain']:.3f}")
        print(f"pass_overhead{suffix}: {seconds['ratios'] / seconds['plain']:.3f}", flush=True)
    for length, suffix in LENGTHS.items():
        for name, value in against_direct(length, repeats).items():
            print(f"{name}{suffix}: {value:.1f}", flush=True)
    for length, suffix in LENGTHS.items():
        added = {side: added_memory(side, options, length) for side in SIDES}
        print(f"plain_pass_mb{suffix}: {added['plain'] / 1024:.0f}")
        print(f"pass_memory_vs_plain{suffix}: {added['ratios'] / added['plain']:.3f}", flush=True)


if __name__ == "__main__":
    main()
