"""What a probe is asked of: a model with its loader, or anything that a session can be opened
from."""

from __future__ import annotations

from typing import Any

import torch

from recbole_residual.errors import ProbeError
from recbole_residual.model.architecture.wrappers import hookable, unwrapped
from recbole_residual.run.session import Session, Source

NO_DATA = (
    "a model alone does not know its data: give it a RecBole loader, such as session.test_data, or "
    "ask a Session, the folder of a run or a checkpoint instead."
)


def model_and_data(source: Source, data: Any = None, part: str = "test") -> tuple[Any, Any]:
    """The model and the loader that a probe works on.

    Args:
        source: a RecBole model, inside ``torch.compile``, ``DataParallel`` or
            ``DistributedDataParallel`` too, or what
            :meth:`Session.open <recbole_residual.run.session.Session.open>` takes.
        data: a RecBole loader; by default that of the session.
        part: which loader of the session, ``valid`` or ``test``.

    Raises:
        ProbeError: if there is no loader.
        ModelError: for a model of which a part was compiled in place.
        ConfigError, CheckpointError: if the source cannot be opened.
    """
    if isinstance(source, torch.nn.Module):
        model = hookable(unwrapped(source))
    else:
        session = Session.open(source)
        model = session.model
        data = getattr(session, f"{part}_data") if data is None else data
    if data is None:
        raise ProbeError(NO_DATA)
    return model, data
