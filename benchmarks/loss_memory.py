"""Peak memory and time of the loss over large catalogues: all scores, this package's, sampled.

    python benchmarks/loss_memory.py [--quick] [--rows 1024] [--items 10000 100000 1000000]

One forward and backward pass of the loss of ``--rows`` positions, 64 wide, in a process of its own
for each figure. The memory is what the process holds at its peak above the representations and the
item embeddings; the gradients of both count, as every loss makes them.

- ``full``: ``cross_entropy(hidden @ weight.T, targets)``, every score at once;
- ``chunked``: this package's ``linear_cross_entropy``;
- ``sampled``: cross-entropy over the target and 256 items drawn for each position.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
import torch.nn.functional as F  # noqa: N812

WIDTH = 64
NEGATIVES = 256
LOSSES = ("full", "chunked", "sampled")
MOST_BYTES = 12 * 2**30


def full(hidden: torch.Tensor, weight: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(hidden @ weight.t(), targets)


def chunked(hidden: torch.Tensor, weight: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    from recbole_residual.model.loss import linear_cross_entropy

    return linear_cross_entropy(hidden, weight, targets)


def sampled(hidden: torch.Tensor, weight: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    negatives = torch.randint(0, len(weight), (len(targets), NEGATIVES))
    candidates = torch.cat([targets.unsqueeze(1), negatives], 1)
    scores = torch.einsum("td,tsd->ts", hidden, F.embedding(candidates, weight))
    return F.cross_entropy(scores, torch.zeros_like(targets))


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (
        1 if sys.platform == "darwin" else 1024
    )


def measure_here(loss: str, n_rows: int, n_items: int) -> dict[str, float]:
    """One pass; the parent started this process for it alone."""
    torch.manual_seed(0)
    compute = {"full": full, "chunked": chunked, "sampled": sampled}[loss]
    small = torch.randn(4, WIDTH, requires_grad=True)
    compute(small, torch.randn(8, WIDTH, requires_grad=True), torch.arange(4)).backward()
    hidden = torch.randn(n_rows, WIDTH).requires_grad_()
    weight = torch.randn(n_items, WIDTH).mul_(0.02).requires_grad_()
    targets = torch.randint(0, n_items, (n_rows,))
    before = peak_bytes()
    begin = time.perf_counter()
    compute(hidden, weight, targets).backward()
    return {"seconds": time.perf_counter() - begin, "mb": (peak_bytes() - before) / 2**20}


def measure(loss: str, n_rows: int, n_items: int) -> dict[str, float]:
    command = [sys.executable, __file__, "--worker", loss, str(n_rows), str(n_items)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return json.loads(output.strip().splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="256 positions")
    parser.add_argument("--rows", type=int, help="positions, by default 1024")
    parser.add_argument("--items", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--worker", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        loss, n_rows, n_items = options.worker
        print(json.dumps(measure_here(loss, int(n_rows), int(n_items))))
        return
    n_rows = options.rows or (256 if options.quick else 1024)
    print(f"Losses of {n_rows} positions, {WIDTH} wide, with {NEGATIVES} sampled negatives.")
    for n_items in options.items:
        for loss in LOSSES:
            if loss == "full" and 3 * 4 * n_rows * n_items > MOST_BYTES:
                print(f"loss_mb_{loss}_{n_items}: left out, it needs more than 12 GiB")
                continue
            found = measure(loss, n_rows, n_items)
            print(f"loss_mb_{loss}_{n_items}: {found['mb']:.0f}")
            print(f"loss_seconds_{loss}_{n_items}: {found['seconds']:.3g}", flush=True)


if __name__ == "__main__":
    main()
