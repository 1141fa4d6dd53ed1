"""A result as the terminal shows it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tabulate import tabulate


def summary(result: Mapping[str, Any]) -> str:
    """Validation and test values of a run, metrics down, k across.

    Args:
        result: what :func:`recbole_residual.quick_start.run_recbole_residual` returns.
    """
    title = f"{result['model']} on {result['dataset']}"
    if "alpha" in result:
        title += f", alpha = {', '.join(f'{alpha:g}' for alpha in result['alpha'])} by layer"
    lines = [title]
    for name, key in (("validation", "valid_result"), ("test", "test_result")):
        values = result.get(key)
        if values:
            lines += ["", name, _table(values)]
    lines += ["", f"{result['epochs_trained']} epochs, {result['seconds']:.1f} s"]
    lines.append(f"saved in {result['run_folder']}")
    return "\n".join(lines)


def _table(values: Mapping[str, float]) -> str:
    cutoffs = sorted({int(key.split("@")[1]) for key in values if "@" in key})
    at_k: dict[str, dict[int, float]] = {}
    single: dict[str, float] = {}
    for key, value in values.items():
        name, _, k = key.partition("@")
        if k:
            at_k.setdefault(name, {})[int(k)] = value
        else:
            single[name] = value
    parts = []
    if at_k:
        rows = [[name, *(row.get(k) for k in cutoffs)] for name, row in at_k.items()]
        parts.append(tabulate(rows, headers=["", *(f"@{k}" for k in cutoffs)], floatfmt=".4f"))
    if single:
        parts.append(tabulate(list(single.items()), floatfmt=".4f", tablefmt="plain"))
    return "\n\n".join(parts)
