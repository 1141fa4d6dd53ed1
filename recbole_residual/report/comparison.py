"""Several runs side by side: tables, tests across users, and the figures laid over each other."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from recbole_residual.errors import ConfigError
from recbole_residual.report.comparison_answer import tests_sentence
from recbole_residual.report.labels import configurations, labelled
from recbole_residual.report.page import Report
from recbole_residual.report.record import PROGRAM, RunRecord
from recbole_residual.report.sections import build_sections
from recbole_residual.report.sections.over_seeds import over_seeds_section
from recbole_residual.report.sections.paired_tests import paired_tests_section
from recbole_residual.report.sections.side_by_side import side_by_side_section

TERMINAL = ("runs", "over_seeds", "paired_tests")


def compare(sources: Sequence[Any]) -> Report:
    """Lay several runs beside each other.

    Runs that differ in nothing but their seed are one configuration, of which mean and standard
    deviation are given. Configurations on the same dataset are compared by paired tests across
    users, where the runs kept values per user (``export_per_user: True``).

    Args:
        sources: at least two runs: their folders, sessions opened from them, or diagnoses.

    Raises:
        ConfigError: if one is no run's, or there are fewer than two, or one is given twice.

    Example:
        >>> page = compare(["output/run-a", "output/run-b"])  # doctest: +SKIP
        >>> page.tables["paired_tests"], page.save("output/comparison")  # doctest: +SKIP
    """
    read = [RunRecord.read(source) for source in sources]
    if len(read) < 2:
        raise ConfigError("a comparison takes at least two runs: --runs FOLDER FOLDER ...")
    if len({record.folder.resolve() for record in read}) < len(read):
        raise ConfigError("the same run is given twice.")
    records = labelled(read)
    groups = configurations(records)
    command = f"{PROGRAM} --mode=compare --runs " + " ".join(
        shlex.quote(str(record.folder)) for record in records
    )
    answer, *others = build_sections(records)
    tests = paired_tests_section(groups, command)
    *points, uncertain = answer.points
    said = tests_sentence(tests.tables[0].frame)
    sections = [
        replace(answer, points=[*points, said, uncertain]),
        side_by_side_section(records, command),
        over_seeds_section(groups, command),
        tests,
        *others,
    ]
    subtitle = f"{len(records)} runs of {len(groups)} configurations"
    base = Path(os.path.commonpath([record.folder for record in records]))
    return Report("Comparison", subtitle, sections, shown=TERMINAL, base=base)
