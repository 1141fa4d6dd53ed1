"""Writing the report of a run into its folder."""

from __future__ import annotations

import os
from collections.abc import Mapping
from logging import getLogger
from typing import Any, Union

from recbole_residual.errors import ConfigError
from recbole_residual.report.page import Report, report
from recbole_residual.report.record import RunRecord


def write_report(config: Mapping[str, Any], folder: Union[str, os.PathLike[str]]) -> Report | None:
    """Write the report of a run, from what its folder holds, if the configuration wants one.

    Args:
        config: with the keys ``report`` and ``latex``.
        folder: the folder of the run.

    Returns:
        The report; None if none is wanted.
    """
    if not config["report"]:
        return None
    page = report(folder)
    file, *_ = page.save(folder, latex=config["latex"])
    getLogger().info("Saved %s", file)
    return page


def rewrite_report(folder: Union[str, os.PathLike[str]], latex: bool = False) -> Report:
    """Write the report of an earlier run again, with whatever it has been asked since.

    Args:
        folder: the folder of the run.
        latex: write every figure as PDF and every table as LaTeX too.

    Raises:
        ConfigError: if the folder is no run's, or the run has neither a result nor answers of
            probes.
    """
    record = RunRecord.read(folder)
    if not record.has_numbers:
        raise ConfigError(
            f"{str(folder)!r} holds no numbers to report: the run has not finished. Go on with it "
            f"first: --resume={folder}"
        )
    page = report(record)
    page.save(folder, latex)
    return page
