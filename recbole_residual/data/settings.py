"""Keys that the data room reads, checked where a Config of RecBole's own did not."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from recbole_residual.data.splitting import check_quantiles
from recbole_residual.errors import DataError

GLOBAL_TEMPORAL = "GT"
"""Key of the global temporal split in ``eval_args: {split: {GT: [0.9, 0.9]}}``."""

_LEAVE_ONE_OUT = ("valid_and_test", "valid_only", "test_only")
_SUFFIXES = ("inter", "user", "item", "kg", "link", "net")


def check_load_col(config: Any) -> None:
    """Refuse a ``load_col`` or ``unload_col`` of files that no dataset has."""
    known = [*_SUFFIXES, *(config["additional_feat_suffix"] or ())]
    for key in ("load_col", "unload_col"):
        columns = config[key]
        if columns is None:
            continue
        if not isinstance(columns, dict) or not set(columns) <= set(known):
            raise DataError(
                f"{key} = {columns!r} is not usable: it says for each file, one of "
                f"{', '.join(known)}, which columns are meant, e.g. "
                "{inter: [user_id, item_id, timestamp]}."
            )


def check_split(eval_args: Any, sequential: bool = True) -> None:
    """Refuse an ``eval_args`` whose split or order cannot be made.

    Args:
        eval_args: the value of that key.
        sequential: whether the model is a sequential one.

    Raises:
        DataError: with what it may be.
    """
    split = eval_args.get("split") if isinstance(eval_args, dict) else None
    if not isinstance(split, dict) or not split:
        raise DataError(
            f"eval_args = {eval_args!r} names no split: {{LS: valid_and_test}}, "
            "{RS: [0.8, 0.1, 0.1]}, {TS: [0.8, 0.1, 0.1]}, or for sequential models "
            "{GT: [0.9, 0.9]}."
        )
    if len(split) != 1:
        raise DataError(f"eval_args: split names more than one split: {split}.")
    ((kind, value),) = split.items()
    if sequential and eval_args.get("order") != "TO":
        raise DataError(
            f"eval_args: order is {eval_args.get('order')!r}, but sequences, and a temporal split, "
            "need the order of time: eval_args: {order: TO}."
        )
    if kind == GLOBAL_TEMPORAL:
        if not sequential:
            raise DataError(
                "eval_args: split: {GT: ...} works for sequential models; take RS, LS or TS."
            )
        check_quantiles(value)
    elif kind == "LS":
        _check_choice(value, _LEAVE_ONE_OUT)
    elif kind in ("RS", "TS"):
        _check_shares(kind, value)
    else:
        raise DataError(f"eval_args: split: there is no split {kind!r}: one of RS, LS, TS, GT.")


def _check_choice(value: Any, choices: Collection[str]) -> None:
    if value not in choices:
        raise DataError(
            f"eval_args: split: {{LS: {value!r}}} is not usable: one of {', '.join(choices)}."
        )


def _check_shares(kind: str, shares: Any) -> None:
    if (
        not isinstance(shares, (list, tuple))
        or len(shares) != 3
        or not all(isinstance(share, (int, float)) and share >= 0 for share in shares)
        or not shares[0] > 0
    ):
        raise DataError(
            f"eval_args: split: {{{kind}: {shares!r}}} is not usable: three numbers, the shares of "
            "training, validation and test, e.g. [0.8, 0.1, 0.1]."
        )


def check_filter_seen(mode: Any, phase: str) -> None:
    """Refuse ``filter_seen: True`` where sampled items alone are ranked."""
    if mode != "full":
        raise DataError(
            f"filter_seen: True needs full ranking, but eval_args: mode is {mode!r} for {phase}."
        )
