"""Tables, figures and the page of one run, or of several."""

from recbole_residual.report.comparison import compare
from recbole_residual.report.page import Report, report
from recbole_residual.report.record import RunRecord
from recbole_residual.report.writing import rewrite_report, write_report

__all__ = ["Report", "RunRecord", "compare", "report", "rewrite_report", "write_report"]
