"""Reports: the same tables in a terminal, as Markdown and as one self-contained HTML page; rows as CSV and JSON."""

from snellen.report.summary import SummaryRow, summary_rows
from snellen.report.terminal import (
    capability_table,
    common_tables,
    other_tables,
    step_tables,
    suite_tables,
    summary_table,
)
from snellen.report.write import write_report

__all__ = [
    "SummaryRow",
    "capability_table",
    "common_tables",
    "other_tables",
    "step_tables",
    "suite_tables",
    "summary_rows",
    "summary_table",
    "write_report",
]
