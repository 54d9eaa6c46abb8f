"""Reports: the same tables in a terminal, as Markdown and as one self-contained HTML page; rows as CSV and JSON."""

from snellen.report.figure_files import write_figures
from snellen.report.latex import write_latex_tables
from snellen.report.notebook import html_summary
from snellen.report.paired_tables import comparison_tables
from snellen.report.sequential_tables import decision_table
from snellen.report.summary import SummaryRow, summary_rows
from snellen.report.terminal import (
    both_conventions,
    capability_table,
    common_tables,
    controlled_tables,
    other_tables,
    plain_table,
    step_tables,
    stopped_tables,
    suite_tables,
    summary_table,
)
from snellen.report.write import write_report
from snellen.report.write_comparison import write_comparison

__all__ = [
    "SummaryRow",
    "both_conventions",
    "capability_table",
    "common_tables",
    "comparison_tables",
    "controlled_tables",
    "decision_table",
    "html_summary",
    "other_tables",
    "plain_table",
    "step_tables",
    "stopped_tables",
    "suite_tables",
    "summary_rows",
    "summary_table",
    "write_comparison",
    "write_figures",
    "write_latex_tables",
    "write_report",
]
