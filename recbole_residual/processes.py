"""Which of several processes this one is, and what they tell each other.

Alone, this process is number 0 of 1 and everything here costs nothing. Inside :func:`joined` it is
one of a group of torch.distributed, as in RecBole's quick start: gloo between CPUs, nccl between
GPUs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from recbole_residual.errors import ConfigError

_PATIENCE = timedelta(hours=24)
"""How long one waits for the others, who may be reading data or evaluating. Whoever dies is noticed
at once: its connections break."""


@dataclass(frozen=True)
class Place:
    """The place of a process among others.

    Attributes:
        number: of this process, from 0.
        count: how many there are, on all machines.
        local: its number on this machine.
        meeting: where they find each other: ``tcp://ip:port``, or a file for those of one machine;
            ``env://`` where torchrun has said so.
    """

    number: int
    count: int
    local: int
    meeting: str


@dataclass(frozen=True)
class _Group:
    place: Place
    words: Any
    """The group that objects go through: gloo, also where tensors go through nccl."""


_group: _Group | None = None


def number() -> int:
    """Of this process among those that train together, from 0."""
    return 0 if _group is None else _group.place.number


def count() -> int:
    """How many processes train together; 1 for a process alone."""
    return 1 if _group is None else _group.place.count


def is_first() -> bool:
    """Whether this is the process that writes files, logs and shows progress."""
    return number() == 0


def by_torchrun() -> Place | None:
    """The place that ``torchrun`` has given this process in its environment; None without it.

    Raises:
        ConfigError: if a variable of the environment is missing.
    """
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return None
    try:
        number, count, local = (
            int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK")
        )
    except (KeyError, ValueError) as error:
        raise ConfigError(f"torchrun's environment is not whole: {error}.") from error
    return Place(number, count, local, "env://") if count > 1 else None


@contextmanager
def joined(place: Place, device: torch.device) -> Iterator[None]:
    """Inside, this process is one of several.

    Args:
        place: which one.
        device: where it computes.

    Raises:
        ConfigError: if torch has no way to connect processes here.
    """
    global _group
    if not dist.is_available():
        raise ConfigError("this build of torch connects no processes: set nproc: 1.")
    backend = "nccl" if device.type == "cuda" else "gloo"
    meeting: dict[str, Any] = {"init_method": place.meeting}
    if "://" not in place.meeting:
        meeting = {"store": dist.FileStore(place.meeting, place.count)}
    dist.init_process_group(
        backend, rank=place.number, world_size=place.count, timeout=_PATIENCE, **meeting
    )
    try:
        words = dist.new_group(backend="gloo", timeout=_PATIENCE)
        _group = _Group(place, words)
        yield
    finally:
        _part()


def leave() -> None:
    """Wait for all and be alone from here on, while the others may end."""
    wait_for_all()
    _part()


def _part() -> None:
    global _group
    _group = None
    if dist.is_initialized():
        dist.destroy_process_group()


def gathered(value: Any) -> list[Any]:
    """What every process has, in their order; everybody calls this, and everybody gets all.

    Args:
        value: anything that can be pickled; tensors on the CPU.
    """
    if _group is None:
        return [value]
    values: list[Any] = [None] * _group.place.count
    dist.all_gather_object(values, value, group=_group.words)
    return values


def of_first(value: Any) -> Any:
    """What the first process has."""
    return gathered(value if is_first() else None)[0]


def wait_for_all() -> None:
    """Go on when every process has come this far."""
    if _group is not None:
        dist.barrier(group=_group.words)
