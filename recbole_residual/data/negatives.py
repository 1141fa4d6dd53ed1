"""Negative items: drawn for every position, and whether there are any to draw."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from recbole.utils import InputType

from recbole_residual.errors import DataError
from recbole_residual.model.objective import trains_at_all_positions


def wants_negatives(config: Any) -> bool:
    """Whether a model is trained on pairs of a target and a negative item."""
    return config["MODEL_INPUT_TYPE"] == InputType.PAIRWISE


class Negatives:
    """Negative items for every position, never the target of the position itself (RecBole's rule
    for sequential models).

    Args:
        config: with ``train_neg_sample_args``.
        dataset: the training part.

    Raises:
        DataError: for a way of sampling that this cannot do, or a catalogue without two items.
    """

    def __init__(self, config: Any, dataset: Any) -> None:
        arguments = config["train_neg_sample_args"]
        if arguments["distribution"] not in ("uniform", "popularity") or arguments["dynamic"]:
            raise DataError(
                f"train_neg_sample_args = {arguments} cannot be used with loss_positions: all; "
                "set distribution: uniform or popularity and dynamic: False."
            )
        self._number = int(arguments["sample_num"])
        self._n_items = dataset.item_num
        if self._n_items < 3:
            raise too_few_items(self._n_items - 1, "the catalogue has")
        self._cumulative: torch.Tensor | None = None
        if arguments["distribution"] == "popularity":
            items = dataset.sequences.fields[dataset.iid_field].long()
            weight = torch.bincount(items, minlength=self._n_items).double()
            if int((weight > 0).sum()) < 2:
                raise too_few_items(int((weight > 0).sum()), "the interactions have")
            self._cumulative = torch.cumsum(
                torch.where(weight > 0, weight ** float(arguments["alpha"]), weight), 0
            )

    def draw(self, targets: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """One set of negatives for each target, [B, L] -> [B, L, S]."""
        targets = targets.unsqueeze(-1).expand(*targets.shape, self._number)
        if self._cumulative is None:
            # uniform over all items but the target: draw from one item less and step over it
            drawn = torch.randint(1, self._n_items - 1, targets.shape, generator=generator)
            return drawn + (drawn >= targets).long() * (targets > 0)
        drawn = self._by_popularity(targets.shape, generator)
        while (hit := drawn == targets).any():
            drawn[hit] = self._by_popularity((int(hit.sum()),), generator)
        return drawn

    def _by_popularity(self, shape: Any, generator: torch.Generator) -> torch.Tensor:
        cumulative = self._cumulative
        assert cumulative is not None
        point = torch.rand(shape, generator=generator, dtype=torch.float64) * cumulative[-1]
        return torch.searchsorted(cumulative, point, right=True).clamp(max=self._n_items - 1)


def too_few_items(n_items: int, who: str) -> DataError:
    """The error for items of which no other can be drawn."""
    return DataError(
        f"{who} {n_items} item{'s' if n_items != 1 else ''}, and a negative item must be another "
        "than the target: at least two are needed. Loosen the filters, or set loss_type: CE and "
        "eval_args: {mode: full}."
    )


def check_negatives(config: Any, parts: Sequence[Any]) -> None:
    """Refuse data in which RecBole's samplers would look for a negative item for ever.

    Args:
        config: the configuration.
        parts: the training, validation and test parts of the dataset.

    Raises:
        DataError: with what there is too little of.
    """
    distributions = {
        (config[f"{phase}_neg_sample_args"] or {}).get("distribution", "none")
        for phase in ("train", "valid", "test")
        if phase != "train" or not trains_at_all_positions(config)  # that checks its own
    }
    train = parts[0]
    if distributions - {"none"}:
        if train.item_num < 3:
            raise too_few_items(train.item_num - 1, "the catalogue has")
        if "popularity" in distributions:
            _check_popular(config, parts)
    if config["transform"] == "mask_itemseq" and train.item_num - 1 <= train.max_item_list_len:
        _check_masking(config, parts)


def _check_popular(config: Any, parts: Sequence[Any]) -> None:
    """RecBole draws by popularity among the items that are targets, and again until one fits."""
    pairs = np.concatenate(
        [
            np.stack([part.inter_feat[f].numpy() for f in (part.uid_field, part.iid_field)], axis=1)
            for part in parts
        ]
    )
    n_targets = len(np.unique(pairs[:, 1]))
    if n_targets < 2:
        raise too_few_items(n_targets, "all targets together have")
    if not config["repeatable"]:
        users, counts = np.unique(np.unique(pairs, axis=0)[:, 0], return_counts=True)
        if counts.max() >= n_targets:
            raise DataError(
                f"{np.count_nonzero(counts >= n_targets):,} of {len(users):,} users have all "
                f"{n_targets:,} items, so no negative item can be drawn for them: drop them with "
                f'user_inter_num_interval: "[0,{n_targets - 1}]".'
            )


def _check_masking(config: Any, parts: Sequence[Any]) -> None:
    """RecBole's masking draws an item that the sequence does not hold."""
    field = config["ITEM_ID_FIELD"] + config["LIST_SUFFIX"]
    for part in parts:
        items = np.sort(part.inter_feat[field].numpy(), axis=1)
        fresh = np.diff(items, axis=1, prepend=0) != 0
        n_full = int((fresh.sum(axis=1) >= part.item_num - 1).sum())
        if n_full:
            raise DataError(
                f"{n_full:,} sequences hold all {part.item_num - 1:,} items, and masking "
                "(transform: mask_itemseq) needs one that they do not hold: take a smaller "
                "MAX_ITEM_LIST_LENGTH, or a model that does not mask."
            )
