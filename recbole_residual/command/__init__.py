"""The command: what is typed becomes a call; nothing else happens here."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from recbole_residual.command.options import check_use, parse
from recbole_residual.command.ways import WAYS
from recbole_residual.config.recbole_version import check_recbole_version
from recbole_residual.config.unknown import refuse_early
from recbole_residual.errors import ResidualError


def main(argv: Sequence[str] | None = None, prog: str | None = None) -> int:
    """Run the command; the console script ``recbole-residual`` and run_recbole_residual.py.

    Args:
        argv: the arguments, ``sys.argv[1:]`` by default.
        prog: how the command is called in messages.

    Returns:
        Exit code: 0, or 2 for a mistake that a message explains, or 130 after Ctrl-C.
    """
    arguments = sys.argv[1:] if argv is None else argv
    try:
        options, keys = parse(arguments, prog)
        _dispatch(options, keys)
    except KeyboardInterrupt:
        return 130
    except ResidualError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _dispatch(options: argparse.Namespace, keys: dict[str, Any]) -> None:
    way = "resume" if options.resume else options.mode
    check_use(options, way)
    if way == "train" and (options.model or not options.config_files):
        refuse_early(options.model, keys)
    from recbole_residual import compat  # torch is slow to import, and --help does not need it

    check_recbole_version()
    with warnings.catch_warnings():
        compat.silence_known_warnings()
        WAYS[way](options, keys)
