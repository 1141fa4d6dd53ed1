"""Tables, figures and the page of one run, or of several."""

from recbole_residual.report.comparison import compare
from recbole_residual.report.page import Report, report
from recbole_residual.report.record import RunRecord

__all__ = ["Report", "RunRecord", "compare", "report"]
