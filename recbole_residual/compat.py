"""What RecBole 1.2.1 breaks on newer libraries, mended. One function each, named after the fault.

A mend does nothing where the library at hand is not affected, and nothing twice. Importing this
module loads numpy alone, which is all that the mend at the package's import needs.
"""

from __future__ import annotations

import functools
import importlib.abc
import importlib.machinery
import importlib.metadata
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

_MENDED = "_recbole_residual_mend"


def _major(module: Any) -> tuple[int, int]:
    major, minor = module.__version__.split(".")[:2]
    return int(major), int("".join(filter(str.isdigit, minor)) or 0)


def _wrap_once(owner: type, name: str, wrapper: Callable[[Callable], Callable]) -> None:
    original = getattr(owner, name)
    if hasattr(original, _MENDED):
        return
    inner = wrapper(original)

    @functools.wraps(original)
    def mended(*args: Any, **kwargs: Any) -> Any:
        return inner(*args, **kwargs)

    setattr(mended, _MENDED, True)
    _put(owner, name, mended)


_MISSING = object()
_replaced: list[tuple[Any, str, Any]] = []
"""What stood where a mend stands now: owner, name, and its own value there."""


def _put(owner: Any, name: str, value: Any) -> None:
    _replaced.append((owner, name, vars(owner).get(name, _MISSING)))
    setattr(owner, name, value)


@contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """``owner.name`` is ``value`` inside the block, and afterwards what it was.

    Args:
        owner: a module, a class or an object.
        name: of the attribute; it may be inherited.
        value: what stands there for a while.

    Example:
        >>> import math
        >>> with replaced(math, "pi", 3):
        ...     math.pi
        3
        >>> math.pi > 3
        True
    """
    before = vars(owner).get(name, _MISSING)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if before is _MISSING:
            delattr(owner, name)
        else:
            setattr(owner, name, before)


def mend_numpy2_names() -> None:
    """numpy >= 2 lacks names that RecBole's Config reads, and ``bool8``, which ray 2.6.3 reads.

    Called when the package is imported, so Ray's workers have it as well.
    """
    if _major(np) < (2, 0):
        return
    for name, current in (
        ("float_", np.float64),
        ("complex_", np.complex128),
        ("unicode_", np.str_),
        ("bool8", np.bool_),
    ):
        if not hasattr(np, name):
            setattr(np, name, current)


def mend_missing_numpy_aliases() -> None:
    """RecBole's Interaction reads ``np.float`` and the like, which only Config.__init__ sets.

    A Config that comes out of a checkpoint has not run its ``__init__``.
    """
    from recbole.config import Config

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        Config.compatibility_settings(None)


def mend_anomaly_detection() -> None:
    """RecBole's SINE, imported with every model, turns torch's anomaly detection on for good.

    Every backward pass of the process then looks for NaN in every tensor. RecBole's Trainer checks
    the loss itself, and goes on doing so. Called when this package is imported: when SINE is
    imported later, whatever the user has switched on or off before stays as it is.
    """
    if _SINE not in sys.modules and not any(
        isinstance(finder, _SineFinder) for finder in sys.meta_path
    ):
        sys.meta_path.insert(0, _SineFinder())


_SINE = "recbole.model.sequential_recommender.sine"


