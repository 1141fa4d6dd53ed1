"""A step of training that several processes take together, each with its part of the batch."""

from __future__ import annotations

import hashlib
import pickle
import random
from collections.abc import Iterator
from typing import Any, Union

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from recbole_residual import processes
from recbole_residual.errors import ModelError
from recbole_residual.model.objective import n_targets
from recbole_residual.trainer.shares import own_rows

Losses = Union[torch.Tensor, "tuple[torch.Tensor, ...]"]


class DataParallelLoss:
    """The loss of a model, whose gradients are those of the whole batch in every process.

    Every process draws every batch, negatives and masks included, as one process would, and
    computes the loss of its own rows. DistributedDataParallel averages the gradients; each loss is
    weighted by its share of the batch's targets, so that the average is the gradient of the mean
    over the whole batch. Dropout, and negatives that the model itself draws, come from the seed,
    the epoch and the process.

    Args:
        model: whose loss is a mean over targets, plus at most terms of its parameters alone.
        seed: of the configuration.

    Example:
        See :meth:`~recbole_residual.trainer.trainer.ResidualTrainerMixin._train_epoch`.
    """

    def __init__(self, model: Any, seed: int) -> None:
        self._model, self._seed = model, seed
        self._parallel = DistributedDataParallel(_Loss(model), find_unused_parameters=True)
        self._share = 1.0

    def rows_of_epoch(self, train_data: Any, epoch: int) -> Iterator[Any]:
        """This process's part of each batch of an epoch.

        Args:
            train_data: the loader, the same in every process.
            epoch: its number.
        """
        number, count = processes.number(), processes.count()
        words = f"{self._seed} {epoch} {number}".encode()
        torch.manual_seed(int.from_bytes(hashlib.sha256(words).digest()[:7], "big"))
        for batch in train_data:
            own = own_rows(batch, number, count)
            self._share = self._share_of(own, batch)
            # without a row of its own it takes one of another's, which counts nothing: all have to
            # take part in every step
            yield own if len(own) else batch[slice(0, 1)]

    def _share_of(self, own: Any, batch: Any) -> float:
        if not len(own):
            return 0.0
        return n_targets(self._model, own) / n_targets(self._model, batch)

    def __call__(self, interaction: Any) -> Losses:
        """The losses of rows of :meth:`rows_of_epoch`, weighted."""
        losses = self._parallel(interaction)
        weight = self._share * processes.count()
        drawn = getattr(self._model, "n_drawn_targets", None)
        if drawn is not None:  # how many there are is known after the forward alone
            own = drawn.float() * bool(self._share)
            everybodys = own.clone()
            dist.all_reduce(everybodys)
            weight = own / everybodys * processes.count()
        if isinstance(losses, tuple):
            return tuple(loss * weight for loss in losses)
        return losses * weight

    def of_all(self, total: Any, train_data: Any) -> Any:
        """The loss of an epoch, from what each process has added up.

        Args:
            total: the sum over batches of what :meth:`__call__` gave.
            train_data: the loader.

        Raises:
            ModelError: if the processes have not drawn the same batches.
        """
        totals, states = zip(*processes.gathered((total, _random_state(train_data))))
        if len(set(states)) > 1:
            raise ModelError(
                f"{type(self._model).__name__} draws from Python's or numpy's generator while it "
                "trains, so the processes no longer draw the same batches: draw with torch, or "
                "set nproc: 1."
            )
        if isinstance(total, tuple):
            return tuple(sum(parts) / len(totals) for parts in zip(*totals))
        return sum(totals) / len(totals)


class _Loss(nn.Module):
    """What DistributedDataParallel calls: the loss as a forward."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, interaction: Any) -> Losses:
        return self.model.calculate_loss(interaction)


def _random_state(train_data: Any) -> str:
    """Where the generators stand that batches are drawn from."""
    drawn_from = (random.getstate(), np.random.get_state())  # noqa: NPY002, RecBole draws from it
    generator = getattr(train_data, "generator", None)
    of_loader = b"" if generator is None else generator.get_state().numpy().tobytes()
    return hashlib.sha256(pickle.dumps(drawn_from) + of_loader).hexdigest()
