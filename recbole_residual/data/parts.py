"""Whether a split leaves something to train on and something to evaluate."""

from __future__ import annotations

from collections.abc import Sequence
from logging import getLogger
from typing import Any

import numpy as np

from recbole_residual.errors import DataError


def check_parts(config: Any, parts: Sequence[Any]) -> None:
    """Refuse a split without training rows, or with none to evaluate; name a part that is empty.

    Args:
        config: the configuration.
        parts: the training, validation and test parts of the dataset.

    Raises:
        DataError: with the number of rows of each part and what the users have.
    """
    sizes = dict(zip(("training", "validation", "test"), (len(part.inter_feat) for part in parts)))
    if sizes["training"] and (sizes["validation"] or sizes["test"]):
        empty = [name for name, size in sizes.items() if not size]
        if empty:
            getLogger().warning(
                "%s: the split leaves no row for %s; %s.",
                config["dataset"],
                empty[0],
                "nothing stops training early"
                if empty[0] == "validation"
                else "there will be no test result",
            )
        return
    missing = "nothing to train on" if not sizes["training"] else "nothing to evaluate"
    counts = ", ".join(f"{size:,} rows for {name}" for name, size in sizes.items())
    raise DataError(
        f"{config['dataset']}: the split leaves {missing}: {counts}. {_users(parts[0])}Split: "
        f"{_split(config)}. Take another split, or data with longer sequences."
    )


def _split(config: Any) -> str:
    if config["benchmark_filename"] is not None:
        return f"the files {config['benchmark_filename']}"
    return str(config["eval_args"]["split"])


def _users(part: Any) -> str:
    """How long the sequences are and how many times there are, where the part knows that."""
    sequences = getattr(part, "sequences", None)
    if sequences is None:
        return ""
    _, lengths = np.unique(sequences.first.numpy(), return_counts=True)
    return (
        f"{len(lengths):,} users have {len(sequences):,} interactions, "
        f"{np.count_nonzero(lengths == 1):,} users a single one, "
        f"{np.count_nonzero(lengths == 2):,} two, {np.count_nonzero(lengths > 2):,} more, at "
        f"{len(np.unique(sequences.time)):,} different times. "
    )