class _SineFinder(importlib.abc.MetaPathFinder):
    """Finds SINE where Python finds it, and undoes what importing it does to torch."""

    def find_spec(
        self, fullname: str, path: Any, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != _SINE:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                with _anomaly_detection_kept():
                    execute(module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


@contextmanager
def _anomaly_detection_kept() -> Iterator[None]:
    import torch

    enabled, check_nan = torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()
    try:
        yield
    finally:
        torch.autograd.set_detect_anomaly(enabled, check_nan)


def mend_pandas3_chained_fillna(dataset_class: type) -> None:
    """pandas >= 3: ``feat[field].fillna(inplace=True)`` changes nothing, missing values stay NaN.

    Args:
        dataset_class: RecBole's Dataset.
    """
    import pandas as pd

    if _major(pd) < (3, 0):
        return
    _wrap_once(dataset_class, "_fill_nan", lambda original: fill_missing)
    _wrap_once(dataset_class, "_load_feat", _with_filled_sequences)


def fill_missing(dataset: Any) -> None:
    """Missing tokens become padding (0), missing numbers their column's mean, sequences empty."""
    from recbole.utils import FeatureType

    for feat_name in dataset.feat_name_list:
        feat = getattr(dataset, feat_name)
        for field in list(feat):
            kind = dataset.field2type[field]
            if kind == FeatureType.TOKEN:
                feat[field] = feat[field].fillna(0)
            elif kind == FeatureType.FLOAT:
                feat[field] = feat[field].fillna(feat[field].mean())
            else:
                empty = np.array([], dtype=np.int64 if kind == FeatureType.TOKEN_SEQ else float)
                feat[field] = [empty if isinstance(cell, float) else cell for cell in feat[field]]


def _with_filled_sequences(original: Callable) -> Callable:
    import pandas as pd

    def mended(*args: Any, **kwargs: Any) -> Any:
        read_csv = pd.read_csv

        def read_filled(*args: Any, **kwargs: Any) -> pd.DataFrame:
            frame = read_csv(*args, **kwargs)
            sequences = [column for column in frame if str(column).endswith("_seq")]
            return frame.assign(**{column: frame[column].fillna("") for column in sequences})

        with replaced(pd, "read_csv", read_filled):
            return original(*args, **kwargs)

    return mended


def mend_pandas3_series_agg(dataset_class: type, sequential_class: type) -> None:
    """pandas >= 3: ``series.agg(len)``, ``agg(np.concatenate)`` raise where cells are arrays.

    Args:
        dataset_class: RecBole's Dataset.
        sequential_class: RecBole's SequentialDataset.
    """
    import pandas as pd

    if _major(pd) < (3, 0):
        return
    for owner, name in (
        (dataset_class, "_remap"),
        (dataset_class, "_normalize"),
        (dataset_class, "_discretization"),
        (sequential_class, "_benchmark_presets"),
    ):
        _wrap_once(owner, name, _with_cellwise_agg)


def _with_cellwise_agg(original: Callable) -> Callable:
    import pandas as pd

    agg: Callable = pd.Series.agg  # type: ignore[misc]

    def cellwise(series: pd.Series, func: Any = None, *args: Any, **kwargs: Any) -> Any:
        if func is len:
            return series.map(len)
        if func is np.concatenate:
            return np.concatenate(list(series))
        return agg(series, func, *args, **kwargs)

    def mended(*args: Any, **kwargs: Any) -> Any:
        with replaced(pd.Series, "agg", cellwise):
            return original(*args, **kwargs)

    return mended


def mend_scipy_dok_update() -> None:
    """scipy >= 1.13: ``dok_matrix`` lost ``_update``, with which LightGCN and its like fill theirs.

    The entries that they give are in range and not zero, which is what ``_update`` relied on.
    """
    from scipy.sparse import dok_matrix

    if hasattr(dok_matrix, "_update"):
        return

    def update(matrix: Any, entries: Any) -> None:
        matrix._dict.update(entries)

    _put(dok_matrix, "_update", update)


def mend_torch26_load(trainer_class: type) -> None:
    """torch >= 2.6 loads weights only, and RecBole's Trainer cannot read its own checkpoints.

    ``evaluate(load_best_model=True)`` and ``resume_checkpoint`` then read the file through this
    package's allow-list; nothing else about them changes.

    Args:
        trainer_class: RecBole's Trainer.
    """
    import torch

    if _major(torch) < (2, 6):
        return
    for name in ("evaluate", "resume_checkpoint"):
        _wrap_once(trainer_class, name, _with_allow_list)


def _with_allow_list(original: Callable) -> Callable:
    import torch

    from recbole_residual.checkpoint.untrusted import load_recbole_checkpoint

    def mended(*args: Any, **kwargs: Any) -> Any:
        with replaced(torch, "load", load_recbole_checkpoint):
            return original(*args, **kwargs)

    return mended


class _NoTensorboard:
    """What RecBole's Trainer calls of a writer."""

    def add_scalar(self, *args: Any, **kwargs: Any) -> None:
        """Write nothing."""

    add_hparams = close = add_scalar


@contextmanager
def tensorboard_under(folder: str | None) -> Iterator[None]:
    """RecBole's Trainer always writes TensorBoard files under ./log_tensorboard; here, elsewhere.

    Args:
        folder: where a Trainer that is built inside the context writes them; None: nowhere.
    """
    from recbole.trainer import trainer
    from torch.utils.tensorboard import SummaryWriter

    def writer(logger: Any) -> Any:
        return _NoTensorboard() if folder is None else SummaryWriter(folder)

    with replaced(trainer, "get_tensorboard", writer):
        yield


@contextmanager
def recbole_mended() -> Iterator[None]:
    """Inside, RecBole's classes are mended; at the end they are as they were before.

    Where :func:`mend_recbole` has been called before, by ``register()``, its mends stay.
    """
    before = mend_recbole()
    try:
        yield
    finally:
        unmend_recbole(before)


def unmend_recbole(before: int = 0) -> None:
    """Take mends off RecBole's classes again.

    Args:
        before: how many may stay, as :func:`mend_recbole` returned it.
    """
    while len(_replaced) > before:
        owner, name, value = _replaced.pop()
        if value is _MISSING:
            delattr(owner, name)
        else:
            setattr(owner, name, value)


def mend_recbole() -> int:
    """Apply every mend that RecBole's own classes need and do not have.

    Returns:
        How many there were before, for :func:`unmend_recbole`.
    """
    from recbole.data.dataset import Dataset, SequentialDataset
    from recbole.trainer import Trainer

    n_before = len(_replaced)
    mend_missing_numpy_aliases()
    mend_scipy_dok_update()
    mend_pandas3_chained_fillna(Dataset)
    mend_pandas3_series_agg(Dataset, SequentialDataset)
    mend_torch26_load(Trainer)
    return n_before


def silence_known_warnings() -> None:
    """The warnings that RecBole 1.2.1 raises on every run, and no others."""
    for message, module in (
        (r".*torch\.cuda\.amp\.GradScaler", r"recbole\.trainer\.trainer"),
        (r".*A value is trying to be set on a copy of a DataFrame", r"recbole\.data\.dataset"),
        (r"pkg_resources is deprecated", r"ray\."),
    ):
        warnings.filterwarnings("ignore", message=message, module=module)
