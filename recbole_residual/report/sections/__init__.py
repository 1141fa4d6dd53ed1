"""The sections of a report on one run, or on several side by side; one file each."""

from __future__ import annotations

from collections.abc import Sequence

from recbole_residual.report.record import RunRecord
from recbole_residual.report.runs import Runs
from recbole_residual.report.section import Section
from recbole_residual.report.sections.accuracy import accuracy_section
from recbole_residual.report.sections.alpha_sweep import alpha_section
from recbole_residual.report.sections.answer import answer_section
from recbole_residual.report.sections.configuration import configuration_section
from recbole_residual.report.sections.dataset import dataset_section
from recbole_residual.report.sections.faithfulness import faithfulness_section
from recbole_residual.report.sections.influence import influence_section
from recbole_residual.report.sections.last_item import last_item_section
from recbole_residual.report.sections.maps import maps_section
from recbole_residual.report.sections.mixing import mixing_section
from recbole_residual.report.sections.papers import papers_section
from recbole_residual.report.sections.positions import positions_section
from recbole_residual.report.sections.reliance import reliance_section
from recbole_residual.report.sections.reliance_curve import reliance_curve_section
from recbole_residual.report.sections.selection import selection_section
from recbole_residual.report.sections.shuffles import shuffles_section

SECTIONS = (
    answer_section,
    dataset_section,
    accuracy_section,
    last_item_section,
    mixing_section,
    maps_section,
    alpha_section,
    selection_section,
    positions_section,
    shuffles_section,
    reliance_section,
    reliance_curve_section,
    faithfulness_section,
    influence_section,
    papers_section,
    configuration_section,
)
"""In the order of the page."""


def build_sections(records: Sequence[RunRecord]) -> list[Section]:
    """Everything there is to say about some runs.

    Args:
        records: one run, or several to lay over each other.
    """
    runs = Runs(records)
    return [section(runs) for section in SECTIONS]
