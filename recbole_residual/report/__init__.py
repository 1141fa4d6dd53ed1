"""Tables, figures and the page of one run, or of several."""

from recbole_residual.report.compare import compare
from recbole_residual.report.record import RunRecord
from recbole_residual.report.report import Report, report

__all__ = ["Report", "RunRecord", "compare", "report"]
